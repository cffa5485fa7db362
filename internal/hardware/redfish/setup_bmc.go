package redfish

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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

// entries collects the entries of an item, and where each is. Of two with one name the second gets a number.
type entries struct {
	is map[string]string
	at map[string]string
}

func newEntries() entries { return entries{map[string]string{}, map[string]string{}} }

func (e entries) add(key, value, at string) {
	key = hardware.OneLine(strings.TrimSuffix(key, "/"))
	for n, plain := 2, key; e.is[key] != ""; n++ {
		key = fmt.Sprintf("%s (%d)", plain, n)
	}
	e.is[key], e.at[key] = hardware.OneLine(value), at
}

// delete is the way of entries that are resources of their own.
func (e entries) delete(key string, want map[string]string) [][]request {
	if want[key] != "" {
		return nil
	}
	return [][]request{{{Method: http.MethodDelete, Path: e.at[key]}}}
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

func (h *handle) readAccounts(ctx context.Context) (reading, error) {
	own, err := h.driver.credentials(h.bmc.secret)
	if err != nil {
		return reading{}, err
	}
	isOwn := func(name string) bool { return strings.EqualFold(name, own.Username) }
	all := newEntries()
	shown, err := h.eachAccount(ctx, func(path string, a *account) {
		all.add(a.UserName, a.RoleID+", "+enabled(a.Enabled), path)
	})
	if err != nil || !shown {
		return reading{}, err
	}
	return reading{
		is: all.is,
		ways: func(key string, want map[string]string) [][]request {
			at := all.at[key]
			role, state, _ := strings.Cut(want[key], ", ")
			switch {
			case isOwn(key) || at == "":
				return nil
			case want[key] != "":
				return [][]request{{patch(at, map[string]any{"RoleId": role, "Enabled": state == "enabled"})}}
			}
			return [][]request{
				{{Method: http.MethodDelete, Path: at}},
				// An iDRAC's slot: all in one request leaves the role behind.
				{patch(at, map[string]any{"Enabled": false, "RoleId": "None"}), patch(at, map[string]any{"UserName": ""})},
				{patch(at, map[string]any{"Enabled": false})}, // what cannot be deleted
			}
		},
		// The secret's user may have changed since the enrollment.
		same: func(key, want, _ string) bool { return key == own.Username && want == "" },
	}, nil
}

func (h *handle) readKeys(ctx context.Context) (reading, error) {
	type holder struct {
		name string
		keys link
	}
	var holders []holder
	if _, err := h.eachAccount(ctx, func(_ string, a *account) {
		if a.Keys != "" {
			holders = append(holders, holder{a.UserName, a.Keys})
		}
	}); err != nil || len(holders) == 0 {
		return reading{}, err
	}
	type key struct {
		Kind string `json:"KeyType" bmc:"optional"`
		Text string `json:"KeyString"`
	}
	all := newEntries()
	for _, one := range holders {
		if err := eachMember(ctx, h, one.keys, func(path string, k *key) {
			all.add(one.name+" "+digest(k.Text), "key "+k.Kind, path)
		}); err != nil {
			return reading{}, err
		}
	}
	return reading{is: all.is, ways: all.delete}, nil
}

func (h *handle) readSubscriptions(ctx context.Context) (reading, error) {
	var service struct{ Subscriptions link }
	if err := h.get(ctx, "/redfish/v1/EventService", &service); err != nil || service.Subscriptions == "" {
		return reading{}, ignoreRefusal(err)
	}
	type subscription struct {
		Destination string `bmc:"optional"`
	}
	all := newEntries()
	err := eachMember(ctx, h, service.Subscriptions, func(path string, s *subscription) {
		all.add(location(s.Destination), "subscribed", path)
	})
	return reading{is: all.is, ways: all.delete}, err
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

func (h *handle) readMedia(ctx context.Context) (reading, error) {
	s, err := h.known(ctx)
	if err != nil {
		return reading{}, err
	}
	collections := []link{s.VirtualMedia} // a newer place
	err = h.eachManager(ctx, func(m *manager) error {
		collections = append(collections, m.VirtualMedia)
		return nil
	})
	type media struct {
		Image    string `bmc:"optional"`
		Inserted bool   `bmc:"optional"`
		Actions  struct {
			Eject actionTarget `json:"#VirtualMedia.EjectMedia" bmc:"optional"`
		} `bmc:"optional"`
	}
	all, shown, eject := newEntries(), false, map[string]string{}
	for _, collection := range collections {
		if err != nil {
			return reading{}, err
		}
		err = eachMember(ctx, h, collection, func(path string, m *media) {
			shown = true
			if m.Inserted || m.Image != "" {
				all.add(path, "inserted "+location(m.Image), path)
				eject[path] = string(m.Actions.Eject.Target)
			}
		})
	}
	if err != nil || !shown {
		return reading{}, err
	}
	return reading{
		is: all.is,
		ways: func(key string, _ map[string]string) [][]request {
			ways := [][]request{{patch(all.at[key], map[string]any{"Image": nil, "Inserted": false})}}
			if target := eject[all.at[key]]; target != "" {
				ways = slices.Insert(ways, 0, []request{{Method: http.MethodPost, Path: target}})
			}
			return ways
		},
		same: func(_, _, is string) bool { return is == "" }, // what was ejected since leads nowhere
	}, nil
}

func (h *handle) readInterfaces(ctx context.Context) (reading, error) {
	type hostInterface struct {
		Enabled *bool `json:"InterfaceEnabled"`
	}
	all, shown := newEntries(), false
	err := h.eachManager(ctx, func(m *manager) error {
		return eachMember(ctx, h, m.HostInterfaces, func(path string, i *hostInterface) {
			shown = true
			all.add(path, enabled(i.Enabled), path)
		})
	})
	if err != nil {
		return reading{}, err
	}
	own, err := h.readSwitches(ctx, device.SetupInterfaces)
	if err != nil || !shown && own.is == nil {
		return reading{}, err
	}
	for key, value := range own.is {
		all.add(key, value, "")
	}
	return reading{is: all.is, ways: func(key string, want map[string]string) [][]request {
		if all.at[key] == "" || want[key] == "" {
			return own.waysTo(key, want)
		}
		return [][]request{{patch(all.at[key], map[string]any{"InterfaceEnabled": want[key] == "enabled"})}}
	}}, nil
}

func (h *handle) readProtocols(ctx context.Context) (reading, error) {
	all := newEntries()
	shown := false
	err := h.eachManager(ctx, func(m *manager) error {
		if m.NetworkProtocol == "" {
			return nil
		}
		got, err := h.Get(ctx, string(m.NetworkProtocol))
		if refusedRead(err) {
			return nil
		}
		body := attributes{}
		if err == nil {
			err = got.decode(&body)
		}
		if err != nil {
			return err
		}
		shown = true
		for _, name := range body.names() {
			one, _ := body[name].(map[string]any)
			if on, is := one["ProtocolEnabled"].(bool); is {
				value := enabled(&on)
				if port := valueText(one["Port"]); port != "" {
					value += ", port " + port
				}
				all.add(name, value, string(m.NetworkProtocol))
			}
		}
		return nil
	})
	if err != nil || !shown {
		return reading{}, err
	}
	return reading{is: all.is, ways: func(key string, want map[string]string) [][]request {
		if all.at[key] == "" || want[key] == "" || key == "HTTPS" { // by which Burnish is here
			return nil
		}
		state, port, _ := strings.Cut(want[key], ", port ")
		body := map[string]any{"ProtocolEnabled": state == "enabled"}
		if n, is := whole(port); is {
			body["Port"] = n
		}
		return [][]request{{patch(all.at[key], map[string]any{key: body})}}
	}}, nil
}

// readSessions reads the sessions of others.
func (h *handle) readSessions(ctx context.Context) (reading, error) {
	collection, own := h.bmc.ownSession()
	members, err := h.members(ctx, collection)
	if err != nil {
		return reading{}, ignoreRefusal(err)
	}
	all := newEntries()
	for _, path := range paths(members) {
		if !samePath(path, own) {
			all.add(path, "open", path)
		}
	}
	return reading{is: all.is, ways: all.delete}, nil
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
	all := newEntries()
	for _, name := range state.bios.Attributes.names() {
		value, entry := state.bios.Attributes[name], state.registry[name]
		switch {
		case !strings.Contains(strings.ToLower(name), "password"):
		case isBool(value) || entry != nil && entry.Type == "Enumeration":
			all.add(name, valueText(value), "")
		case entry != nil && entry.Type == "Password": // what it shows may be made of the password
			all.add(name, map[bool]string{true: "set", false: "not set"}[valueText(value) != ""], "")
		}
	}
	if len(all.is) == 0 {
		return reading{}, nil
	}
	return reading{is: all.is}, nil
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

// set is the request for a value, in the type that the property has.
func (s vendorSwitch) set(path, want string, is any) request {
	var value any = want
	if isBool(is) {
		value = strings.EqualFold(want, "true")
	}
	for _, name := range slices.Backward(s.property) {
		value = map[string]any{name: value}
	}
	return request{Method: http.MethodPatch, Path: path, Body: value}
}

// readSwitches reads the vendors' own properties of an item.
func (h *handle) readSwitches(ctx context.Context, item string) (reading, error) {
	all, found := newEntries(), map[string]func(want string) request{}
	err := h.eachManager(ctx, func(m *manager) error {
		for _, s := range vendorSwitches {
			if s.item != item || m.Oem[s.vendor] == nil {
				continue
			}
			got, err := h.Get(ctx, m.path+s.below)
			if refusedRead(err) {
				continue
			}
			body := attributes{}
			if err == nil {
				err = got.decode(&body)
			}
			if err != nil {
				return err
			}
			var value any = map[string]any(body)
			for _, name := range s.property {
				inner, _ := value.(map[string]any)
				value = inner[name]
			}
			if isScalar(value) {
				all.add(s.key, valueText(value), got.Path)
				found[s.key] = func(want string) request { return s.set(got.Path, want, value) }
			}
		}
		return nil
	})
	if err != nil || len(all.is) == 0 {
		return reading{}, err
	}
	return reading{is: all.is, ways: func(key string, want map[string]string) [][]request {
		if found[key] == nil || want[key] == "" {
			return nil
		}
		return [][]request{{found[key](want[key])}}
	}}, nil
}

func (h *handle) readLockdown(ctx context.Context) (reading, error) {
	return h.readSwitches(ctx, device.SetupLockdown)
}

// unlockedAs is the value without a lockdown of a property with this value.
func unlockedAs(value string) string {
	if strings.EqualFold(value, "true") || strings.EqualFold(value, "false") {
		return "false"
	}
	return "Disabled"
}
