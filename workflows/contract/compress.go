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

// compress gives some texts, one behind the other, as one compressed text.
func compress[T ~[]byte](texts ...T) ([]byte, error) {
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
	for _, text := range texts {
		if _, err := c.Write(text); err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
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

// list contains the entries of a log as JSON, the latest last. What is added, or left out,
// leaves the others as they are: they are neither decoded nor encoded again.
type list []json.RawMessage

// readList reads the entries of a log that compressed gave; none from an empty one.
func readList(log []byte) (list, error) {
	if len(log) == 0 {
		return nil, nil
	}
	var l list
	return l, Decompress(log, &l)
}

// listOf gives values as entries.
func listOf[T any](values ...T) (list, error) {
	l := make(list, len(values))
	for i := range values {
		var err error
		if l[i], err = json.Marshal(values[i]); err != nil {
			return nil, fmt.Errorf("compress: %w", err)
		}
	}
	return l, nil
}

// last is the list without the oldest entries, as far as there are more than number of them, or
// more than size bytes of JSON. The last one is kept, whatever its size.
func (l list) last(number, size int) list {
	total, first := len("["), len(l)
	for ; first > 0 && len(l)-first < number; first-- {
		if total += len(l[first-1]) + len(","); total > size && first < len(l) {
			break
		}
	}
	return l[first:]
}

// compressed gives the list without the oldest entries, as far as the others would not fit into
// limit bytes. The last one is kept, whatever its size.
func (l list) compressed(limit int) ([]byte, error) {
	texts := make(list, 0, 2*len(l)+1)
	for i, entry := range l {
		between := ","
		if i == 0 {
			between = "["
		}
		texts = append(texts, json.RawMessage(between), entry)
	}
	texts = append(texts, json.RawMessage("]"))
	if len(l) == 0 {
		texts = list{json.RawMessage("[]")}
	}
	compressed, err := compress(texts...)
	if err == nil && len(compressed) > limit && len(l) > 1 {
		return l[1:].compressed(limit)
	}
	return compressed, err
}
