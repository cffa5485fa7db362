package redfishsim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// applyBIOS is what the end of POST does with what is pending.
func (m *Machine) applyBIOS(at time.Time) {
	b := &m.Data.BIOS
	if b.PendingReset {
		b.PendingReset = false
		if !m.Conf.BIOSNeverApplies {
			maps.Copy(b.Attributes, b.Defaults)
			m.dropOptions("Uri(") // which it has of its settings
		}
	}
	for _, w := range m.Data.Work {
		if w.Kind == KindBIOS && w.Waits {
			w.Waits, w.Started, w.Due = false, at, at.Add(m.Conf.Delays.Settle)
		}
	}
	if !m.is(IDRAC) {
		m.mergePending()
	}
}

func (m *Machine) mergePending() {
	b := &m.Data.BIOS
	if !m.Conf.BIOSNeverApplies && len(b.Pending) > 0 {
		maps.Copy(b.Attributes, b.Pending)
		m.clearTPM()
	}
	b.Pending = nil
}

// settingsApplied is the end of a BIOS job.
func (m *Machine) settingsApplied(w *Work, at time.Time) {
	how := m.Conf.Endings[KindBIOS]
	if how == Succeeds {
		m.mergePending()
		if one := &m.Data.Setup; one.OrderPending != nil {
			one.Order = one.OrderPending
		}
	}
	m.Data.BIOS.Pending, m.Data.Setup.OrderPending = nil, nil
	m.end(w, how, at)
}

// biosJob is the job that will apply, or applies, the pending attributes.
func (m *Machine) biosJob() *Work {
	for _, w := range m.Data.Work {
		if w.Kind == KindBIOS {
			return w
		}
	}
	return nil
}

const (
	registries = root + "/Registries"
	registryID = "BiosAttributeRegistry.v1_0_0"
)

func (t *tree) addBIOS() {
	path, b := t.system("/Bios"), &t.Data.BIOS
	bios := t.add("Bios.v1_2_0.Bios", path, "BIOS Configuration Current Settings",
		doc{"Actions": doc{"#Bios.ResetBios": t.action(path + "/Actions/Bios.ResetBios")}})
	t.post(path+"/Actions/Bios.ResetBios", t.outsidePOST(t.resetBIOS))
	t.list("MessageRegistryFile", registries)
	if t.is(OpenBMC) {
		return // it shows no attributes
	}
	settings := t.add("Bios.v1_2_0.Bios", path+"/"+t.Conf.BIOSSettings, "BIOS Configuration Pending Settings", nil)
	t.do("PATCH", path+"/"+t.Conf.BIOSSettings, t.matched(settings, t.outsidePOST(t.patchSettings)))
	bios.tagged, settings.tagged = true, true
	if t.is(Supermicro) {
		t.do("PATCH", path, t.matched(bios, t.patchSettings))
	}
	current, pending := maps.Clone(b.Attributes), maps.Clone(b.Attributes)
	link := doc{"@odata.type": "#Settings.v1_3_0.Settings", "SettingsObject": t.link(path + "/" + t.Conf.BIOSSettings)}
	if t.is(IDRAC) {
		if t.biosJob() != nil { // it shows what a job will apply as if it held
			maps.Copy(current, b.Pending)
		}
		pending = doc{} // and in the settings nothing else
		times := []string{"OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset"}
		link["SupportedApplyTimes"] = times
		settings.doc["@Redfish.SettingsApplyTime"] = doc{"@odata.type": "#Settings.v1_3_0.PreferredApplyTime",
			"ApplyTime@Redfish.AllowableValues": times}
		clearing := t.system("/Bios/Settings/Actions/Oem/DellManager.ClearPending")
		settings.doc["Actions"] = doc{"Oem": doc{"#DellManager.ClearPending": t.action(clearing)}}
		t.post(clearing, t.clearPending)
	}
	maps.Copy(pending, b.Pending)
	bios.doc["Attributes"], bios.doc["@Redfish.Settings"], settings.doc["Attributes"] = current, link, pending
	if t.is(Supermicro) && len(b.Pending) == 0 {
		delete(settings.doc, "Attributes")
	}
	if t.Conf.NoRegistry {
		return
	}
	bios.doc["AttributeRegistry"], settings.doc["AttributeRegistry"] = registryID, registryID
	file := registries + "/" + registryID
	t.member("MessageRegistryFile.v1_1_0.MessageRegistryFile", registries, registryID, "BIOS Attribute Registry File", doc{
		"Registry": registryID, "Languages": []string{"en"},
		"Location": []any{doc{"Language": "en", "Uri": t.uri(file + "/Registry")}},
	})
	t.add("AttributeRegistry.v1_3_0.AttributeRegistry", file+"/Registry", "BIOS Attribute Registry", doc{
		"Id": registryID, "Language": "en", "OwningEntity": t.Data.Manufacturer, "RegistryVersion": "1.0.0",
		"SupportedSystems": []any{doc{"ProductName": t.Data.Model}},
		"RegistryEntries":  doc{"Attributes": b.entries()},
	})
}

// entries are those of the attribute registry, with each attribute's default. One without a
// default is read only.
func (b *BIOS) entries() []any {
	var all []any
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		value, writable := b.Defaults[name]
		entry := doc{"AttributeName": name, "DisplayName": name, "ReadOnly": !writable, "ResetRequired": true,
			"Immutable": false, "Type": "Integer"}
		if writable {
			entry["DefaultValue"] = value
		}
		switch b.Attributes[name].(type) {
		case bool:
			entry["Type"] = "Boolean"
		case string:
			entry["Type"] = "String"
		}
		if name == SetupPassword {
			entry["Type"] = "Password"
		}
		if allowed := values(name); allowed != nil {
			var list []any
			for _, one := range allowed {
				list = append(list, doc{"ValueName": one, "ValueDisplayName": one})
			}
			entry["Type"], entry["Value"] = "Enumeration", list
		}
		all = append(all, entry)
	}
	return all
}

// SetupPassword is the attribute of an iDRAC's BIOS that shows whether its setup has a password: PasswordShown, or
// nothing. Nobody but who knows it takes it away.
const (
	SetupPassword = "SetupPassword"
	PasswordShown = "********"
)

// outsidePOST is do where POST does not run: an iLO changes nothing then.
func (m *Machine) outsidePOST(do handler) handler {
	return func(c *call) answer {
		if m.is(ILO) && m.Data.InPOST {
			return failure(400, "iLO.2.14.UnableToModifyDuringSystemPOST", "The system is in POST.")
		}
		return do(c)
	}
}

func (m *Machine) resetBIOS(c *call) answer {
	m.Data.BIOS.PendingReset, m.Data.BIOS.Pending = true, nil
	c.Entry.Changed = true
	if m.Conf.ResetBIOSStatus == 204 {
		return answer{Status: 204}
	}
	return message(m.Conf.ResetBIOSStatus, "Base.1.8.Success", "BIOS will be reset to its defaults at the next reset.")
}

func (m *Machine) patchSettings(c *call) answer {
	wanted, _ := c.JSON["Attributes"].(map[string]any)
	if len(wanted) == 0 {
		return failure(400, "Base.1.8.PropertyMissing", "The property Attributes is a required property.")
	}
	b := &m.Data.BIOS
	if _, named := wanted[m.Conf.RefusedAttribute]; named {
		text := "The property " + m.Conf.RefusedAttribute + " is a read only property."
		no := information("Base.1.8.PropertyNotWritable", text, "Warning")
		return answer{Status: m.Conf.RefusedStatus, Body: doc{"Attributes@Message.ExtendedInfo": []any{no}}}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		_, known := b.Attributes[name]
		_, writable := b.Defaults[name]
		switch allowed := values(name); {
		case !writable && known:
			return failure(400, "Base.1.8.PropertyNotWritable", "The property "+name+" is read only.")
		case !writable:
			return failure(400, "Base.1.8.PropertyUnknown", "There is no property "+name+".")
		case allowed != nil && !slices.Contains(allowed, fmt.Sprint(wanted[name])):
			return notInList("the values of "+name, fmt.Sprint(wanted[name]))
		}
	}
	applyTime, asked := when(c.JSON, "@Redfish.SettingsApplyTime")
	if m.is(IDRAC) && m.biosJob() != nil {
		return failure(400, "IDRAC.2.8.SYS011", "Pending configuration values are already committed.")
	}
	if name, _, _ := TPMAttribute(m.Conf.Personality); slices.Contains(m.Conf.Ignores, "tpm") && wanted[name] != nil {
		return answer{Status: 204}
	}
	before := maps.Clone(b.Pending)
	if b.Pending == nil {
		b.Pending = doc{}
	}
	maps.Copy(b.Pending, wanted)
	c.Entry.Changed = true
	switch {
	case !m.is(IDRAC):
		return message(200, "Base.1.8.SystemResetRequired", "The properties take effect when the system is reset.")
	case !asked || m.Conf.RepeatMakesNoJob && reflect.DeepEqual(before, b.Pending):
		return message(200, "Base.1.8.Success", "The attributes are pending.")
	case !slices.Contains([]string{"OnReset", "InMaintenanceWindowOnReset", "AtMaintenanceWindowStart"}, applyTime):
		return notInList("the values of ApplyTime", applyTime)
	}
	// The job applies what is pending at the next reset.
	task := m.newTask(KindBIOS, "Configure: BIOS.Setup.1-1", "BIOSConfiguration", c)
	m.Data.Work = append(m.Data.Work, &Work{Kind: KindBIOS, Task: task.ID, Waits: true, Request: c.Entry.Number})
	return m.accepted(c, task, m.Conf.TaskForm)
}

// clearPending is Dell's way to drop what no job has yet.
func (m *Machine) clearPending(c *call) answer {
	if m.biosJob() != nil {
		return failure(400, "IDRAC.2.8.SYS011", "Pending configuration values are already committed.")
	}
	m.Data.BIOS.Pending = nil
	c.Entry.Changed = true
	return success()
}

// when is the apply time of a request's annotation.
func when(body doc, annotation string) (string, bool) {
	switch value := body[annotation].(type) {
	case map[string]any:
		at, _ := value["ApplyTime"].(string)
		return at, true
	case string:
		return value, true
	default:
		return "", false
	}
}
