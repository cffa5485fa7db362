package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/yamlfile"
)

// modelForm is vendor:device.
var modelForm = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`)

// readModels reads the section models. Nothing about a device's memory has a default: what is left
// out would be offered unerased.
func readModels(r *yamlfile.Reader, list yamlfile.Node, policy *clean.Policy) {
	for _, e := range entriesOf(r, list, "models", "model", "memory", "reset") {
		entry := device.Model{ID: strings.ToLower(e.required(r, "model"))}
		if entry.ID != "" && !modelForm.MatchString(entry.ID) {
			r.Problem(e.keys["model"], `model %q is not vendor:device, such as "1af4:1110"`, entry.ID)
		}
		var err error
		if text := e.required(r, "memory"); text != "" {
			if entry.Memory, err = parseMemory(text); err != nil {
				r.Problem(e.keys["memory"], "memory: %v", err)
			}
		}
		if text := e.text(r, "reset"); text != "" {
			if entry.Reset, err = parseReset(text); err != nil {
				r.Problem(e.keys["reset"], "reset: %v", err)
			}
		}
		if slices.ContainsFunc(policy.Models, func(m device.Model) bool { return m.ID == entry.ID }) {
			r.Problem(e.at, "a second entry of models for %s", entry.ID)
		}
		policy.Models = append(policy.Models, entry)
	}
}

// parseMemory reads "bar N size S", "script NAME" or "none".
func parseMemory(text string) (device.Memory, error) {
	words := strings.Fields(text)
	switch {
	case len(words) == 1 && words[0] == "none":
		return device.Memory{None: true}, nil
	case len(words) == 2 && words[0] == "script":
		return device.Memory{Script: words[1]}, nil
	case len(words) == 4 && words[0] == "bar" && words[2] == "size":
		bar, err := strconv.Atoi(words[1])
		if err != nil || bar < 0 || bar > 5 {
			return device.Memory{}, fmt.Errorf("%q is not the number of a BAR, 0 to 5", words[1])
		}
		size, err := hardware.ParseSize(words[3])
		if err == nil && size%hardware.Align != 0 {
			err = fmt.Errorf("%s is not a multiple of %d bytes", words[3], hardware.Align)
		}
		return device.Memory{BAR: bar, Size: size}, err
	}
	return device.Memory{}, fmt.Errorf("%q is none of: bar N size S (such as bar 2 size 16MiB), script NAME, none", text)
}

// parseReset reads "require WAY" or "forbid WAY …".
func parseReset(text string) (device.ResetRule, error) {
	words := strings.Fields(text)
	for _, way := range words[1:] {
		if !slices.Contains(device.ResetWays(), way) {
			return device.ResetRule{}, fmt.Errorf("there is no way %q; the ways are %s", way,
				strings.Join(device.ResetWays(), ", "))
		}
	}
	switch {
	case words[0] == "require" && len(words) == 2:
		return device.ResetRule{Require: words[1]}, nil
	case words[0] == "forbid" && len(words) > 1:
		return device.ResetRule{Forbid: words[1:]}, nil
	}
	return device.ResetRule{}, errors.New("write require WAY, or forbid WAY and more of them")
}
