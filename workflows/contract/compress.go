package contract

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
)

// Compress gives a value as compressed JSON, for the state that a continue-as-new carries.
func Compress(value any) ([]byte, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err == nil {
		err = json.NewEncoder(w).Encode(value)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return out.Bytes(), nil
}

// Decompress reads what Compress gave.
func Decompress(compressed []byte, into any) error {
	if err := json.NewDecoder(flate.NewReader(bytes.NewReader(compressed))).Decode(into); err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	return nil
}
