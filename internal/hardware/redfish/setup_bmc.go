package redfish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// digest names what is compared and not shown.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// location is a URL without what may be a secret in it, and with the digest of the whole.
func location(text string) string {
	plain := "?"
	if u, err := url.Parse(text); err == nil {
		plain = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	}
	return hardware.OneLine(plain + " " + digest(text))
}

// enabled is a state as an entry shows it. A property that is not there does not disable.
func enabled(is *bool) string {
	if is != nil && !*is {
		return "disabled"
	}
	return "enabled"
}

func patch(path string, body map[string]any) request {
	return request{Method: http.MethodPatch, Path: path, Body: body}
}

// account is what the driver reads of a ManagerAccount.
type account struct {
	UserName string
	RoleID   string `json:"RoleId"`
	Enabled  *bool
	Keys     link `bmc:"optional"`
}

// eachAccount reads the BMC's accounts; false: it shows none. An iDRAC has slots without a name.
func (h *handle) eachAccount(ctx context.Context, use func(path string, a *account)) (shown bool, err error) {
	var service struct{ Accounts link }
	if err := h.get(ctx, "/redfish/v1/AccountService", &service); err != nil || service.Accounts == "" {
		return false, ignoreRefusal(err)
	}
	return true, eachMember(ctx, h, service.Accounts, func(path string, a *account) {
		if a.UserName != "" {
			use(path, a)
		}
	})
}

func (h *handle) readAccounts(ctx context.Context) (all reading, err error) {
	own, err := h.driver.credentials(h.bmc.secret)
	if err != nil {
		return all, err
	}
	// The secret's user may have changed since the enrollment.
	all.same = func(key, want, _ string) bool { return key == own.Username && want == "" }
	shown, err := h.eachAccount(ctx, func(path string, a *account) {
		all.add(a.UserName, a.RoleID+", "+enabled(a.Enabled), func(want string) [][]request {
			role, state, _ := strings.Cut(want, ", ")
			switch {
			case strings.EqualFold(a.UserName, own.Username):
				return nil
			case want != "":
				return [][]request{{patch(path, map[string]any{"RoleId": role, "Enabled": state == "enabled"})}}
			}
			return [][]request{
				{{Method: http.MethodDelete, Path: path}},
				// An iDRAC's slot: all in one request leaves the role behind.
				{patch(path, map[string]any{"Enabled": false, "RoleId": "None"}), patch(path, map[string]any{"UserName": ""})},
				{patch(path, map[string]any{"Enabled": false})}, // what cannot be deleted
			}
		})
	})
	if shown {
		all.show()
	}
	return all, err
}

func (h *handle) readKeys(ctx context.Context) (all reading, err error) {
	var holders []*account
	if _, err := h.eachAccount(ctx, func(_ string, a *account) {
		if a.Keys != "" {
			holders = append(holders, a)
		}
	}); err != nil {
		return all, err
	}
	type key struct {
		Kind string `json:"KeyType" bmc:"optional"`
		Text string `json:"KeyString"`
	}
	for _, one := range holders {
		all.show()
		if err := eachMember(ctx, h, one.Keys, func(path string, k *key) {
			all.add(one.UserName+" "+digest(k.Text), "key "+k.Kind, deleted(path))
		}); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (h *handle) readSubscriptions(ctx context.Context) (all reading, err error) {
	var service struct{ Subscriptions link }
	if err := h.get(ctx, "/redfish/v1/EventService", &service); err != nil || service.Subscriptions == "" {
		return all, ignoreRefusal(err)
	}
	type subscription struct {
		Destination string `bmc:"optional"`
	}
	all.show()
	return all, eachMember(ctx, h, service.Subscriptions, func(path string, s *subscription) {
		all.add(location(s.Destination), "subscribed", deleted(path))
	})
}

// manager is what the driver reads of a Manager.
type manager struct {
	path            string
	VirtualMedia    link       `bmc:"optional"`
	HostInterfaces  link       `bmc:"optional"`
	NetworkProtocol link       `bmc:"optional"`
	LastResetTime   string     `bmc:"optional"`
	Oem             attributes `bmc:"object"`
	Actions         struct {
		Reset struct {
			Target  link     `json:"target"`
			Allowed []string `json:"ResetType@Redfish.AllowableValues" bmc:"optional"`
			// Older is what OpenBMC has called the parameter.
			Older      []string `json:"ResetToDefaultsType@Redfish.AllowableValues" bmc:"optional"`
			ActionInfo link     `json:"@Redfish.ActionInfo" bmc:"optional"`
		} `json:"#Manager.ResetToDefaults" bmc:"optional"`
	} `bmc:"optional"`
}

// eachManager reads the managers of the system.
func (h *handle) eachManager(ctx context.Context, use func(m *manager) error) error {
	s, err := h.known(ctx)
	if err != nil {
		return err
	}
	for _, path := range paths(s.Links.ManagedBy) {
		m := &manager{path: strings.TrimSuffix(path, "/")}
		if err := h.get(ctx, path, m); err != nil {
			return err
		}
		if err := use(m); err != nil {
			return err
		}
	}
	return nil
}

func (h *handle) readMedia(ctx context.Context) (all reading, err error) {
	s, err := h.known(ctx)
	if err != nil {
		return all, err
	}
	type media struct {
		Image    string `bmc:"optional"`
		Inserted bool   `bmc:"optional"`
		Actions  struct {
			Eject actionTarget `json:"#VirtualMedia.EjectMedia" bmc:"optional"`
		} `bmc:"optional"`
	}
	all.same = func(_, _, is string) bool { return is == "" } // what was ejected since leads nowhere
	add := func(path string, m *media) {
		all.show()
		if !m.Inserted && m.Image == "" {
			return
		}
		all.add(path, "inserted "+location(m.Image), func(string) [][]request {
			ways := [][]request{{patch(path, map[string]any{"Image": nil, "Inserted": false})}}
			if target := string(m.Actions.Eject.Target); target != "" {
				ways = slices.Insert(ways, 0, []request{{Method: http.MethodPost, Path: target}})
			}
			return ways
		})
	}
	if err := eachMember(ctx, h, s.VirtualMedia, add); err != nil { // a newer place
		return all, err
	}
	return all, h.eachManager(ctx, func(m *manager) error { return eachMember(ctx, h, m.VirtualMedia, add) })
}

func (h *handle) readInterfaces(ctx context.Context) (all reading, err error) {
	type hostInterface struct {
		Enabled *bool `json:"InterfaceEnabled"`
	}
	if err := h.eachManager(ctx, func(m *manager) error {
		return eachMember(ctx, h, m.HostInterfaces, func(path string, i *hostInterface) {
			all.add(path, enabled(i.Enabled), patched(path, func(want string) map[string]any {
				return map[string]any{"InterfaceEnabled": want == "enabled"}
			}))
		})
	}); err != nil {
		return all, err
	}
	return all, h.addSwitches(ctx, &all, device.SetupInterfaces)
}

func (h *handle) readProtocols(ctx context.Context) (all reading, err error) {
	return all, h.eachManager(ctx, func(m *manager) error {
		body, err := h.getOwn(ctx, string(m.NetworkProtocol))
		if err != nil || body == nil {
			return err
		}
		all.show()
		for _, name := range body.names() {
			one, _ := body[name].(map[string]any)
			on, is := one["ProtocolEnabled"].(bool)
			if !is {
				continue
			}
			value, by := enabled(&on), patched(string(m.NetworkProtocol), func(want string) map[string]any {
				state, port, _ := strings.Cut(want, ", port ")
				body := map[string]any{"ProtocolEnabled": state == "enabled"}
				if n, is := whole(port); is {
					body["Port"] = n
				}
				return map[string]any{name: body}
			})
			if port := valueText(one["Port"]); port != "" {
				value += ", port " + port
			}
			if name == "HTTPS" { // by which Burnish is here
				by = nil
			}
			all.add(name, value, by)
		}
		return nil
	})
}

// getOwn reads a resource of which any property may matter; nil: the BMC shows none.
func (h *handle) getOwn(ctx context.Context, path string) (body attributes, err error) {
	if path == "" {
		return nil, nil
	}
	err = h.get(ctx, path, &body)
	return body, ignoreRefusal(err)
}

// readSessions reads the sessions of others.
func (h *handle) readSessions(ctx context.Context) (all reading, err error) {
	collection, own := h.bmc.ownSession()
	members, err := h.members(ctx, collection)
	if err != nil {
		return all, ignoreRefusal(err)
	}
	all.show()
	for _, path := range paths(members) {
		if !samePath(path, own) {
			all.add(path, "open", deleted(path))
		}
	}
	return all, nil
}

// readCertificates gives the certificate that the BMC has shown to this step's connection. One that it has made
// at a reset to its defaults was accepted then, or not.
func (h *handle) readCertificates(context.Context) (reading, error) {
	if h.certificate == "" {
		return reading{}, nil
	}
	reset, err := h.bmc.loadReset()
	return reading{is: map[string]string{"BMC": h.certificate}, same: func(_, want, is string) bool {
		return want != "" && is == reset.Accepted
	}}, err
}

// readPasswords reads which BIOS passwords are set, where the BIOS has attributes that say so.
func (h *handle) readPasswords(ctx context.Context) (reading, error) {
	state, err := h.readBIOSShown(ctx)
	if err != nil || state == nil {
		return reading{}, err
	}
	is := map[string]string{}
	for _, name := range state.bios.Attributes.names() {
		value, entry := state.bios.Attributes[name], state.registry[name]
		switch {
		case !strings.Contains(strings.ToLower(name), "password"):
		case isBool(value) || entry != nil && entry.Type == "Enumeration":
			is[name] = hardware.OneLine(valueText(value))
		case entry != nil && entry.Type == "Password": // what it shows may be made of the password
			is[name] = map[bool]string{true: "set", false: "not set"}[valueText(value) != ""]
		}
	}
	if len(is) == 0 {
		return reading{}, nil
	}
	return reading{is: is}, nil
}

// vendorSwitch is one property of a vendor's own that is part of an item. Sources: the libraries and
// scripts of the vendors, as docs/redfish.md lists them.
type vendorSwitch struct {
	item, key string
	// vendor is the name of its part in the manager's Oem.
	vendor string
	// below is where the resource is, below the manager; "" is the manager.
	below string
	// property is where its value is in the resource.
	property []string
}

var vendorSwitches = []vendorSwitch{
	{item: device.SetupLockdown, key: "lockdown", vendor: "Dell", below: "/Attributes",
		property: []string{"Attributes", "Lockdown.1.SystemLockdown"}},
	{item: device.SetupLockdown, key: "lockdown", vendor: "Supermicro", below: "/Oem/Supermicro/SysLockdown",
		property: []string{"SysLockdownEnabled"}},
	{item: device.SetupInterfaces, key: "KCS", vendor: "Supermicro", below: "/Oem/Supermicro/KCSInterface",
		property: []string{"Privilege"}},
	{item: device.SetupInterfaces, key: "KCS", vendor: "Lenovo", below: "",
		property: []string{"Oem", "Lenovo", "KCSEnabled"}},
}

// addSwitches reads the vendors' own properties of an item.
func (h *handle) addSwitches(ctx context.Context, all *reading, item string) error {
	return h.eachManager(ctx, func(m *manager) error {
		for _, s := range vendorSwitches {
			if s.item != item || m.Oem[s.vendor] == nil {
				continue
			}
			body, err := h.getOwn(ctx, m.path+s.below)
			if err != nil {
				return err
			}
			var value any = map[string]any(body)
			for _, name := range s.property {
				inner, _ := value.(map[string]any)
				value = inner[name]
			}
			if isScalar(value) {
				all.add(s.key, valueText(value), patched(m.path+s.below, func(want string) map[string]any {
					var to any = want
					if isBool(value) {
						to = strings.EqualFold(want, "true")
					}
					for _, name := range slices.Backward(s.property[1:]) {
						to = map[string]any{name: to}
					}
					return map[string]any{s.property[0]: to}
				}))
			}
		}
		return nil
	})
}

func (h *handle) readLockdown(ctx context.Context) (all reading, err error) {
	return all, h.addSwitches(ctx, &all, device.SetupLockdown)
}

// unlockedAs is the value without a lockdown of a property with this value.
func unlockedAs(value string) string {
	if strings.EqualFold(value, "true") || strings.EqualFold(value, "false") {
		return "false"
	}
	return "Disabled"
}
