package redfish

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// attributes are values of a BIOS by name: text, numbers (json.Number) and booleans.
type attributes map[string]any

// names are the attributes' names in order.
func (a attributes) names() []string { return slices.Sorted(maps.Keys(a)) }

// sameValue compares two values of one attribute. A BMC may write a number or a boolean as
// text in one resource and not in the other.
func sameValue(a, b any) bool {
	x, y := valueText(a), valueText(b)
	if x == y {
		return true
	}
	_, text := a.(string)
	if _, second := b.(string); text && second {
		return false
	}
	m, isNumber := number(x)
	if n, both := number(y); isNumber && both {
		return m.Cmp(n) == 0
	}
	return isBool(a, b) && strings.EqualFold(x, y)
}

func isBool(values ...any) bool {
	return slices.ContainsFunc(values, func(v any) bool { _, ok := v.(bool); return ok })
}

// valueText is a value as a message shows it.
func valueText(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// isScalar: text, a number or a boolean.
func isScalar(v any) bool {
	switch v.(type) {
	case string, bool, json.Number:
		return true
	}
	return false
}

// registry is a BIOS attribute registry: what attributes there are.
type registry map[string]*registryAttribute

// registryAttribute is one attribute of a registry.
type registryAttribute struct {
	Name         string `json:"AttributeName"`
	Type         string
	Default      any  `json:"DefaultValue"`
	ReadOnly     bool `bmc:"optional"`
	Immutable    bool `bmc:"optional"`
	WriteOnly    bool
	SystemUnique bool `json:"IsSystemUniqueProperty" bmc:"optional"`
}

// registryFile is an AttributeRegistry as BMCs have it.
type registryFile struct {
	Entries struct {
		Attributes []*registryAttribute `bmc:"required"`
	} `json:"RegistryEntries" bmc:"required"`
}

// registry is nil where the file has none.
func (f registryFile) registry() (r registry) {
	for _, a := range f.Entries.Attributes {
		if a != nil && a.Name != "" {
			if r == nil {
				r = make(registry)
			}
			r[a.Name] = a
		}
	}
	return r
}

// uniqueName are names of attributes that are different on each server and that a reset of
// the BIOS keeps, though some registries do not say so.
var uniqueName = regexp.MustCompile(`(?i)(serial_?n(umber|o|um)|asset_?tag|service_?tag|uuid|mac_?addr)|` +
	`^(sys(tem)?)?(date|time)$`)

// isSetting: the attribute is one that can be set and read, and that is not the server's own:
// no serial, asset tag, date or password.
func (a *registryAttribute) isSetting() bool {
	return !a.ReadOnly && !a.Immutable && !a.WriteOnly && !a.SystemUnique && a.Type != "Password" &&
		!uniqueName.MatchString(a.Name)
}

// notDefault compares a BIOS with the defaults of its registry. It gives how many attributes
// were compared, and one short text for each that differs.
func notDefault(current attributes, r registry) (compared int, differ []string) {
	for _, name := range current.names() {
		entry := r[name]
		if entry == nil || !entry.isSetting() || !isScalar(current[name]) || !isScalar(entry.Default) {
			continue
		}
		compared++
		if !sameValue(current[name], entry.Default) {
			differ = append(differ, difference(name, current[name], entry.Default))
		}
	}
	return compared, differ
}

// notInForce gives one short text for each wanted attribute that the BIOS does not show.
func notInForce(current, wanted attributes) (differ []string) {
	for _, name := range wanted.names() {
		if !sameValue(current[name], wanted[name]) {
			differ = append(differ, difference(name, current[name], wanted[name]))
		}
	}
	return differ
}

func difference(name string, is, want any) string {
	return fmt.Sprintf("%s is %q instead of %q", name, hardware.OneLine(valueText(is)), hardware.OneLine(valueText(want)))
}

// pendingIn gives the attributes that the settings resource shows with another value than the
// BIOS has: those that somebody wants and that are not in force. What is no setting may
// differ always.
func pendingIn(settings, current attributes, r registry) attributes {
	pending := attributes{}
	for name, v := range settings {
		if entry := r[name]; entry != nil && !entry.isSetting() || !isScalar(v) || sameValue(current[name], v) {
			continue
		}
		pending[name] = v
	}
	return pending
}

// fit brings the wanted attributes into the types that the BIOS has for them: what was given as text may be a
// number. What the BIOS does not have or cannot take, its BMC refuses. A password is never sent.
func fit(wanted, current attributes, r registry) (attributes, error) {
	fitting := attributes{}
	for name, v := range wanted {
		entry := cmp.Or(r[name], &registryAttribute{Type: kindOf(current[name])})
		text, wrong := valueText(v), ""
		n, isWhole := whole(text)
		isTrue := strings.EqualFold(text, "true")
		switch {
		case !isScalar(v):
			wrong = "is neither text, a number nor a boolean"
		case entry.WriteOnly || entry.Type == "Password":
			wrong = "is a password: it cannot be read back, and would stand in the history"
		case entry.Type == "Integer" && isWhole:
			v = json.Number(n.String())
		case entry.Type == "Boolean" && (isTrue || strings.EqualFold(text, "false")):
			v = isTrue
		case entry.Type != "Integer" && entry.Type != "Boolean":
			v = text
		}
		if wrong != "" {
			return nil, hardware.Refused(device.CodeBIOSSettingInvalid, "correct the BIOS settings of the policy, or the "+
				"step's arguments", "nothing was sent: %s %s", name, wrong)
		}
		fitting[name] = v
	}
	return fitting, nil
}

// kindOf is the registry's word for a value's type.
func kindOf(v any) string {
	switch v.(type) {
	case bool:
		return "Boolean"
	case json.Number:
		return "Integer"
	}
	return "String"
}
