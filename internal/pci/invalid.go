package pci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Invalid is why a spec or a device cannot be used.
type Invalid struct {
	// Entry is the position in a list of specs, from 1; 0 where there is no list.
	Entry int
	// Field is the invalid key, such as vendor_id or address.bus; "" is the whole spec.
	Field  string
	Reason string
}

// Error is one line: the entry, the field, the reason.
func (e *Invalid) Error() string {
	text := e.Reason
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Entry > 0 {
		text = fmt.Sprintf("entry %d: %s", e.Entry, text)
	}
	return text
}

func invalid(field, format string, args ...any) *Invalid {
	return &Invalid{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// object reads one JSON object. A duplicate key is an error: either value may be the
// one that was meant. The keys in errors begin with prefix.
func object(text []byte, prefix string) (map[string]json.RawMessage, error) {
	whole := prefix
	if prefix != "" {
		prefix += "."
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, invalid(whole, "is empty; it must be a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	first, err := d.Token()
	if err != nil {
		return nil, invalid(whole, "is not JSON: %s", reason(err))
	}
	if first != json.Delim('{') {
		return nil, invalid(whole, "is not a JSON object")
	}
	fields := make(map[string]json.RawMessage)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, invalid(whole, "is not JSON: %s", reason(err))
		}
		key, ok := token.(string)
		if !ok {
			return nil, invalid(whole, "is not JSON: a key is not a string")
		}
		if _, twice := fields[key]; twice {
			return nil, invalid(prefix+quoteKey(key), "is a duplicate key")
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, invalid(prefix+quoteKey(key), "is not JSON: %s", reason(err))
		}
		fields[key] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, invalid(whole, "is not JSON: %s", reason(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, invalid(whole, "has more text after the object")
	}
	return fields, nil
}

// reason gives the decoder's message; its bare "EOF" says too little.
func reason(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "unexpected end"
	}
	return err.Error()
}

// parseString reads a JSON string.
func parseString(field string, value json.RawMessage) (string, error) {
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text == nil {
		return "", invalid(field, "must be a string, not %s", kind(value))
	}
	return *text, nil
}

// quoteKey gives a key for one line of text, in quotes where it needs them.
func quoteKey(key string) string {
	if quoted := strconv.Quote(key); quoted != `"`+key+`"` || key == "" {
		return quoted
	}
	return key
}

// kind describes a JSON value; a short one is shown as it is.
func kind(value json.RawMessage) string {
	switch {
	case value[0] == '{':
		return "an object"
	case value[0] == '[':
		return "a list"
	case len(value) > 32:
		return "a longer value"
	}
	return string(value)
}
