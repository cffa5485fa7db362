package config

import (
	"os"
	"reflect"
	"slices"
	"strings"
)

// The variables of the command line, which are no settings of a worker: the API that it sends
// its requests to, and a token that the API accepts.
const (
	VarAPI      = "BURNISH_API"
	VarAPIToken = "BURNISH_API_TOKEN"
)

// Given lists the BURNISH_ variables that the environment sets: known are the settings of a
// worker, unknown the others, which are usually misspelled.
func Given() (known, unknown []string) {
	texts := helpTexts()
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		switch _, is := texts[name]; {
		case !strings.HasPrefix(name, prefix) || value == "" || name == VarAPI || name == VarAPIToken:
		case is:
			known = append(known, name)
		default:
			unknown = append(unknown, name)
		}
	}
	slices.Sort(known)
	slices.Sort(unknown)
	return known, unknown
}

// helpTexts gives each variable's help, from the struct's tags.
func helpTexts() map[string]string {
	texts := map[string]string{}
	each(func(f reflect.StructField, variable string) { texts[variable] = f.Tag.Get("help") })
	return texts
}

// variableOf gives the variable that sets a field of Worker.
func variableOf(field string) string {
	name := field
	each(func(f reflect.StructField, variable string) {
		if f.Name == field {
			name = variable
		}
	})
	return name
}

func each(do func(f reflect.StructField, variable string)) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Worker]()) {
		if tag, ok := f.Tag.Lookup("env"); ok {
			do(f, prefix+strings.Split(tag, ",")[0])
		}
	}
}
