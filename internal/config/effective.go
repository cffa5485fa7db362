package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"burnish/internal/nova/brokers"
	"burnish/internal/spelling"
)

// Setting is a setting as it is in force.
type Setting struct{ Variable, Value string }

// Effective lists the settings that the worker uses, those that are not set with their
// defaults. Secrets are left out.
func (w Worker) Effective() []Setting {
	var all []Setting
	each(func(f reflect.StructField, variable string) {
		value := reflect.ValueOf(w).FieldByIndex(f.Index).Interface()
		if f.Name == "NovaBroker" {
			value = brokersOf(w.NovaBroker)
		}
		all = append(all, Setting{variable, textOf(value)})
	})
	return all
}

// brokersOf names the brokers of an address, without its password.
func brokersOf(address string) []string {
	var names []string
	if all, err := brokers.Parse(address); err == nil && address != "" {
		for _, b := range all {
			names = append(names, b.String())
		}
	}
	return names
}

// textOf is a value in the form of its variable.
func textOf(value any) string {
	switch v := value.(type) {
	case []string:
		return strings.Join(v, ",")
	case NameMap:
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			pairs = append(pairs, name+"="+v[name])
		}
		return strings.Join(pairs, ",")
	}
	return fmt.Sprint(value)
}

// Nearest is the variable that is spelled most like an unknown one; "" if none is.
func Nearest(unknown string) string {
	name := strings.TrimPrefix(unknown, prefix)
	known := []string{VarAPI, VarAPIToken}
	each(func(_ reflect.StructField, variable string) { known = append(known, variable) })
	for i, variable := range known {
		known[i] = strings.TrimPrefix(variable, prefix)
	}
	if near := spelling.Near(name, known); len(near) > 0 {
		return prefix + near[0]
	}
	return ""
}
