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

// compressor is used again: its tables take more than 1 MiB.
type compressor struct {
	*flate.Writer
	out bytes.Buffer
}

var compressors sync.Pool

func compress(text []byte) ([]byte, error) {
	c, again := compressors.Get().(*compressor)
	if !again {
		c = &compressor{}
		var err error
		if c.Writer, err = flate.NewWriter(&c.out, flate.BestSpeed); err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
	}
	defer compressors.Put(c)
	c.out.Reset()
	c.Reset(&c.out)
	if _, err := c.Write(text); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return bytes.Clone(c.out.Bytes()), nil
}

// decompressor is used again: its window takes 40 KiB.
type decompressor struct {
	io.ReadCloser
	in   bytes.Reader
	text bytes.Buffer
}

var decompressors sync.Pool

// Decompress reads what Compress gave.
func Decompress(compressed []byte, into any) error {
	if err := decompress(compressed, into); err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	return nil
}

func decompress(compressed []byte, into any) error {
	d, again := decompressors.Get().(*decompressor)
	if !again {
		d = &decompressor{}
		d.ReadCloser = flate.NewReader(&d.in)
	}
	defer decompressors.Put(d)
	d.text.Reset()
	d.in.Reset(compressed)
	if flater, ok := d.ReadCloser.(flate.Resetter); !ok {
		return errors.ErrUnsupported
	} else if err := flater.Reset(&d.in, nil); err != nil {
		return err
	}
	if _, err := d.text.ReadFrom(d); err != nil {
		return err
	}
	return json.Unmarshal(d.text.Bytes(), into) // copies what it keeps
}
