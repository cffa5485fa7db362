// Package jsonpath prints parts of an object as kubectl's -o jsonpath does.
package jsonpath

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	"burnish/starter/internal/terminal"
)

// Template is a template of kubectl's, such as {.devices[*].name}.
type Template struct{ parsed *jsonpath.JSONPath }

// Parse reads a template. A path alone may do without its braces and its first dot.
func Parse(text string) (Template, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Template{}, fmt.Errorf("the template is empty")
	case !strings.Contains(text, "{"):
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	// What an object does not have is left out, as kubectl does.
	parsed := jsonpath.New("output").AllowMissingKeys(true)
	if err := parsed.Parse(text); err != nil {
		return Template{}, fmt.Errorf("the template cannot be read: %w", err)
	}
	return Template{parsed}, nil
}

// Print writes what the template gives of an object in its JSON form, and a line's end.
// Control characters within the object's texts become question marks: they come from
// devices, and a terminal would obey them.
func (t Template) Print(w io.Writer, object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var plain any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&plain); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var b bytes.Buffer
	if err := t.parsed.Execute(&b, harmless(plain)); err != nil {
		return fmt.Errorf("the template does not fit: %w", err)
	}
	if !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
		b.WriteByte('\n')
	}
	_, err = w.Write(b.Bytes())
	return err
}

// harmless replaces control characters in all texts of a value, and gives whole numbers as
// such: they are sizes in bytes.
func harmless(value any) any {
	switch v := value.(type) {
	case string:
		return terminal.Harmless(v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		for i := range v {
			v[i] = harmless(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = harmless(v[key])
		}
	}
	return value
}
