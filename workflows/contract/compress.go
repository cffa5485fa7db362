package contract

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Compress gives a value as compressed JSON, for the state that a continue-as-new carries.
func Compress(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return compress(text)
}

func compress(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return bytes.Clone(out.Bytes()), nil
}

// Decompress reads what Compress gave.
func Decompress(compressed []byte, into any) error {
	text, err := io.ReadAll(flate.NewReader(bytes.NewReader(compressed)))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	return nil
}
