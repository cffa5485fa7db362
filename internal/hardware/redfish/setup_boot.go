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

func (h *handle) readOverride(ctx context.Context) (all reading, err error) {
	s, err := h.readSystem(ctx)
	if err != nil || s.Boot.Override == "" {
		return all, err
	}
	value := s.Boot.Override
	if value != overrideOff {
		value += " to " + s.Boot.Target
	}
	off := func(property, value string) []request {
		return []request{patch(h.system, map[string]any{"Boot": map[string]any{property: value}})}
	}
	all.add(overrideKey, value, func(string) [][]request {
		return [][]request{off("BootSourceOverrideEnabled", overrideOff), off("BootSourceOverrideTarget", "None")}
	})
	return all, nil
}

// bootOption is what the driver reads of a BootOption.
type bootOption struct {
	name      string
	Reference string `json:"BootOptionReference"`
	Name      string `json:"DisplayName" bmc:"optional"`
	Device    string `json:"UefiDevicePath" bmc:"optional"`
	Enabled   *bool  `json:"BootOptionEnabled" bmc:"optional"`
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

func (h *handle) readBoot(ctx context.Context) (all reading, err error) {
	s, err := h.readSystem(ctx)
	if err != nil {
		return all, err
	}
	var options []*bootOption
	named := map[string]*bootOption{} // by reference
	err = eachMember(ctx, h, s.Boot.Options, func(path string, o *bootOption) {
		o.name = strings.TrimSpace(o.Name + " " + o.Device)
		options, named[o.Reference] = append(options, o), o
		all.add(optionPrefix+o.name, enabled(o.Enabled), func(want string) [][]request {
			enable := []request{patch(path, map[string]any{"BootOptionEnabled": want == "enabled"})}
			if want != "" {
				return [][]request{enable}
			}
			return append(deleted(path)(want), enable)
		})
	})
	if err != nil {
		return all, err
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
		all.add(place(n), name, nil)
	}
	all.rest = func(key string, want map[string]string) [][]request {
		if !strings.HasPrefix(key, placePrefix) {
			return nil
		}
		return h.orderAs(s, options, want)
	}
	all.same = func(key, want, is string) bool {
		return strings.HasPrefix(key, optionPrefix) && want == "" && is == "disabled"
	}
	return all, nil
}

// orderAs is the way to a boot order: what is wanted comes first, the rest stays behind it.
func (h *handle) orderAs(s *system, options []*bootOption, want map[string]string) [][]request {
	var order []string
	for n := 1; want[place(n)] != ""; n++ {
		if i := slices.IndexFunc(options, func(o *bootOption) bool { return o.name == want[place(n)] }); i >= 0 {
			order = append(order, options[i].Reference)
		}
	}
	if len(order) == 0 {
		return nil
	}
	for _, reference := range s.Boot.Order {
		if !slices.Contains(order, reference) {
			order = append(order, reference)
		}
	}
	body := map[string]any{"Boot": map[string]any{"BootOrder": order}}
	if slices.Contains(s.Settings.ApplyTimes, "OnReset") {
		body["@Redfish.SettingsApplyTime"] = onReset
	}
	return [][]request{{patch(cmp.Or(string(s.Settings.Object), h.system), body)}}
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
func (h *handle) getSecureBoot(ctx context.Context) (path string, is *secureBoot, err error) {
	s, err := h.known(ctx)
	if err != nil || s.SecureBoot == "" {
		return "", nil, err
	}
	is = &secureBoot{}
	if err := h.get(ctx, string(s.SecureBoot), is); err != nil {
		return "", nil, ignoreRefusal(err)
	}
	return string(s.SecureBoot), is, nil
}

// resetKeys is the way to the vendor's own keys, which brings all entries back; nil: the BMC has none.
func (s *secureBoot) resetKeys(string, map[string]string) [][]request {
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

func (h *handle) readSecureBoot(ctx context.Context) (all reading, err error) {
	path, is, err := h.getSecureBoot(ctx)
	if err != nil || is == nil || is.Enabled == nil {
		return all, err
	}
	all.add(secureBootOn, valueText(*is.Enabled), patched(path, func(want string) map[string]any {
		return map[string]any{"SecureBootEnable": want == "true"}
	}))
	if is.Mode != "" {
		all.add(secureBootMode, is.Mode, nil)
	}
	all.rest = is.resetKeys // without a platform key it is SetupMode
	return all, nil
}

// readSecureBootKeys reads the databases that are in force, each with the digests of its certificates and
// signatures.
func (h *handle) readSecureBootKeys(ctx context.Context) (all reading, err error) {
	_, is, err := h.getSecureBoot(ctx)
	if err != nil || is == nil {
		return all, err
	}
	all.rest = is.resetKeys
	if is.Databases == "" {
		if all.hidden = is.resetKeys("", nil) != nil; all.hidden {
			all.add(hiddenKey, "not shown", nil)
		}
		return all, nil
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
	}); err != nil {
		return all, err
	}
	for _, d := range databases {
		digests := []string{"of"}
		for _, in := range []link{d.Certificates, d.Signatures} {
			if err := eachMember(ctx, h, in, func(_ string, c *content) {
				digests = append(digests, digest(strings.TrimSpace(c.Certificate+c.Signature)))
			}); err != nil {
				return all, err
			}
		}
		slices.Sort(digests[1:])
		all.add(d.ID, strings.Join(digests, " "), nil)
	}
	// Updates of firmware add revocations.
	all.same = func(key, want, is string) bool {
		has := strings.Fields(is)
		return key == "dbx" && want != "" && !slices.ContainsFunc(strings.Fields(want), func(one string) bool {
			return !slices.Contains(has, one)
		})
	}
	return all, nil
}

func (h *handle) readTPM(ctx context.Context) (all reading, err error) {
	s, err := h.readSystem(ctx)
	if err != nil || len(s.TPMs) == 0 {
		return all, err
	}
	all.is = map[string]string{}
	for n, tpm := range s.TPMs {
		all.is[fmt.Sprint(n+1)] = hardware.OneLine(tpm.Kind + ", " + tpm.Status.State)
	}
	return all, nil
}
