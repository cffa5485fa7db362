package config

import (
	"fmt"
	"strings"
)

// NameMap maps names to names, written `A=B, C=D`.
type NameMap map[string]string

// UnmarshalText reads the list, in which each name may occur once.
func (m *NameMap) UnmarshalText(text []byte) error {
	all := NameMap{}
	for pair := range strings.SplitSeq(string(text), ",") {
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || value == "" {
			return fmt.Errorf("%q is not of the form NAME=NAME", strings.TrimSpace(pair))
		}
		for other := range all {
			if strings.EqualFold(other, name) {
				return fmt.Errorf("%q is listed twice", name)
			}
		}
		all[name] = value
	}
	*m = all
	return nil
}

func (m NameMap) lower() NameMap {
	if m == nil {
		return nil
	}
	all := NameMap{}
	for name, value := range m {
		all[strings.ToLower(name)] = strings.ToLower(value)
	}
	return all
}
