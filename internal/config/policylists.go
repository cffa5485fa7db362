package config

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/yamlfile"
)

// This file reads the sections of a policy that are lists of entries for some devices each:
// bios, firmware, properties, golden, require_covered.

// matchKeys are the keys by which an entry chooses devices.
var matchKeys = []string{"type", "vendor", "model", "trait"}

// entriesOf reads a list of mappings and gives each with its keys. what names the list.
func entriesOf(r *yamlfile.Reader, list yamlfile.Node, what string, known ...string) []entry {
	var entries []entry
	for _, item := range r.List(list, what) {
		if item.Nothing() {
			r.Problem(item, "an entry of %s must be a mapping, not nothing", what)
			continue
		}
		entries = append(entries, entryOf(r, item, "an entry of "+what, known...))
	}
	return entries
}

// entry is one mapping of a policy file with the nodes of its keys.
type entry struct {
	what string
	at   yamlfile.Node
	keys map[string]yamlfile.Node
}

func entryOf(r *yamlfile.Reader, node yamlfile.Node, what string, known ...string) entry {
	e := entry{what: what, at: node, keys: map[string]yamlfile.Node{}}
	for key, value := range r.Mapping(node, what, known...) {
		e.keys[key] = value
	}
	return e
}

// text gives the value of a key; "" where the key is absent, or has a problem.
func (e entry) text(r *yamlfile.Reader, key string) string {
	node, ok := e.keys[key]
	if !ok {
		return ""
	}
	if node.Nothing() {
		r.Problem(node, "%s has no value", key)
		return ""
	}
	before := len(r.Problems())
	value := strings.TrimSpace(r.Scalar(node, key))
	if value == "" && len(r.Problems()) == before {
		r.Problem(node, "%s has no value", key)
	}
	return value
}

// required is text of a key that must be there.
func (e entry) required(r *yamlfile.Reader, key string) string {
	if _, ok := e.keys[key]; !ok {
		r.Problem(e.at, "%s needs the key %s", e.what, key)
		return ""
	}
	return e.text(r, key)
}

// match reads the keys that choose devices.
func (e entry) match(r *yamlfile.Reader) clean.Match {
	m := clean.Match{Type: e.text(r, "type"), Vendor: e.text(r, "vendor"), Model: e.text(r, "model"),
		Trait: e.text(r, "trait")}
	for key, pattern := range map[string]clean.Match{"type": {Type: m.Type}, "vendor": {Vendor: m.Vendor},
		"model": {Model: m.Model}, "trait": {Trait: m.Trait}} {
		if err := pattern.Validate(); err != nil {
			r.Problem(e.keys[key], "%s is not a valid pattern: %s", key, err)
		}
	}
	return m
}

// readBIOS reads the section bios.
func readBIOS(r *yamlfile.Reader, list yamlfile.Node, policy *clean.Policy) {
	for _, e := range entriesOf(r, list, "bios", append([]string{"settings"}, matchKeys...)...) {
		entry := clean.BIOSPolicy{Match: e.match(r), Settings: map[string]any{}}
		if e.keys["settings"].Nothing() {
			r.Problem(e.at, "an entry of bios needs settings")
			continue
		}
		for name, value := range r.Mapping(e.keys["settings"], "settings") {
			entry.Settings[name] = scalar(r, value, name)
		}
		policy.BIOS = append(policy.BIOS, entry)
	}
}

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readFirmware reads the section firmware. It is an allow-list: whatever is not named is not
// written, so that nothing in it may be left out.
func readFirmware(r *yamlfile.Reader, list yamlfile.Node, policy *clean.Policy) {
	seen := map[string]int{}
	for _, e := range entriesOf(r, list, "firmware",
		append([]string{"component", "from", "to", "image", "sha256", "rewrite"}, matchKeys...)...) {
		entry := clean.FirmwarePolicy{Match: e.match(r), FirmwareImage: clean.FirmwareImage{
			Component: e.text(r, "component"), To: e.required(r, "to"), Image: e.required(r, "image"),
			SHA256: strings.ToLower(e.required(r, "sha256")), Rewrite: e.text(r, "rewrite"),
		}}
		if entry.Rewrite != "" && entry.Rewrite != clean.RewriteAlways {
			r.Problem(e.keys["rewrite"], "rewrite: %q is not %s, the only value", entry.Rewrite, clean.RewriteAlways)
		}
		if model := e.required(r, "model"); model != "" && strings.Trim(model, "*?") == "" {
			r.Problem(e.keys["model"], "model %q matches every model; name the models that the image is for", model)
		}
		if entry.Image != "" && (!filepath.IsAbs(entry.Image) || filepath.Clean(entry.Image) != entry.Image) {
			r.Problem(e.keys["image"], "image: %q is not an absolute path", entry.Image)
		}
		if entry.SHA256 != "" && !sha256Form.MatchString(entry.SHA256) {
			r.Problem(e.keys["sha256"], "sha256 is not 64 hexadecimal digits")
		}
		entry.From = versions(r, e)
		key := fmt.Sprint(entry.Match, "\x00", strings.ToLower(entry.Component))
		if first, ok := seen[key]; ok {
			r.Problem(e.at, "it is never used: line %d has the same devices and component", first)
		} else {
			seen[key] = e.at.Line()
		}
		policy.Firmware = append(policy.Firmware, entry)
	}
}

// versions reads from, the versions that the image may replace.
func versions(r *yamlfile.Reader, e entry) []string {
	node, ok := e.keys["from"]
	if !ok || node.Nothing() {
		r.Problem(e.at, "an entry of firmware needs from, the versions that the image may replace")
		return nil
	}
	var from []string
	items := r.List(node, "from")
	if node.IsList() && len(items) == 0 {
		r.Problem(node, "from is empty; name the versions that the image may replace")
	}
	for _, item := range items {
		if item.Nothing() {
			r.Problem(item, "a version in from is empty")
			continue
		}
		version := strings.TrimSpace(r.Scalar(item, "a version in from"))
		if version == "" {
			r.Problem(item, "a version in from is empty")
		}
		from = append(from, version)
	}
	return from
}

// readProperties reads the section properties.
func readProperties(r *yamlfile.Reader, list yamlfile.Node, policy *clean.Policy) {
	for _, e := range entriesOf(r, list, "properties", append([]string{"profile"}, matchKeys...)...) {
		entry := clean.PropertiesPolicy{Match: e.match(r)}
		if e.keys["profile"].Nothing() {
			r.Problem(e.at, "an entry of properties needs a profile")
			continue
		}
		r.Decode(e.keys["profile"], "a profile", &entry.Profile, func(into any) error {
			if link, ok := into.(*device.Link); ok && link.Name == "" {
				return errors.New("a link needs the key name")
			}
			return nil
		})
		for i, other := range policy.Properties {
			if other.Match == entry.Match {
				r.Problem(e.at, "it is never used: entry %d of properties is for the same devices", i+1)
			}
		}
		policy.Properties = append(policy.Properties, entry)
	}
}

// readGolden reads the section golden: items of a device.Setup, as `show -o yaml` writes them.
func readGolden(r *yamlfile.Reader, profiles yamlfile.Node, policy *clean.Policy) {
	policy.Golden = map[string]device.Setup{}
	for name, profile := range r.Mapping(profiles, "golden") {
		setup := device.Setup{}
		for item, entries := range r.Mapping(profile, "a golden profile", device.SetupItems...) {
			setup[item] = map[string]string{}
			for key, value := range r.Mapping(entries, item) {
				if setup[item][key] = r.Scalar(value, key); setup[item][key] == "" {
					r.Problem(value, "%s has no value", key)
				}
			}
		}
		policy.Golden[name] = setup
	}
}

// readCoverage reads the section require_covered.
func readCoverage(r *yamlfile.Reader, list yamlfile.Node, policy *clean.Policy) {
	for _, e := range entriesOf(r, list, "require_covered", append([]string{"items"}, matchKeys...)...) {
		entry := clean.CoveragePolicy{Match: e.match(r)}
		for _, item := range r.List(e.keys["items"], "items") {
			name := r.Scalar(item, "an item")
			if !slices.Contains(device.SetupItems, name) {
				r.Problem(item, "%q is no item; the items are %s", name, strings.Join(device.SetupItems, ", "))
			}
			entry.Items = append(entry.Items, name)
		}
		if len(entry.Items) == 0 {
			r.Problem(e.at, "an entry of require_covered needs items")
		}
		policy.Coverage = append(policy.Coverage, entry)
	}
}

// scalar reads text, a boolean or a number, which keeps its type.
func scalar(r *yamlfile.Reader, node yamlfile.Node, what string) any {
	switch {
	case node.Nothing():
		r.Problem(node, "%s has no value", what)
		return nil
	case node.IsBool():
		return r.Bool(node, what)
	case node.IsInteger():
		text := r.Scalar(node, what)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != text {
			r.Problem(node, "%s: %s is not a plain number; put text in quotes", what, text)
		}
		return n
	case node.IsFloat():
		n := r.Number(node, what)
		if math.IsInf(n, 0) || math.IsNaN(n) {
			r.Problem(node, "%s: %s is not a number", what, r.Scalar(node, what))
			return nil
		}
		return n
	}
	return r.Scalar(node, what)
}
