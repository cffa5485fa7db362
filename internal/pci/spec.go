package pci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Spec is one entry of device_spec. All its criteria must hold for a device to match.
// The zero Spec matches nothing.
type Spec struct {
	vendor, product string // four digits, or wild
	address         criterion
	devname         string // "" where it is no criterion
	tags            map[string]json.RawMessage
}

// ParseSpec reads one entry from a JSON object, as Nova and Cyborg do:
//
//   - vendor_id, product_id: hexadecimal, at most FFFF; "*" is any;
//   - address and devname: what is false in Python (null, "", 0, an empty object) is as absent;
//   - address: a string domain:bus:slot.function, aligned to the right, where a blank
//     field or * is any; or an object of regular expressions domain, bus, slot and
//     function, which match as a prefix and know capitals from small letters;
//   - devname: a network interface; it excludes address;
//   - one_time_use and live_migratable: what Nova takes for yes and no; null is as absent;
//   - clear_action and clear_strategy: Cyborg's policy;
//   - every other key is a tag: kept, and not matched.
//
// An error is *Invalid and names the field.
func ParseSpec(text []byte) (Spec, error) {
	given, err := object(text, "")
	if err != nil {
		return Spec{}, err
	}
	s := Spec{vendor: wildcard, product: wildcard, address: anyAddress, tags: given}
	if value, ok := pop(given, "vendor_id"); ok {
		if s.vendor, err = identifierOrAny("vendor_id", value); err != nil {
			return Spec{}, err
		}
	}
	if value, ok := pop(given, "product_id"); ok {
		if s.product, err = identifierOrAny("product_id", value); err != nil {
			return Spec{}, err
		}
	}
	place, hasPlace := pop(given, "address")
	if hasPlace = hasPlace && !isFalse(place); hasPlace {
		if s.address, err = parseAddress(place); err != nil {
			return Spec{}, err
		}
	}
	if value, ok := pop(given, "devname"); ok && !isFalse(value) {
		if s.devname, err = parseString("devname", value); err != nil {
			return Spec{}, err
		}
		if hasPlace {
			return Spec{}, invalid("devname", "excludes address; give only one of them")
		}
	}
	for _, key := range []string{oneTimeUse, liveMigratable} {
		value, ok := given[key]
		if !ok || string(value) == "null" {
			continue
		}
		yes, err := parseBool(key, value)
		if err != nil {
			return Spec{}, err
		}
		// Nova stores the tag as a string, whatever form it was given in.
		given[key] = json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(yes)))
	}
	return s, s.checkPolicy()
}

// The tags that are interpreted: Nova's (S0.2, S0.24), and Cyborg's (S2.8, S2.9).
const (
	oneTimeUse     = "one_time_use"
	liveMigratable = "live_migratable"
	clearAction    = "clear_action"
	clearStrategy  = "clear_strategy"
)

func pop(fields map[string]json.RawMessage, key string) (json.RawMessage, bool) {
	value, ok := fields[key]
	delete(fields, key)
	return value, ok
}

func identifierOrAny(field string, value json.RawMessage) (string, error) {
	text, err := parseString(field, value)
	// Nova takes the blanks off the vendor only.
	if err != nil || text == wildcard || field == "vendor_id" && strings.TrimSpace(text) == wildcard {
		return wildcard, err
	}
	digits, why := hexadecimal(text, 4, 0xFFFF)
	if why != "" {
		return "", invalid(field, "%s", why)
	}
	return digits, nil
}

// isFalse says whether Python takes a JSON value for false.
func isFalse(value json.RawMessage) bool {
	var python any
	if json.Unmarshal(value, &python) != nil {
		return false
	}
	switch is := python.(type) {
	case nil:
		return true
	case bool:
		return !is
	case float64:
		return is == 0
	case string:
		return is == ""
	case []any:
		return len(is) == 0
	case map[string]any:
		return len(is) == 0
	}
	return false
}

func parseAddress(value json.RawMessage) (criterion, error) {
	switch value[0] {
	case '{':
		return parseExpressions(value)
	case '"':
		text, err := parseString("address", value)
		if err != nil {
			return nil, err
		}
		return parseGlob(text)
	}
	return nil, invalid("address", "must be a string or an object, not %s", kind(value))
}

// parseBool reads what oslo.utils' bool_from_string does: a word for yes or no in any case, with
// blanks around it, as Nova asks for it; or true, false, 1 or 0 without quotes.
func parseBool(field string, value json.RawMessage) (bool, error) {
	text := string(value)
	if value[0] == '"' {
		var err error
		if text, err = parseString(field, value); err != nil {
			return false, err
		}
		text = strings.ToLower(strings.TrimSpace(text))
	}
	switch text {
	case "yes", "true", "on", "y", "t", "1":
		return true, nil
	case "no", "false", "off", "n", "f", "0", "-0":
		return false, nil
	}
	return false, invalid(field, "must be one of yes, no, true, false, on, off, y, n, t, f, 1, 0, not %s", kind(value))
}

// checkPolicy checks Cyborg's policy: the values, and the one pair of them that is
// contradictory (S2.8, S2.9, S2.23).
func (s Spec) checkPolicy() error {
	chosen := make(map[string]string)
	for _, policy := range [][]string{
		{clearAction, "auto", "sanitize", "zero"},
		{clearStrategy, "auto", "crypto", "block"},
	} {
		key, known := policy[0], policy[1:]
		value, ok := s.tags[key]
		if !ok {
			continue
		}
		text, err := parseString(key, value)
		if err != nil {
			return err
		}
		if !slices.Contains(known, text) {
			return invalid(key, "%q is unknown: must be one of %s", text, strings.Join(known, ", "))
		}
		chosen[key] = text
	}
	if chosen[clearAction] == "zero" && chosen[clearStrategy] == "crypto" {
		return invalid(clearStrategy, "crypto is impossible with clear_action zero")
	}
	return nil
}

// Narrows says whether there is a device that the spec does not match.
func (s Spec) Narrows() bool {
	return s.address == nil || s.vendor != wildcard || s.product != wildcard || s.devname != "" || !s.address.any()
}

// OneTimeUse says whether the devices of this spec stay reserved after one binding;
// absent means no (S0.2).
func (s Spec) OneTimeUse() bool {
	return string(s.tags[oneTimeUse]) == `"true"`
}

// LiveMigratable says whether an instance with a device of this spec can be migrated while it
// runs; absent means no (S0.24).
func (s Spec) LiveMigratable() bool {
	return string(s.tags[liveMigratable]) == `"true"`
}

// ClearAction and ClearStrategy are the erase policy of the devices of this spec; absent
// means the policy for all devices (S2.105).
func (s Spec) ClearAction() string { return s.tag(clearAction) }

// ClearStrategy is the other half; see ClearAction.
func (s Spec) ClearStrategy() string { return s.tag(clearStrategy) }

// tag is a tag whose value is text, which checkPolicy has checked.
func (s Spec) tag(key string) (text string) {
	value, ok := s.tags[key]
	if !ok || json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

// Tags gives every key that is not a criterion, with its value as written, except for
// one_time_use and live_migratable, which are "true" or "false". It is never nil.
func (s Spec) Tags() map[string]json.RawMessage {
	tags := make(map[string]json.RawMessage, len(s.tags))
	maps.Copy(tags, s.tags)
	return tags
}

// Match says whether all criteria hold for d. A spec that names one address, or a
// network interface, of a physical function matches its virtual functions too. The
// error, *Invalid, says that d lacks a field that the spec requires, or that d is a
// virtual function and the spec has one_time_use (S0.13).
func (s Spec) Match(d Device) (bool, error) {
	if s.address == nil || domainTooLong(d.Address) {
		return false, nil
	}
	for _, want := range []struct {
		field string
		asked bool
		have  string
	}{
		{"vendor_id", s.vendor != wildcard, d.Vendor},
		{"product_id", s.product != wildcard, d.Product},
		{"address", !s.address.any(), d.Address},
	} {
		if want.asked && want.have == "" {
			return false, invalid(want.field, "the device has none, and the spec requires it")
		}
	}
	at, err := s.matchAddress(d)
	if err != nil {
		return false, err
	}
	ok := at &&
		(s.vendor == wildcard || s.vendor == d.Vendor) &&
		(s.product == wildcard || s.product == d.Product) &&
		(s.devname == "" || slices.Contains(d.Interfaces, s.devname) || slices.Contains(d.ParentInterfaces, s.devname))
	if given := s.tags[oneTimeUse]; ok && given != nil && string(given) != "null" && d.Type == Virtual {
		return false, invalid(oneTimeUse, "is only for physical devices, and this one is a virtual function")
	}
	return ok, nil
}

func (s Spec) matchAddress(d Device) (bool, error) {
	if s.address.any() {
		return true, nil
	}
	own, err := parseExact("address", d.Address)
	if err != nil || s.address.match(own) {
		return err == nil, err
	}
	if d.Parent == "" || !s.address.single() {
		return false, nil
	}
	parent, err := parseExact("parent_addr", d.Parent)
	return err == nil && s.address.match(parent), err
}

// Specs is a list of entries; the first one that matches counts.
type Specs []Spec

// ParseSpecs reads one entry, or a list of them. In a list the error names the entry.
func ParseSpecs(text []byte) (Specs, error) {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] != '[' {
		s, err := ParseSpec(text)
		if err != nil {
			return nil, err
		}
		return Specs{s}, nil
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, invalid("", "is not JSON: %s", reason(err))
	}
	specs := make(Specs, 0, len(entries))
	for i, entry := range entries {
		s, err := ParseSpec(entry)
		if err != nil {
			return nil, inEntry(i, err)
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// Match gives the first entry that matches d, or the zero Spec.
func (l Specs) Match(d Device) (Spec, bool, error) {
	for i, s := range l {
		ok, err := s.Match(d)
		if err != nil && len(l) > 1 {
			return Spec{}, false, inEntry(i, err)
		}
		if err != nil || ok {
			return s, ok, err
		}
	}
	return Spec{}, false, nil
}

func inEntry(i int, err error) error {
	var fault *Invalid
	if !errors.As(err, &fault) {
		return fmt.Errorf("entry %d: %w", i+1, err)
	}
	return &Invalid{Entry: i + 1, Field: fault.Field, Reason: fault.Reason}
}
