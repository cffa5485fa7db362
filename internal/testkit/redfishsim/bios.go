package redfishsim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// applyBIOS is what the end of POST does with what is pending.
func (m *Machine) applyBIOS(at time.Time) {
	b := &m.state.BIOS
	if b.PendingReset {
		b.PendingReset = false
		if !m.config.BIOSNeverApplies {
			maps.Copy(b.Attributes, b.Defaults)
		}
	}
	for _, w := range m.state.Work {
		if w.Kind == KindBIOS && w.Waits {
			w.Waits, w.Started, w.Due = false, at, at.Add(m.config.Delays.Settle)
		}
	}
	if !m.config.NeedsApplyTime {
		m.mergePending()
	}
}

func (m *Machine) mergePending() {
	b := &m.state.BIOS
	if !m.config.BIOSNeverApplies && len(b.Pending) > 0 {
		maps.Copy(b.Attributes, b.Pending)
	}
	b.Pending = nil
}

// settingsApplied is the end of a BIOS job.
func (m *Machine) settingsApplied(w *Work, at time.Time) {
	how := m.config.Endings[KindBIOS]
	if how == Succeeds {
		m.mergePending()
	}
	m.state.BIOS.Pending = nil
	m.end(w, how, at)
}

// biosJob is the job that will apply, or applies, the pending attributes.
func (m *Machine) biosJob() *Work {
	for _, w := range m.state.Work {
		if w.Kind == KindBIOS {
			return w
		}
	}
	return nil
}

func (m *Machine) biosDoc(*call) answer {
	doc := m.doc("Bios.v1_2_0.Bios", m.system("Bios"), "Bios", "BIOS Configuration Current Settings")
	doc["Actions"] = map[string]any{
		"#Bios.ResetBios": map[string]any{"target": m.uri(m.system("Bios/Actions/Bios.ResetBios"))},
	}
	if m.config.NoAttributes {
		return ok(doc)
	}
	attributes := maps.Clone(m.state.BIOS.Attributes)
	if m.config.ShowPending && m.biosJob() != nil {
		maps.Copy(attributes, m.state.BIOS.Pending)
	}
	doc["Attributes"] = attributes
	settings := map[string]any{
		"@odata.type":    "#Settings.v1_3_0.Settings",
		"SettingsObject": m.link(m.system("Bios/" + m.config.BIOSSettings)),
	}
	if m.config.Personality == IDRAC {
		settings["SupportedApplyTimes"] = []string{"OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset"}
	}
	doc["@Redfish.Settings"] = settings
	if !m.config.NoRegistry {
		doc["AttributeRegistry"] = m.registryID()
	}
	a := ok(doc)
	a.etag = true
	return a
}

// settingsDoc is the settings resource: what is pending, and for some the rest too.
func (m *Machine) settingsDoc(*call) answer {
	doc := m.doc("Bios.v1_2_0.Bios", m.system("Bios/"+m.config.BIOSSettings), m.config.BIOSSettings,
		"BIOS Configuration Pending Settings")
	attributes := map[string]any{}
	if m.config.Personality != IDRAC {
		maps.Copy(attributes, m.state.BIOS.Attributes)
	}
	maps.Copy(attributes, m.state.BIOS.Pending)
	doc["Attributes"] = attributes
	if !m.config.NoRegistry {
		doc["AttributeRegistry"] = m.registryID()
	}
	if m.config.Personality == IDRAC {
		doc["@Redfish.SettingsApplyTime"] = map[string]any{
			"@odata.type":                       "#Settings.v1_3_0.PreferredApplyTime",
			"ApplyTime@Redfish.AllowableValues": []string{"OnReset", "AtMaintenanceWindowStart", "InMaintenanceWindowOnReset"},
		}
		doc["Actions"] = map[string]any{"Oem": map[string]any{
			"#DellManager.ClearPending": map[string]any{"target": m.uri(m.system("Bios/Settings/Actions/Oem/DellManager.ClearPending"))},
		}}
	}
	a := ok(doc)
	a.etag = true
	return a
}

// inPOST is the refusal of what cannot be changed while POST runs.
func (m *Machine) inPOST() (answer, bool) {
	if !m.config.RefuseInPOST || !m.state.InPOST {
		return answer{}, false
	}
	return failure(400, "iLO.2.14.UnableToModifyDuringSystemPOST",
		"The value cannot be modified because the system is in POST."), true
}

func (m *Machine) resetBIOS(c *call) answer {
	if a, refused := m.inPOST(); refused {
		return a
	}
	m.state.BIOS.PendingReset = true
	m.state.BIOS.Pending = nil
	m.changed = true
	if m.config.ResetBIOSStatus == 204 {
		return answer{status: 204}
	}
	return message(m.config.ResetBIOSStatus, "Base.1.8.Success", "BIOS will be reset to its defaults at the next reset.")
}

func (m *Machine) patchSettings(c *call) answer {
	if a, refused := m.inPOST(); refused {
		return a
	}
	wanted, _ := c.json["Attributes"].(map[string]any)
	if len(wanted) == 0 {
		return failure(400, "Base.1.8.PropertyMissing", "The property Attributes is a required property.")
	}
	b := &m.state.BIOS
	if _, named := wanted[m.config.RefusedAttribute]; named {
		no := information("Base.1.8.PropertyNotWritable", "The property "+m.config.RefusedAttribute+
			" is a read only property and cannot be assigned a value.", "Warning")
		return answer{status: m.config.RefusedStatus, body: map[string]any{"Attributes@Message.ExtendedInfo": []any{no}}}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if _, known := b.Attributes[name]; known && !settable(b, name) {
			return failure(400, "Base.1.8.PropertyNotWritable",
				fmt.Sprintf("The property %s is a read only property and cannot be assigned a value.", name))
		}
		if !settable(b, name) {
			return failure(400, "Base.1.8.PropertyUnknown",
				fmt.Sprintf("The property %s is not in the list of valid properties for the resource.", name))
		}
		if allowed := values(name); allowed != nil && !slices.Contains(allowed, fmt.Sprint(wanted[name])) {
			return failure(400, "Base.1.8.PropertyValueNotInList",
				fmt.Sprintf("The value %v for the property %s is not in the list of acceptable values.", wanted[name], name))
		}
	}
	applyTime, asked := when(c.json, "@Redfish.SettingsApplyTime")
	if m.config.RefuseSecondPatch && m.biosJob() != nil {
		return failure(400, "IDRAC.2.8.SYS011", "Pending configuration values are already committed, unable to perform "+
			"another set operation.")
	}
	before := maps.Clone(b.Pending)
	if b.Pending == nil {
		b.Pending = map[string]any{}
	}
	maps.Copy(b.Pending, wanted)
	m.changed = true
	if !m.config.NeedsApplyTime {
		return message(200, "Base.1.8.SystemResetRequired", "One or more properties were changed and will not take effect "+
			"until the system is reset.")
	}
	if !asked || m.config.RepeatMakesNoJob && reflect.DeepEqual(before, b.Pending) {
		return message(200, "Base.1.8.Success", "The attributes are pending.")
	}
	switch applyTime {
	case "OnReset", "InMaintenanceWindowOnReset", "AtMaintenanceWindowStart":
	default:
		return failure(400, "Base.1.8.PropertyValueNotInList",
			fmt.Sprintf("The value %s for the property ApplyTime is not in the list of acceptable values.", applyTime))
	}
	return m.commitSettings(c)
}

// commitSettings makes the job that applies what is pending at the next reset.
func (m *Machine) commitSettings(c *call) answer {
	task := m.newTask(KindBIOS, "Configure: BIOS.Setup.1-1", c.at)
	task.JobType = "BIOSConfiguration"
	m.from(c, task)
	m.state.Work = append(m.state.Work, &Work{Kind: KindBIOS, Task: task.ID, Waits: true, Request: m.now})
	return m.accepted(c, task, m.config.TaskForm)
}

// clearPending is Dell's way to drop what no job has yet.
func (m *Machine) clearPending(*call) answer {
	if m.biosJob() != nil {
		return failure(400, "IDRAC.2.8.SYS011", "Pending configuration values are already committed.")
	}
	m.state.BIOS.Pending = nil
	m.changed = true
	return message(200, "Base.1.8.Success", "Successfully completed request.")
}

func (m *Machine) registryID() string {
	return "BiosAttributeRegistry.v1_0_0"
}

func (m *Machine) registriesDoc(*call) answer {
	if m.config.NoRegistry {
		return ok(m.collection("MessageRegistryFileCollection", "/redfish/v1/Registries"))
	}
	return ok(m.collection("MessageRegistryFileCollection", "/redfish/v1/Registries", "/redfish/v1/Registries/"+
		m.registryID()))
}

func (m *Machine) registryFileDoc(c *call) answer {
	if m.config.NoRegistry || !strings.EqualFold(c.vars[0], m.registryID()) {
		return notFound()
	}
	path := "/redfish/v1/Registries/" + m.registryID()
	doc := m.doc("MessageRegistryFile.v1_1_0.MessageRegistryFile", path, m.registryID(), "BIOS Attribute Registry File")
	doc["Registry"] = m.registryID()
	doc["Languages"] = []string{"en"}
	doc["Location"] = []any{map[string]any{"Language": "en", "Uri": m.uri(path + "/Registry")}}
	return ok(doc)
}

// registryDoc is the attribute registry, with each attribute's default.
func (m *Machine) registryDoc(c *call) answer {
	if m.config.NoRegistry || !strings.EqualFold(c.vars[0], m.registryID()) {
		return notFound()
	}
	doc := m.doc("AttributeRegistry.v1_3_0.AttributeRegistry", "/redfish/v1/Registries/"+m.registryID()+"/Registry",
		m.registryID(), "BIOS Attribute Registry")
	doc["Language"] = "en"
	doc["OwningEntity"] = m.state.Manufacturer
	doc["RegistryVersion"] = "1.0.0"
	doc["SupportedSystems"] = []any{map[string]any{"ProductName": m.state.Model}}
	var entries []any
	for _, name := range slices.Sorted(maps.Keys(m.state.BIOS.Attributes)) {
		writable := settable(&m.state.BIOS, name)
		entry := map[string]any{
			"AttributeName": name, "DisplayName": name, "ReadOnly": !writable,
			"ResetRequired": true, "Immutable": false,
		}
		if writable {
			entry["DefaultValue"] = m.state.BIOS.Defaults[name]
		}
		switch allowed := values(name); {
		case allowed != nil:
			var list []any
			for _, value := range allowed {
				list = append(list, map[string]any{"ValueName": value, "ValueDisplayName": value})
			}
			entry["Type"], entry["Value"] = "Enumeration", list
		default:
			entry["Type"] = kindOf(m.state.BIOS.Attributes[name])
		}
		entries = append(entries, entry)
	}
	doc["RegistryEntries"] = map[string]any{"Attributes": entries}
	return ok(doc)
}

// settable is true for an attribute that has a default.
func settable(b *BIOS, name string) bool {
	_, has := b.Defaults[name]
	return has
}

func kindOf(value any) string {
	switch value.(type) {
	case bool:
		return "Boolean"
	case string:
		return "String"
	default:
		return "Integer"
	}
}

// when is the apply time of a request's annotation.
func when(body map[string]any, annotation string) (string, bool) {
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
