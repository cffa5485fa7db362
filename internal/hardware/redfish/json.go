package redfish

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"burnish/internal/hardware"
)

// What BMCs write differs from the schemas in its types: whole numbers as 1.2288e+14, 26.0 or "26",
// an empty list for an object without properties, texts that are numbers. All of it is read here, and
// what can only mean one thing is taken as that. Any other type than the property's own makes the
// resource unreadable: what it says is unknown, and not nothing. But where the field has the tag
// bmc:"optional", it costs that property only, and where it has bmc:"object", only what is in an object
// counts. One with bmc:"required" must be there.

// link is where a resource is, or what an action is posted to: its path on the BMC, "" for none.
type link string

// paths are links as texts.
func paths(links []link) []string {
	var all []string
	for _, l := range links {
		all = append(all, string(l))
	}
	return all
}

// unreadable is a type that keeps the words of a value that its optional property cannot have.
type unreadable interface{ unreadable(words string) }

// parse reads JSON, with its numbers as they are written.
func parse(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document in it")
	}
	return v, nil
}

// plainNumbers writes the whole numbers in v as digits.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, ok := whole(v.String()); ok {
			return json.Number(n.String())
		}
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = plainNumbers(v[key])
		}
	}
	return v
}

// decimal is a number; Inf, 0x10 and 1/2 are numbers elsewhere, and one of a billion digits is none.
var decimal = regexp.MustCompile(`^[-+]?[0-9]{1,60}(\.[0-9]{1,60})?([eE][-+]?[0-9]{1,3})?$`)

// number reads a number exactly.
func number(text string) (*big.Rat, bool) {
	if !decimal.MatchString(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// whole reads a whole number, however it is written.
func whole(text string) (*big.Int, bool) {
	n, ok := number(text)
	if !ok || !n.IsInt() {
		return nil, false
	}
	return n.Num(), true
}

// isEmpty: there is nothing in v, of whatever type it is.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// reader reads one document of a BMC.
type reader struct {
	// resolve gives the path of a link of this document; false: it leads to another host.
	resolve func(link string) (path string, ok bool)
}

// wrongType is the error of a property of another type.
func wrongType(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return fmt.Errorf("%s is %s", strings.TrimPrefix(name, "."), hardware.OneLine(string(text)))
}

// read reads v, which the property name has, into to.
func (r reader) read(name string, v any, to reflect.Value) error {
	if to.Type() == reflect.TypeFor[link]() {
		return r.readLink(name, v, to)
	}
	text, isText := v.(string)
	if n, ok := v.(json.Number); ok {
		text = n.String()
	}
	switch to.Kind() {
	case reflect.Interface:
		if v != nil {
			to.Set(reflect.ValueOf(plainNumbers(v)))
		}
		return nil
	case reflect.Pointer:
		if isEmpty(v) {
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return r.read(name, v, to.Elem())
	case reflect.Struct:
		if object, ok := v.(map[string]any); ok {
			return r.readObject(name, object, to)
		}
	case reflect.Map:
		if object, ok := plainNumbers(v).(map[string]any); ok {
			to.Set(reflect.ValueOf(object).Convert(to.Type()))
			return nil
		}
	case reflect.Slice:
		list, ok := v.([]any)
		if ok || isEmpty(v) {
			return r.readList(name, list, to)
		}
	case reflect.String:
		if text != "" {
			to.SetString(text)
			return nil
		}
	case reflect.Bool:
		is, ok := v.(bool)
		if ok || isText && (strings.EqualFold(text, "true") || strings.EqualFold(text, "false")) {
			to.SetBool(is || strings.EqualFold(text, "true"))
			return nil
		}
	case reflect.Int, reflect.Int64:
		if n, ok := whole(text); ok && n.IsInt64() {
			to.SetInt(n.Int64())
			return nil
		}
	case reflect.Float64:
		if f, ok := number(text); ok {
			as, _ := f.Float64()
			to.SetFloat(as)
			return nil
		}
	}
	if isEmpty(v) {
		return nil
	}
	return wrongType(name, v)
}

func (r reader) readLink(name string, v any, to reflect.Value) error {
	target := v
	object, _ := v.(map[string]any)
	for _, key := range []string{"@odata.id", "href"} { // href: before Redfish 1.0
		if value, there := object[key]; there {
			target = value
			break
		}
	}
	text, ok := target.(string)
	path, here := r.resolve(text)
	if !ok && !isEmpty(target) || !here {
		return wrongType(name, v)
	}
	to.SetString(path)
	return nil
}

func (r reader) readList(name string, list []any, to reflect.Value) error {
	to.Set(reflect.MakeSlice(to.Type(), len(list), len(list)))
	for i, v := range list {
		if err := r.read(fmt.Sprintf("%s[%d]", name, i), v, to.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// versioned is what comes before the name of an action: its namespace's version, or the type of an
// OEM's, as in DellManager.v1_0_0#DellManager.ClearPending.
var versioned = regexp.MustCompile(`^.*#|\.v[0-9]+_[0-9]+_[0-9]+`)

// propertyName is a key as properties are compared, which BMCs write in any case.
func propertyName(key string) string {
	if strings.Contains(key, "#") {
		key = "#" + versioned.ReplaceAllString(key, "")
	}
	return strings.ToLower(key)
}

func (r reader) readObject(name string, object map[string]any, to reflect.Value) error {
	properties := make(map[string]any, len(object))
	for _, key := range slices.Backward(slices.Sorted(maps.Keys(object))) {
		properties[propertyName(key)] = object[key]
	}
	for i := range to.NumField() {
		field := to.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		key := field.Name
		if named := field.Tag.Get("json"); named != "" {
			key = named
		}
		v, there := object[key]
		if !there {
			v, there = properties[propertyName(key)]
		}
		tag := field.Tag.Get("bmc")
		if _, isObject := v.(map[string]any); !there && tag != "required" || tag == "object" && !isObject {
			continue
		}
		if !there {
			return fmt.Errorf("it has no %s", strings.TrimPrefix(name+"."+key, "."))
		}
		err := r.read(name+"."+key, v, to.Field(i))
		if err != nil && tag == "optional" {
			to.Field(i).SetZero()
			if keeps, ok := to.Field(i).Addr().Interface().(unreadable); ok {
				keeps.unreadable(err.Error())
			}
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
