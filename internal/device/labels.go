package device

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Bounds of a device's labels: how many it may have, and the length of a key and of a value.
const (
	MaxLabels    = 16
	MaxLabelText = 63
)

var (
	labelKey   = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`)
)

// CheckLabels checks a device's labels: how many there are, and the form of each.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%d labels: a device has at most %d", len(labels), MaxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if err := CheckLabelKey(key); err != nil {
			return err
		}
		if value := labels[key]; len(value) > MaxLabelText || !labelValue.MatchString(value) {
			return fmt.Errorf("label %s=%.80q: the value must be at most %d letters, digits and - _ . , with a letter or "+
				"digit at both ends", key, value, MaxLabelText)
		}
	}
	return nil
}

// CheckLabelKey refuses what cannot be the key of a label.
func CheckLabelKey(key string) error {
	if len(key) > MaxLabelText || !labelKey.MatchString(key) {
		return fmt.Errorf("label %.80q: the key must be 1 to %d letters, digits and - _ . , with a letter or digit at "+
			"both ends, after a prefix such as example.com/ or none", key, MaxLabelText)
	}
	return nil
}

// ParseLabel reads a label of the form KEY=VALUE.
func ParseLabel(text string) (key, value string, err error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return "", "", fmt.Errorf("label %.80q: must be KEY=VALUE", text)
	}
	return key, value, CheckLabels(map[string]string{key: value})
}

// LabelsText writes labels as ParseLabel reads them, sorted and separated by commas.
func LabelsText(labels map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, key+"="+labels[key])
	}
	return strings.Join(parts, ",")
}

// LabelChange says how labels change: Set gives values, Remove takes keys away.
type LabelChange struct {
	Set    map[string]string `json:"set,omitempty"`
	Remove []string          `json:"remove,omitempty"`
	// Overwrite: a key that has another value gets the new one; without it that is an error.
	Overwrite bool `json:"overwrite,omitempty"`
}

// ParseLabelChange reads KEY=VALUE, which sets a label, and KEY-, which removes it.
func ParseLabelChange(texts []string) (LabelChange, error) {
	c := LabelChange{Set: map[string]string{}}
	for _, text := range texts {
		key, remove := strings.CutSuffix(text, "-")
		if remove && !strings.Contains(text, "=") {
			if err := CheckLabelKey(key); err != nil {
				return c, err
			}
			c.Remove = append(c.Remove, key)
			continue
		}
		key, value, err := ParseLabel(text)
		if err != nil {
			return c, err
		}
		if _, twice := c.Set[key]; twice {
			return c, fmt.Errorf("label %s is given twice", key)
		}
		c.Set[key] = value
	}
	for _, key := range c.Remove {
		if _, both := c.Set[key]; both {
			return c, fmt.Errorf("label %s is set and removed", key)
		}
	}
	return c, nil
}

// Of gives the labels after the change; nil if none is left. The labels given stay as they are.
func (c LabelChange) Of(labels map[string]string) (map[string]string, error) {
	next := maps.Clone(labels)
	if next == nil {
		next = map[string]string{}
	}
	for _, key := range c.Remove {
		if _, set := c.Set[key]; set {
			return nil, fmt.Errorf("label %.80q is set and removed", key)
		}
		delete(next, key)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		if had, has := next[key]; has && had != c.Set[key] && !c.Overwrite {
			return nil, fmt.Errorf("label %.80s is %s already", key, had)
		}
		next[key] = c.Set[key]
	}
	if err := CheckLabels(next); err != nil {
		return nil, err
	}
	if len(next) == 0 {
		return nil, nil
	}
	return next, nil
}

// Text is the change as ParseLabelChange reads it, sorted.
func (c LabelChange) Text() string {
	var parts []string
	if len(c.Set) > 0 {
		parts = append(parts, LabelsText(c.Set))
	}
	for _, key := range slices.Sorted(slices.Values(c.Remove)) {
		parts = append(parts, key+"-")
	}
	return strings.Join(parts, ",")
}

// LabelSelector selects devices by their labels: all of its terms must hold.
type LabelSelector []labelTerm

type labelTerm struct {
	key, value    string
	exists, equal bool
}

// ParseLabelSelector reads terms separated by commas: KEY=VALUE (or ==), KEY!=VALUE, which a
// device without the label also matches, KEY for any value, and !KEY for none.
func ParseLabelSelector(text string) (LabelSelector, error) {
	var s LabelSelector
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		t := labelTerm{equal: true}
		if key, value, ok := strings.Cut(part, "!="); ok {
			t.key, t.value, t.equal = key, value, false
		} else if key, value, ok := strings.Cut(part, "="); ok {
			t.key, t.value = key, strings.TrimPrefix(value, "=")
		} else {
			t.exists = true
			if key, without := strings.CutPrefix(part, "!"); without {
				t.key, t.equal = key, false
			} else {
				t.key = part
			}
		}
		t.key, t.value = strings.TrimSpace(t.key), strings.TrimSpace(t.value)
		if err := CheckLabels(map[string]string{t.key: t.value}); err != nil {
			return nil, err
		}
		s = append(s, t)
	}
	return s, nil
}

// Selects says whether labels match the selector.
func (s LabelSelector) Selects(labels map[string]string) bool {
	for _, t := range s {
		value, has := labels[t.key]
		if matches := has && (t.exists || value == t.value); matches != t.equal {
			return false
		}
	}
	return true
}
