package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"burnish/internal/hardware"
)

// systemBoot is what the driver reads of a ComputerSystem's Boot.
type systemBoot struct {
	Override string   `json:"BootSourceOverrideEnabled" bmc:"optional"`
	Target   string   `json:"BootSourceOverrideTarget" bmc:"optional"`
	Order    []string `json:"BootOrder"`
	Options  link     `json:"BootOptions" bmc:"optional"`
}

// The one entry of boot_override.
const (
	overrideKey = "override"
	overrideOff = "Disabled"
)

func (h *handle) readOverride(ctx context.Context) (reading, error) {
	s, err := h.readSystem(ctx, h.system)
	if err != nil || s.Boot.Override == "" {
		return reading{}, err
	}
	value := s.Boot.Override
	if value != overrideOff {
		value = hardware.OneLine(value + " to " + s.Boot.Target)
	}
	return reading{is: map[string]string{overrideKey: value}, ways: func(string, map[string]string) [][]request {
		off := func(body map[string]any) []request {
			return []request{patch(h.system, map[string]any{"Boot": body})}
		}
		return [][]request{off(map[string]any{"BootSourceOverrideEnabled": overrideOff}),
			off(map[string]any{"BootSourceOverrideTarget": "None"})}
	}}, nil
}

// bootOption is what the driver reads of a BootOption.
type bootOption struct {
	path, name string
	Reference  string `json:"BootOptionReference"`
	Name       string `json:"DisplayName" bmc:"optional"`
	Device     string `json:"UefiDevicePath" bmc:"optional"`
	Enabled    *bool  `json:"BootOptionEnabled" bmc:"optional"`
}

// Entries of boot_order are the options, by what they boot, and the places of the enabled ones. The
// references of options change with each change of the hardware.
const (
	optionPrefix = "option "
	placePrefix  = "place "
)

// isOfSystem: the option boots a file of a partition. An operating system writes such options, and its
// drive is erased: they are never recorded, and taken away.
func isOfSystem(key string) bool { return strings.Contains(strings.ToUpper(key), "HD(") }

func place(n int) string { return fmt.Sprintf("%s%02d", placePrefix, n) }

func (h *handle) readBoot(ctx context.Context) (reading, error) {
	s, err := h.readSystem(ctx, h.system)
	if err != nil {
		return reading{}, err
	}
	var options []*bootOption
	err = eachMember(ctx, h, s.Boot.Options, func(path string, o *bootOption) {
		o.path = path
		options = append(options, o)
	})
	if err != nil || len(options) == 0 && len(s.Boot.Order) == 0 {
		return reading{}, err
	}
	all := newEntries()
	named := map[string]*bootOption{} // by reference
	for _, o := range options {
		o.name = strings.TrimSpace(o.Name + " " + o.Device)
		all.add(optionPrefix+o.name, enabled(o.Enabled), o.path)
		named[o.Reference] = o
	}
	n := 0
	for _, reference := range s.Boot.Order {
		name := reference
		if o := named[reference]; o != nil && enabled(o.Enabled) == "enabled" && !isOfSystem(o.name) {
			name = o.name
		} else if len(options) > 0 {
			continue // it is not booted, or not for long
		}
		n++
		all.add(place(n), name, "")
	}
	order := func(want map[string]string) [][]request {
		var first, rest []string
		for n := 1; want[place(n)] != ""; n++ {
			if i := slices.IndexFunc(options, func(o *bootOption) bool { return o.name == want[place(n)] }); i >= 0 {
				first = append(first, options[i].Reference)
			}
		}
		for _, reference := range s.Boot.Order {
			if !slices.Contains(first, reference) {
				rest = append(rest, reference)
			}
		}
		if len(first) == 0 {
			return nil
		}
		body := map[string]any{"Boot": map[string]any{"BootOrder": append(first, rest...)}}
		if slices.Contains(s.Settings.ApplyTimes, "OnReset") {
			body["@Redfish.SettingsApplyTime"] = onReset
		}
		return [][]request{{patch(cmp.Or(string(s.Settings.Object), h.system), body)}}
	}
	return reading{
		is: all.is,
		ways: func(key string, want map[string]string) [][]request {
			at := all.at[key]
			switch {
			case strings.HasPrefix(key, placePrefix):
				return order(want)
			case at == "":
				return nil
			case want[key] != "":
				return [][]request{{patch(at, map[string]any{"BootOptionEnabled": want[key] == "enabled"})}}
			}
			return [][]request{{{Method: http.MethodDelete, Path: at}},
				{patch(at, map[string]any{"BootOptionEnabled": false})}}
		},
		same: func(key, want, is string) bool {
			return strings.HasPrefix(key, optionPrefix) && want == "" && is == "disabled"
		},
	}, nil
}

// secureBoot is what the driver reads of a SecureBoot.
type secureBoot struct {
	Enabled   *bool  `json:"SecureBootEnable"`
	Mode      string `json:"SecureBootMode" bmc:"optional"`
	Databases link   `json:"SecureBootDatabases" bmc:"optional"`
	Actions   struct {
		ResetKeys struct {
			Target  link     `json:"target"`
			Allowed []string `json:"ResetKeysType@Redfish.AllowableValues" bmc:"optional"`
		} `json:"#SecureBoot.ResetKeys" bmc:"optional"`
	} `bmc:"optional"`
}

// getSecureBoot reads it; nil: the BMC shows none.
func (h *handle) getSecureBoot(ctx context.Context) (*system, *secureBoot, error) {
	s, err := h.known(ctx)
	if err != nil || s.SecureBoot == "" {
		return s, nil, err
	}
	is := &secureBoot{}
	if err := h.get(ctx, string(s.SecureBoot), is); err != nil {
		return s, nil, ignoreRefusal(err)
	}
	return s, is, nil
}

// resetKeys is the way to the vendor's own keys; nil: the BMC has none.
func (s *secureBoot) resetKeys() [][]request {
	const toDefault = "ResetAllKeysToDefault"
	reset := s.Actions.ResetKeys
	if reset.Target == "" || len(reset.Allowed) > 0 && !slices.Contains(reset.Allowed, toDefault) {
		return nil
	}
	return [][]request{{{Method: http.MethodPost, Path: string(reset.Target),
		Body: map[string]any{"ResetKeysType": toDefault}}}}
}

const secureBootOn, secureBootMode = "enabled", "mode"

// hiddenKey is the one entry of what is not shown.
const hiddenKey = "all"

func (h *handle) readSecureBoot(ctx context.Context) (reading, error) {
	s, is, err := h.getSecureBoot(ctx)
	if err != nil || is == nil || is.Enabled == nil {
		return reading{}, err
	}
	all := newEntries()
	all.add(secureBootOn, valueText(*is.Enabled), string(s.SecureBoot))
	if is.Mode != "" {
		all.add(secureBootMode, is.Mode, "")
	}
	return reading{is: all.is, ways: func(key string, want map[string]string) [][]request {
		if key != secureBootOn { // without a platform key it is SetupMode
			return is.resetKeys()
		}
		return [][]request{{patch(all.at[key], map[string]any{"SecureBootEnable": want[key] == "true"})}}
	}}, nil
}

// readSecureBootKeys reads the databases that are in force, each with the digests of its certificates and
// signatures.
func (h *handle) readSecureBootKeys(ctx context.Context) (reading, error) {
	_, is, err := h.getSecureBoot(ctx)
	if err != nil || is == nil {
		return reading{}, err
	}
	reset := func(string, map[string]string) [][]request { return is.resetKeys() }
	if is.Databases == "" {
		if is.resetKeys() == nil {
			return reading{}, nil
		}
		return reading{is: map[string]string{hiddenKey: "not shown"}, ways: reset, hidden: true}, nil
	}
	type database struct {
		ID           string `json:"Id"`
		Certificates link   `bmc:"optional"`
		Signatures   link   `bmc:"optional"`
	}
	type content struct {
		Certificate string `json:"CertificateString" bmc:"optional"`
		Signature   string `json:"SignatureString" bmc:"optional"`
	}
	var databases []*database
	if err := eachMember(ctx, h, is.Databases, func(_ string, d *database) {
		if !strings.HasSuffix(d.ID, "Default") {
			databases = append(databases, d)
		}
	}); err != nil || len(databases) == 0 {
		return reading{}, err
	}
	shown := map[string]string{}
	for _, d := range databases {
		digests := []string{"of"}
		for _, in := range []link{d.Certificates, d.Signatures} {
			if err := eachMember(ctx, h, in, func(_ string, c *content) {
				digests = append(digests, digest(strings.TrimSpace(c.Certificate+c.Signature)))
			}); err != nil {
				return reading{}, err
			}
		}
		slices.Sort(digests[1:])
		shown[d.ID] = strings.Join(digests, " ")
	}
	return reading{
		is: shown, ways: reset,
		// Updates of firmware add revocations.
		same: func(key, want, is string) bool {
			has := strings.Fields(is)
			return key == "dbx" && want != "" && !slices.ContainsFunc(strings.Fields(want), func(one string) bool {
				return !slices.Contains(has, one)
			})
		},
	}, nil
}

func (h *handle) readTPM(ctx context.Context) (reading, error) {
	s, err := h.readSystem(ctx, h.system)
	if err != nil || len(s.TPMs) == 0 {
		return reading{}, err
	}
	all := newEntries()
	for n, tpm := range s.TPMs {
		all.add(fmt.Sprint(n+1), tpm.Kind+", "+tpm.Status.State, "")
	}
	return reading{is: all.is}, nil
}
