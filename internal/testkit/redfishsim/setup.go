package redfishsim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Setup is what a tenant who is root on the server can change through the host interface, besides the
// drives and the BIOS. A test compares it with what it was before.
type Setup struct {
	Accounts      []*Account      `json:",omitempty"`
	Subscriptions []*Subscription `json:",omitempty"`
	Media         []*Media        `json:",omitempty"`
	// Interfaces are those between the server and its BMC.
	Interfaces map[string]bool `json:",omitempty"`
	// KCS is the vendor's own property: a privilege, or true and false.
	KCS       string               `json:",omitempty"`
	Protocols map[string]*Protocol `json:",omitempty"`
	Lockdown  bool

	Override, OverrideTarget string
	Options                  []*BootOption `json:",omitempty"`
	Order                    []string      `json:",omitempty"`
	// OrderShown is what the BMC shows instead, until a start without a lockdown.
	OrderShown   []string `json:",omitempty"`
	OrderPending []string `json:",omitempty"`

	SecureBoot SecureBoot
	TPM        TPM
}

// Account is one of the BMC's.
type Account struct {
	ID, User, Role string
	Enabled        bool
	Stays          bool              // it cannot be deleted
	Keys           map[string]string `json:",omitempty"`
}

// Subscription is one to the BMC's events.
type Subscription struct{ ID, Destination string }

// Media is a virtual medium; Image is what is inserted, "" for nothing.
type Media struct{ ID, Image string }

// Protocol is one of the BMC's network protocols.
type Protocol struct {
	Enabled bool
	Port    int
}

// BootOption is what can be booted.
type BootOption struct {
	Reference, Name, Path string
	Enabled               bool
}

// SecureBoot is that of the server. Vendor is what a reset of the keys brings, at the next start.
type SecureBoot struct {
	Enabled   bool
	Databases map[string][]string `json:",omitempty"` // PK, KEK, db, dbx
	Vendor    map[string][]string `json:",omitempty"`
	Resets    bool                // wanted
	Enables   *bool               `json:",omitempty"` // wanted
}

// mode is SecureBootMode.
func (s SecureBoot) mode() string {
	if len(s.Databases["PK"]) == 0 {
		return "SetupMode"
	}
	return "UserMode"
}

// TPM is the server's. Owner is who has put something into it.
type TPM struct {
	Owner  string
	Clears int
}

// Tenant is in everything that Plant leaves.
const Tenant = "mallory"

// TPMAttribute is the BIOS attribute by which that BIOS clears the TPM, with its values.
func TPMAttribute(p Personality) (name, clear, none string) {
	switch p {
	case IDRAC:
		return "Tpm2Hierarchy", "Clear", "Enabled"
	case ILO:
		return "Tpm2Operation", "Clear", "NoAction"
	case Supermicro:
		return "PendingOperation_0073", "TPM Clear", "None"
	case XCC:
		return "TrustedComputingGroup_DeviceOperation", "Clear", "None"
	default:
		return "", "", ""
	}
}

// setup is that of a new server of that personality.
func setup(p Personality, s *State) {
	s.Setup = Setup{
		Accounts: []*Account{{ID: "2", User: "root", Role: "Administrator", Enabled: true},
			{ID: "3", User: "monitor", Role: "ReadOnly", Enabled: true}},
		Subscriptions: []*Subscription{{ID: "1", Destination: "https://monitoring.example/events?key=secret-of-monitoring"}},
		Media:         []*Media{{ID: "CD1"}, {ID: "USB1"}},
		Protocols: map[string]*Protocol{"HTTPS": {true, 443}, "SSH": {true, 22}, "IPMI": {false, 623},
			"KVMIP": {true, 5900}},
		Override: "Disabled", OverrideTarget: "None",
	}
	one := &s.Setup
	if p == OpenBMC {
		return
	}
	one.Interfaces = map[string]bool{"1": false}
	one.SecureBoot = SecureBoot{Enabled: true, Vendor: map[string][]string{"PK": {"vendor PK"},
		"KEK": {"vendor KEK", "Microsoft KEK"}, "db": {"Microsoft db", "vendor db"}, "dbx": {"revoked 1", "revoked 2"}}}
	one.SecureBoot.Databases = maps.Clone(one.SecureBoot.Vendor)
	if p != ILO {
		one.Options = []*BootOption{
			{"Boot0001", "PXE NIC.1", "PciRoot(0x0)/Pci(0x1,0x0)/MAC(0A1B2C3D4E5F)/IPv4(0.0.0.0)", true},
			{"Boot0002", "NVMe drive", "PciRoot(0x2)/Pci(0x4,0x0)/NVMe(0x1,00-00)", true}}
		one.Order = []string{"Boot0001", "Boot0002"}
	}
	switch p {
	case Supermicro:
		one.KCS = "Callback"
	case XCC:
		one.KCS = "false"
		one.Accounts[1].Keys = map[string]string{"1": "ssh-ed25519 AAAA of the operator"}
	}
	name, _, none := TPMAttribute(p)
	s.BIOS.Defaults[name], s.BIOS.Attributes[name] = none, none
	switch p {
	case IDRAC:
		s.BIOS.Defaults["TpmSecurity"], s.BIOS.Attributes["TpmSecurity"] = "On", "On"
		s.BIOS.Defaults["TpmPpiBypassClear"], s.BIOS.Attributes["TpmPpiBypassClear"] = "Disabled", "Disabled"
		s.BIOS.Attributes[SetupPassword] = ""
	case ILO:
		s.BIOS.Defaults["TpmVisibility"], s.BIOS.Attributes["TpmVisibility"] = "Visible", "Hidden"
	}
}

// Plant leaves what a hostile tenant leaves on a server of that personality.
func (s *State) Plant(p Personality) {
	one := &s.Setup
	one.Accounts = append(one.Accounts, &Account{ID: "7", User: Tenant, Role: "Administrator", Enabled: true})
	for _, a := range one.Accounts {
		if a.User == "monitor" {
			a.Role = "Administrator"
		}
		if a.Keys != nil {
			a.Keys["9"] = "ssh-ed25519 AAAA of " + Tenant
		}
	}
	one.Subscriptions = append(one.Subscriptions, &Subscription{ID: "9", Destination: "https://" + Tenant + ".example/"})
	one.Media[0].Image = "http://" + Tenant + ".example/live.iso"
	one.Protocols["IPMI"].Enabled, one.Protocols["SSH"].Port = true, 2222
	for id := range one.Interfaces {
		one.Interfaces[id] = true
	}
	one.KCS = map[string]string{"Callback": "Administrator", "false": "true"}[one.KCS]
	one.Override, one.OverrideTarget = "Continuous", "Cd"
	s.Sessions = append(s.Sessions, &Session{ID: Tenant, Token: TokenPrefix + Tenant, User: Tenant})
	if p == OpenBMC {
		return
	}
	one.TPM.Owner = Tenant
	one.SecureBoot.Databases = maps.Clone(one.SecureBoot.Vendor)
	one.SecureBoot.Databases["db"] = append(slices.Clone(one.SecureBoot.Vendor["db"]), "key of "+Tenant)
	one.SecureBoot.Databases["dbx"] = nil
	one.SecureBoot.Enabled = false
	if len(one.Options) > 0 {
		one.OrderShown = slices.Clone(one.Order)
		one.Options = append(one.Options,
			&BootOption{"Boot0009", Tenant, `HD(1,GPT,1b2c)/File(\EFI\` + Tenant + `\shimx64.efi)`, true},
			&BootOption{"Boot000A", "UEFI HTTP", "PciRoot(0x0)/Uri(http://" + Tenant + ".example/boot.efi)", true})
		one.Options[0].Enabled = false
		one.Order = []string{"Boot000A", "Boot0009", "Boot0002", "Boot0001"}
	}
	if p != Supermicro { // the others show the order as it is
		one.OrderShown = nil
	}
	one.Lockdown = p == Supermicro || p == IDRAC
}

// startsTPM is whether the start that begins waits at the console for somebody who agrees to clear the TPM.
func (m *Machine) startsTPM() bool {
	name, wanted, _ := TPMAttribute(m.Conf.Personality)
	return name != "" && m.Data.BIOS.Pending[name] == wanted &&
		(m.Conf.TPMPresence || m.Data.BIOS.Attributes["TpmPpiBypassClear"] == "Disabled")
}

// clearTPM carries out what was just set of the TPM.
func (m *Machine) clearTPM() {
	name, wanted, none := TPMAttribute(m.Conf.Personality)
	if b := &m.Data.BIOS; name != "" && b.Attributes[name] == wanted {
		b.Attributes[name] = none
		m.Data.Setup.TPM = TPM{Clears: m.Data.Setup.TPM.Clears + 1}
	}
}

// started is what the end of POST does.
func (m *Machine) started() {
	one := &m.Data.Setup
	if len(m.Data.TenantData()) == 0 { // what a file of an erased drive was
		m.dropOptions("HD(")
	}
	if one.OrderPending != nil && !m.is(IDRAC) { // which has a job for it
		one.Order, one.OrderPending = one.OrderPending, nil
	}
	if !one.Lockdown {
		one.OrderShown = nil
	}
	if one.Override == "Once" {
		one.Override, one.OverrideTarget = "Disabled", "None"
	}
	if s := &one.SecureBoot; s.Resets {
		s.Databases, s.Resets = maps.Clone(s.Vendor), false
	}
	if s := &one.SecureBoot; s.Enables != nil {
		s.Enabled, s.Enables = *s.Enables, nil
	}
}

func (m *Machine) dropOptions(having string) {
	one := &m.Data.Setup
	one.Options = slices.DeleteFunc(one.Options, func(o *BootOption) bool { return strings.Contains(o.Path, having) })
	one.Order = slices.DeleteFunc(one.Order, func(reference string) bool {
		return !slices.ContainsFunc(one.Options, func(o *BootOption) bool { return o.Reference == reference })
	})
}

// mayLogin: the account that Burnish uses is still there, and can do what it could.
func (m *Machine) mayLogin() bool {
	return slices.ContainsFunc(m.Data.Setup.Accounts, func(a *Account) bool {
		return a.User == m.Conf.Username && a.Enabled && a.Role == "Administrator"
	})
}

const accounts = root + "/AccountService/Accounts"

// changing is do where the BMC does what it says of this.
func (t *tree) changing(what string, do handler) handler {
	return func(c *call) answer {
		if slices.Contains(t.Conf.Ignores, what) {
			return answer{Status: 204}
		}
		a := do(c)
		c.Entry.Changed = c.Entry.Changed || a.Status < 300
		return a
	}
}

// sets is a PATCH that changes this, removes a DELETE.
func (t *tree) sets(path, what string, set func(c *call)) {
	t.do("PATCH", path, t.setting(what, set))
}

func (t *tree) removes(path, what string, remove func()) {
	t.do("DELETE", path, t.setting(what, func(*call) { remove() }))
}

func (t *tree) setting(what string, set func(c *call)) handler {
	return t.changing(what, func(c *call) answer {
		set(c)
		return success()
	})
}

func (t *tree) addSetup() {
	t.addAccounts()
	t.add("EventService.v1_7_0.EventService", root+"/EventService", "Event Service",
		doc{"ServiceEnabled": true, "Subscriptions": t.link(root + "/EventService/Subscriptions")})
	subscriptions, one := root+"/EventService/Subscriptions", &t.Data.Setup
	t.list("EventDestination", subscriptions)
	for _, s := range one.Subscriptions {
		t.member("EventDestination.v1_7_0.EventDestination", subscriptions, s.ID, "Subscription",
			doc{"Destination": s.Destination, "Protocol": "Redfish", "Context": "c"})
		t.removes(subscriptions+"/"+s.ID, "subscriptions", func() {
			one.Subscriptions = slices.DeleteFunc(one.Subscriptions, func(o *Subscription) bool { return o == s })
		})
	}
}

func (t *tree) addAccounts() {
	t.add("AccountService.v1_9_0.AccountService", root+"/AccountService", "Account Service",
		doc{"Accounts": t.link(accounts)})
	t.list("ManagerAccount", accounts)
	one := &t.Data.Setup
	if t.is(IDRAC) { // which has slots
		t.member("ManagerAccount.v1_8_0.ManagerAccount", accounts, "1", "User Account",
			doc{"UserName": "", "RoleId": "None", "Enabled": false})
	}
	for _, a := range one.Accounts {
		path := accounts + "/" + a.ID
		r := t.member("ManagerAccount.v1_8_0.ManagerAccount", accounts, a.ID, "User Account",
			doc{"UserName": a.User, "RoleId": a.Role, "Enabled": a.Enabled, "Locked": false, "Password": nil})
		r.tagged = true
		gone := func() {
			one.Accounts = slices.DeleteFunc(one.Accounts, func(o *Account) bool { return o == a })
		}
		if !t.is(IDRAC) {
			t.do("DELETE", path, t.matched(r, t.changing("accounts", func(*call) answer {
				if a.Stays {
					return failure(400, "Base.1.8.ResourceCannotBeDeleted", "The account is predefined.")
				}
				gone()
				return success()
			})))
		}
		t.do("PATCH", path, t.matched(r, t.changing("accounts", func(c *call) answer {
			if enabled, given := c.JSON["Enabled"].(bool); given {
				a.Enabled = enabled
			}
			if role := c.Text("RoleId"); role != "" {
				a.Role = role
			}
			if given := c.Text("Password"); given != "" && a.User == t.Conf.Username {
				t.Data.FirstPassword = given != t.Conf.Password
			}
			name, renames := c.JSON["UserName"].(string)
			switch {
			case !renames:
			case !t.is(IDRAC) || a.Stays:
				return failure(400, "Base.1.8.PropertyValueFormatError", "The user name is not valid.")
			case a.Role == "None" && !a.Enabled && name == "":
				gone()
			}
			return success()
		})))
		if a.Keys == nil {
			continue
		}
		r.doc["Keys"] = t.link(path + "/Keys")
		t.list("Key", path+"/Keys")
		for _, id := range slices.Sorted(maps.Keys(a.Keys)) {
			t.member("Key.v1_1_0.Key", path+"/Keys", id, "SSH Key", doc{"KeyType": "SSH", "KeyString": a.Keys[id]})
			t.removes(path+"/Keys/"+id, "keys", func() { delete(a.Keys, id) })
		}
	}
}

// addManagerSetup adds to a manager what a tenant can change of it.
func (t *tree) addManagerSetup(r *resource, path string) {
	one := &t.Data.Setup
	t.addMedia(r, path)
	t.addDefaults(r, path)
	network := path + "/NetworkProtocol"
	r.doc["NetworkProtocol"] = t.link(network)
	protocols := doc{"HostName": "bmc"}
	for name, p := range one.Protocols {
		protocols[name] = doc{"ProtocolEnabled": p.Enabled, "Port": p.Port}
	}
	n := t.add("ManagerNetworkProtocol.v1_8_0.ManagerNetworkProtocol", network, "Network Protocol", protocols)
	n.tagged = true
	t.do("PATCH", network, t.matched(n, t.setting("protocols", func(c *call) {
		for name, p := range one.Protocols {
			given, _ := c.JSON[name].(map[string]any)
			if enabled, is := given["ProtocolEnabled"].(bool); is {
				p.Enabled = enabled
			}
			if port, is := given["Port"].(float64); is {
				p.Port = int(port)
			}
		}
	})))
	if one.Interfaces != nil {
		list := path + "/HostInterfaces"
		r.doc["HostInterfaces"] = t.link(list)
		t.list("HostInterface", list)
		for id, enabled := range one.Interfaces {
			t.member("HostInterface.v1_3_0.HostInterface", list, id, "Host Interface",
				doc{"HostInterfaceType": "NetworkHostInterface", "InterfaceEnabled": enabled})
			t.sets(list+"/"+id, "host_interfaces", func(c *call) {
				one.Interfaces[id], _ = c.JSON["InterfaceEnabled"].(bool)
			})
		}
	}
	locks := func(text any) { one.Lockdown = text == true || text == "Enabled" }
	switch t.Conf.Personality {
	case IDRAC:
		r.doc["Oem"] = doc{"Dell": doc{"DelliDRACCard": doc{}}}
		word := map[bool]string{true: "Enabled", false: "Disabled"}[one.Lockdown]
		t.add("Attributes.v1_0_0.Attributes", path+"/Attributes", "OEMAttributeRegistry",
			doc{"Attributes": doc{"Lockdown.1.SystemLockdown": word, "Info.1.Type": "14G"}})
		t.sets(path+"/Attributes", "lockdown", func(c *call) {
			given, _ := c.JSON["Attributes"].(map[string]any)
			locks(given["Lockdown.1.SystemLockdown"])
		})
	case Supermicro:
		own := path + "/Oem/Supermicro"
		r.doc["Oem"] = doc{"Supermicro": doc{"SysLockdown": t.link(own + "/SysLockdown"),
			"KCSInterface": t.link(own + "/KCSInterface")}}
		t.add("SysLockdown.v1_0_0.SysLockdown", own+"/SysLockdown", "SysLockdown",
			doc{"SysLockdownEnabled": one.Lockdown})
		t.sets(own+"/SysLockdown", "lockdown", func(c *call) { locks(c.JSON["SysLockdownEnabled"]) })
		t.add("KCSInterface.v1_0_0.KCSInterface", own+"/KCSInterface", "KCS", doc{"Privilege": one.KCS})
		t.sets(own+"/KCSInterface", "kcs", func(c *call) { one.KCS = c.Text("Privilege") })
	case XCC:
		r.doc["Oem"] = doc{"Lenovo": doc{"KCSEnabled": one.KCS == "true"}}
		t.sets(path, "kcs", func(c *call) {
			oem, _ := c.JSON["Oem"].(map[string]any)
			lenovo, _ := oem["Lenovo"].(map[string]any)
			one.KCS = fmt.Sprint(lenovo["KCSEnabled"])
		})
	}
}

func (t *tree) addMedia(r *resource, path string) {
	list := path + "/VirtualMedia"
	r.doc["VirtualMedia"] = t.link(list)
	t.list("VirtualMedia", list)
	for _, media := range t.Data.Setup.Media {
		at := list + "/" + media.ID
		var image any
		if media.Image != "" {
			image = media.Image
		}
		m := t.member("VirtualMedia.v1_3_0.VirtualMedia", list, media.ID, "Virtual Media",
			doc{"Image": image, "Inserted": media.Image != "", "MediaTypes": []string{"CD"}})
		eject := t.changing("media", func(*call) answer {
			media.Image = ""
			return answer{Status: 204}
		})
		if t.is(XCC) {
			t.do("PATCH", at, eject)
			continue
		}
		m.doc["Actions"] = doc{"#VirtualMedia.EjectMedia": t.action(at + "/Actions/VirtualMedia.EjectMedia")}
		t.post(at+"/Actions/VirtualMedia.EjectMedia", eject)
	}
}

// addBoot adds to the system what a tenant can change of its start.
func (t *tree) addBoot(r *resource) {
	one := &t.Data.Setup
	boot := doc{"BootSourceOverrideEnabled": one.Override, "BootSourceOverrideTarget": one.OverrideTarget}
	r.doc["Boot"] = boot
	t.do("PATCH", t.system(""), t.matched(r, t.changing("boot", t.patchBoot)))
	if len(one.Options) > 0 {
		list := t.system("/BootOptions")
		boot["BootOptions"], boot["BootOrder"] = t.link(list), one.Order
		if one.OrderShown != nil {
			boot["BootOrder"] = one.OrderShown
		}
		if t.wants(list) {
			t.list("BootOption", list)
			for _, o := range one.Options {
				t.addBootOption(list, o)
			}
		}
		if settings := map[Personality]string{IDRAC: "/Settings", XCC: "/Pending"}[t.Conf.Personality]; settings != "" {
			link := doc{"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": t.link(t.system(settings))}
			if t.is(IDRAC) {
				link["SupportedApplyTimes"] = []string{"OnReset"}
			}
			r.doc["@Redfish.Settings"] = link
			s := t.add("ComputerSystem.v1_13_0.ComputerSystem", t.system(settings), "Pending", nil)
			s.tagged = true
			t.do("PATCH", t.system(settings), t.matched(s, t.changing("boot", t.patchBoot)))
		}
	}
	if one.Interfaces != nil {
		tpm := doc{"InterfaceType": "TPM2_0", "FirmwareVersion": "7.2.2.0", "Status": status("Enabled")}
		r.doc["TrustedModules"] = []any{tpm}
		t.addSecureBoot(r)
	}
}

func (t *tree) addBootOption(list string, o *BootOption) {
	t.member("BootOption.v1_0_4.BootOption", list, o.Reference, o.Name, doc{"BootOptionReference": o.Reference,
		"DisplayName": o.Name, "UefiDevicePath": o.Path, "BootOptionEnabled": o.Enabled})
	t.sets(list+"/"+o.Reference, "boot", func(c *call) { o.Enabled, _ = c.JSON["BootOptionEnabled"].(bool) })
	if !t.is(IDRAC) {
		t.removes(list+"/"+o.Reference, "boot", func() { t.dropOptions(o.Path) })
	}
}

func (t *tree) patchBoot(c *call) answer {
	one := &t.Data.Setup
	boot, _ := c.JSON["Boot"].(map[string]any)
	if enabled, given := boot["BootSourceOverrideEnabled"].(string); given {
		one.Override = enabled
		if enabled == "Disabled" {
			one.OverrideTarget = "None"
		}
	}
	order, given := boot["BootOrder"].([]any)
	if !given {
		return success()
	}
	if t.is(IDRAC) && t.biosJob() != nil {
		return failure(400, "IDRAC.2.8.SYS011", "Pending configuration values are already committed.")
	}
	one.OrderPending = nil
	for _, reference := range order {
		one.OrderPending = append(one.OrderPending, fmt.Sprint(reference))
	}
	if !t.is(IDRAC) {
		return success()
	}
	task := t.newTask(KindBIOS, "Configure: BIOS.Setup.1-1", "BIOSConfiguration", c)
	t.Data.Work = append(t.Data.Work, &Work{Kind: KindBIOS, Task: task.ID, Waits: true, Request: c.Entry.Number})
	return t.accepted(c, task, t.Conf.TaskForm)
}

func (t *tree) addSecureBoot(r *resource) {
	path, s := t.system("/SecureBoot"), &t.Data.Setup.SecureBoot
	r.doc["SecureBoot"] = t.link(path)
	reset := path + "/Actions/SecureBoot.ResetKeys"
	b := t.add("SecureBoot.v1_1_0.SecureBoot", path, "Secure Boot", doc{"SecureBootEnable": s.Enabled,
		"SecureBootCurrentBoot": map[bool]string{true: "Enabled", false: "Disabled"}[s.Enabled], "SecureBootMode": s.mode(),
		"Actions": doc{"#SecureBoot.ResetKeys": t.action(reset, "ResetKeysType",
			[]string{"ResetAllKeysToDefault", "DeleteAllKeys", "DeletePK"})}})
	b.tagged = true
	t.do("PATCH", path, t.matched(b, t.setting("secure_boot", func(c *call) {
		enabled, _ := c.JSON["SecureBootEnable"].(bool)
		s.Enables = &enabled
	})))
	t.post(reset, t.changing("secure_boot", func(c *call) answer {
		if c.Text("ResetKeysType") != "ResetAllKeysToDefault" {
			return notInList("the values of ResetKeysType", c.Text("ResetKeysType"))
		}
		s.Resets = true
		return success()
	}))
	if t.is(ILO) { // an older one shows no databases
		return
	}
	list := path + "/SecureBootDatabases"
	b.doc["SecureBootDatabases"] = t.link(list)
	if !t.wants(list) {
		return
	}
	t.list("SecureBootDatabase", list)
	for suffix, databases := range map[string]map[string][]string{"": s.Databases, "Default": s.Vendor} {
		for _, name := range []string{"PK", "KEK", "db", "dbx"} {
			at := list + "/" + name + suffix
			t.member("SecureBootDatabase.v1_0_0.SecureBootDatabase", list, name+suffix, name+suffix,
				doc{"DatabaseId": name + suffix, "Certificates": t.link(at + "/Certificates"),
					"Signatures": t.link(at + "/Signatures")})
			t.list("Certificate", at+"/Certificates")
			t.list("Signature", at+"/Signatures")
			for i, content := range databases[name] {
				if name == "dbx" {
					t.member("Signature.v1_0_0.Signature", at+"/Signatures", strconv.Itoa(i+1), content,
						doc{"SignatureString": content})
					continue
				}
				t.member("Certificate.v1_2_0.Certificate", at+"/Certificates", strconv.Itoa(i+1), content,
					doc{"CertificateString": "-----BEGIN CERTIFICATE-----\n" + content + "\n-----END CERTIFICATE-----\n"})
			}
		}
	}
}

// locked is whether a lockdown refuses the request.
func (m *Machine) locked(method, path string) bool {
	free := []string{strings.ToLower(m.Conf.SessionsPath), strings.ToLower(m.manager("/Attributes")),
		strings.ToLower(m.manager("/Oem/Supermicro/SysLockdown")), "computersystem.reset"}
	return m.Data.Setup.Lockdown && method != "GET" && !slices.ContainsFunc(free, func(one string) bool {
		return strings.Contains(strings.ToLower(path), one)
	})
}
