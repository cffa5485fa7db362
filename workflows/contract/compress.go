package contract

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Compress gives a value as compressed JSON, for the state that a continue-as-new carries.
func Compress(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return compress(text)
}

// compressLast is Compress without the oldest of the values, as far as the others would not fit
// into limit bytes. The last one is kept, whatever its size.
func compressLast[T any](all []T, limit int) ([]byte, error) {
	for {
		compressed, err := Compress(all)
		if err != nil || len(compressed) <= limit || len(all) <= 1 {
			return compressed, err
		}
		all = all[1:]
	}
}

// writers are used again: each has tables of more than 1 MiB.
var writers sync.Pool

func compress(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, again := writers.Get().(*flate.Writer)
	if !again {
		var err error
		if w, err = flate.NewWriter(&out, flate.BestSpeed); err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
	}
	defer writers.Put(w)
	w.Reset(&out)
	_, err := w.Write(text)
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
