package yamlfile

import (
	"encoding"
	"reflect"
	"strconv"
	"strings"
)

// Decode reads a mapping into the struct that into points to, by Keys. A value is taken as it is written
// (0012 stays 0012), and none may be empty, but those of a mapping of texts; numbers are positive.
// check, unless it is nil, gets a pointer to each struct that was read without a problem, the inner ones
// first; what it says is a problem of that mapping.
func (r *Reader) Decode(n Node, what string, into any, check func(into any) error) {
	r.decode(n, what, reflect.ValueOf(into).Elem(), check)
}

// Keys are the keys of the mapping that Decode reads into a struct of this type: the names by which its
// fields have the tag yaml, or else json. yaml:"-" leaves one out, and so does api:"-", what no client
// may say.
func Keys(of reflect.Type) []string {
	var keys []string
	for i := range of.NumField() {
		if key := keyOf(of.Field(i)); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func keyOf(f reflect.StructField) string {
	tag, given := f.Tag.Lookup("yaml")
	if !given {
		tag = f.Tag.Get("json")
	}
	key, _, _ := strings.Cut(tag, ",")
	if key == "-" || f.Tag.Get("api") == "-" {
		return ""
	}
	return key
}

func (r *Reader) decode(n Node, what string, into reflect.Value, check func(any) error) {
	if itself, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if text := r.given(n, what); text != "" {
			if err := itself.UnmarshalText([]byte(text)); err != nil {
				r.Problem(n, "%s: %s", what, err)
			}
		}
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		r.decodeStruct(n, what, into, check)
	case reflect.Slice:
		for _, item := range r.List(n, what) {
			one := reflect.New(into.Type().Elem()).Elem()
			r.decode(item, "an item of "+what, one, check)
			into.Set(reflect.Append(into, one))
		}
	case reflect.Map:
		into.Set(reflect.MakeMap(into.Type()))
		for name, text := range r.Mapping(n, what) {
			into.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(r.Scalar(text, what+": "+name)))
		}
	case reflect.Bool:
		into.SetBool(r.Bool(n, what))
	case reflect.Int, reflect.Int64:
		text := r.given(n, what)
		number, err := strconv.ParseInt(text, 10, into.Type().Bits())
		if text != "" && (err != nil || number < 1 || strconv.FormatInt(number, 10) != text) {
			r.Problem(n, "%s: %q is not a positive number", what, text)
		}
		into.SetInt(number)
	default:
		into.SetString(r.given(n, what))
	}
}

func (r *Reader) decodeStruct(n Node, what string, into reflect.Value, check func(any) error) {
	switch {
	case n.node == nil && len(r.problems) > 0: // the file could not be parsed
		return
	case n.Nothing():
		r.Problem(n, "%s must be a mapping, not nothing", what)
		return
	}
	before, fields := len(r.problems), map[string]reflect.Value{}
	for i := range into.NumField() {
		fields[keyOf(into.Type().Field(i))] = into.Field(i)
	}
	for key, value := range r.Mapping(n, what, Keys(into.Type())...) {
		r.decode(value, key, fields[key], check)
	}
	if check != nil && len(r.problems) == before {
		if err := check(into.Addr().Interface()); err != nil {
			r.Problem(n, "%s", err)
		}
	}
}

// given is a value that must be there.
func (r *Reader) given(n Node, what string) string {
	if n.Nothing() {
		r.Problem(n, "%s has no value", what)
		return ""
	}
	before := len(r.problems)
	text := r.Scalar(n, what)
	if strings.TrimSpace(text) == "" && len(r.problems) == before {
		r.Problem(n, "%s has no value", what)
	}
	return text
}
