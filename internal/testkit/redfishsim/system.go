package redfishsim

import (
	"fmt"
	"strconv"
	"time"
)

// secondSystem is the ID of the system beside ours, where the BMC has two.
const secondSystem = "Other.2"

func (m *Machine) versionsDoc(*call) answer {
	return answer{status: 200, body: map[string]any{"v1": m.uri("/redfish/v1")}}
}

func (m *Machine) rootDoc(*call) answer {
	doc := m.doc("ServiceRoot.v1_8_0.ServiceRoot", "/redfish/v1", "RootService", "Root Service")
	return ok(with(doc, map[string]any{
		"RedfishVersion": "1.11.0", "UUID": m.state.UUID, "Vendor": m.state.Manufacturer,
		"Systems": m.link("/redfish/v1/Systems"), "Chassis": m.link("/redfish/v1/Chassis"),
		"Managers": m.link("/redfish/v1/Managers"), "Registries": m.link("/redfish/v1/Registries"),
		"SessionService": m.link("/redfish/v1/SessionService"), "UpdateService": m.link("/redfish/v1/UpdateService"),
		"Tasks": m.link("/redfish/v1/TaskService"),
		"Links": map[string]any{"Sessions": m.link(m.config.SessionsPath)},
	}))
}

func (m *Machine) systemsDoc(*call) answer {
	members := []string{m.system("")}
	if m.config.SecondSystem {
		members = append(members, "/redfish/v1/Systems/"+secondSystem)
	}
	return ok(m.collection("ComputerSystemCollection", "/redfish/v1/Systems", members...))
}

// phase is how far the server has started.
type phase int

const (
	phaseOff phase = iota
	phasePOST
	phaseDiscovered // the second half of POST
	phaseEnded
)

// phase is what the BMC shows of it, and since when. For a while after a reset it still
// shows what was before.
func (m *Machine) phase() (phase, time.Time) {
	s := &m.state
	switch {
	case s.Power == powerOff || s.Power == poweringOn:
		return phaseOff, s.LastReset
	case !s.InPOST:
		return phaseEnded, s.POSTDue
	case m.config.RestartKeepsOn && m.at.Sub(s.POSTStart) < m.config.Delays.Stale && s.LastReset.Equal(s.POSTStart):
		return phaseEnded, time.Time{}
	case m.at.Sub(s.POSTStart) < s.POSTDue.Sub(s.POSTStart)/2:
		return phasePOST, s.POSTStart
	default:
		return phaseDiscovered, s.POSTStart
	}
}

// progress is that in the standard's words. A server whose drives are erased finds no
// operating system: POST ends all the same.
func (m *Machine) progress() (string, time.Time) {
	phase, since := m.phase()
	switch phase {
	case phaseOff:
		return "None", since
	case phasePOST:
		return "PrimaryProcessorInitializationStarted", since
	case phaseDiscovered:
		return "PCIResourceConfigStarted", since
	}
	if len(m.state.TenantData()) == 0 {
		return "SystemHardwareInitializationComplete", since
	}
	return "OSRunning", since
}

// postState is the same in HPE's words.
func (m *Machine) postState() string {
	phase, _ := m.phase()
	if m.config.NeverFinished && phase == phaseEnded && len(m.state.TenantData()) == 0 {
		return "InPostDiscoveryComplete"
	}
	if phase == phaseDiscovered && m.config.EarlyDiscovery {
		return "InPostDiscoveryComplete"
	}
	return []string{"PowerOff", "InPost", "InPostDiscoveryStart", "FinishedPost"}[phase]
}

func (m *Machine) systemDoc(*call) answer {
	s := &m.state
	doc := m.doc("ComputerSystem.v1_13_0.ComputerSystem", m.system(""), m.config.SystemID, "System")
	memory := 0
	for _, module := range s.MemoryModules {
		memory += module
	}
	bios := ""
	if c := s.component("BIOS", ""); c != nil {
		bios = c.Version
	}
	links := map[string]any{"Chassis": m.links(m.chassis("")), "ManagedBy": m.links(m.manager(""))}
	with(doc, map[string]any{
		"SystemType": "Physical", "Manufacturer": s.Manufacturer, "Model": s.Model, "SKU": s.SKU,
		"SerialNumber": s.Serial, "UUID": s.UUID, "BiosVersion": bios, "PowerState": s.Power,
		"Status":           status("Enabled", "OK"),
		"ProcessorSummary": map[string]any{"Count": s.CPUs, "CoreCount": s.CPUs * s.CoresPerCPU, "Model": "Intel(R) Xeon(R) Gold 6338", "Status": status("Enabled", "OK")},
		"MemorySummary":    map[string]any{"TotalSystemMemoryGiB": memory / 1024, "Status": status("Enabled", "OK")},
		"Boot": map[string]any{
			"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI",
			"BootSourceOverrideTarget@Redfish.AllowableValues": []string{"None", "Pxe", "Hdd", "BiosSetup"},
		},
		"Bios": m.link(m.system("Bios")), "Storage": m.link(m.system("Storage")),
		"Processors": m.link(m.system("Processors")), "Memory": m.link(m.system("Memory")),
		"Links": links,
		"Actions": map[string]any{"#ComputerSystem.Reset": map[string]any{
			"target": m.uri(m.system("Actions/ComputerSystem.Reset")), "ResetType@Redfish.AllowableValues": m.config.ResetTypes,
		}},
	})
	var devices []string
	for i := range s.Links {
		devices = append(devices, m.chassis("PCIeDevices/"+strconv.Itoa(i)))
	}
	if !m.config.LinksInChassis {
		doc["PCIeDevices"] = m.links(devices...)
	}
	if m.config.NoCoreCount {
		delete(doc["ProcessorSummary"].(map[string]any), "CoreCount")
	}
	if !m.config.NoBootProgress {
		state, since := m.progress()
		if m.config.NoneBootProgress {
			state, since = "None", time.Time{}
		}
		doc["BootProgress"] = map[string]any{"LastState": state, "LastStateTime": m.stamp(since)}
	}
	if !m.config.NoLastResetTime {
		doc["LastResetTime"] = m.stamp(s.LastReset)
	}
	if m.config.Personality == ILO {
		discovery := "vMainDeviceDiscoveryComplete"
		if m.drivesHidden() {
			discovery = "vAuxDeviceDiscoveryComplete"
		}
		doc["Oem"] = map[string]any{"Hpe": map[string]any{
			"@odata.type": "#HpeComputerSystemExt.v2_10_1.HpeComputerSystemExt", "PostState": m.postState(),
			"DeviceDiscoveryComplete": map[string]any{"DeviceDiscovery": discovery},
		}}
	}
	a := ok(doc)
	a.etag = true
	return a
}

func (m *Machine) secondSystemDoc(*call) answer {
	doc := m.doc("ComputerSystem.v1_13_0.ComputerSystem", "/redfish/v1/Systems/"+secondSystem, secondSystem, "System")
	bios := ""
	if c := m.state.component("BIOS", secondSystem); c != nil {
		bios = c.Version
	}
	return ok(with(doc, map[string]any{
		"SystemType": "Physical", "Manufacturer": m.state.Manufacturer, "Model": m.state.Model, "SKU": m.state.SKU,
		"SerialNumber": m.state.Serial + "-OTHER", "BiosVersion": bios, "PowerState": powerOn,
		"Status": status("Enabled", "OK"), "Boot": map[string]any{}, "Actions": map[string]any{},
	}))
}

func (m *Machine) processorsDoc(*call) answer {
	var members []string
	for i := range m.state.CPUs {
		members = append(members, m.system("Processors/CPU"+strconv.Itoa(i+1)))
	}
	return ok(m.collection("ProcessorCollection", m.system("Processors"), members...))
}

func (m *Machine) processorDoc(c *call) answer {
	var n int
	if _, err := fmt.Sscanf(c.vars[0], "CPU%d", &n); err != nil || n < 1 || n > m.state.CPUs {
		return notFound()
	}
	doc := m.doc("Processor.v1_10_0.Processor", m.system("Processors/"+c.vars[0]), c.vars[0], c.vars[0])
	return ok(with(doc, map[string]any{
		"ProcessorType": "CPU", "Socket": c.vars[0], "Model": "Intel(R) Xeon(R) Gold 6338", "Manufacturer": "Intel",
		"TotalCores": m.state.CoresPerCPU, "TotalThreads": 2 * m.state.CoresPerCPU, "Status": status("Enabled", "OK"),
	}))
}

func (m *Machine) memoriesDoc(*call) answer {
	var members []string
	for i := range m.slots() {
		members = append(members, m.system("Memory/DIMM"+strconv.Itoa(i+1)))
	}
	return ok(m.collection("MemoryCollection", m.system("Memory"), members...))
}

// slots are those for memory that are listed.
func (m *Machine) slots() int {
	if m.config.EmptySlots {
		return len(m.state.MemoryModules) + 2
	}
	return len(m.state.MemoryModules)
}

func (m *Machine) memoryDoc(c *call) answer {
	var n int
	if _, err := fmt.Sscanf(c.vars[0], "DIMM%d", &n); err != nil || n < 1 || n > m.slots() {
		return notFound()
	}
	doc := m.doc("Memory.v1_11_0.Memory", m.system("Memory/"+c.vars[0]), c.vars[0], c.vars[0])
	if n > len(m.state.MemoryModules) {
		return ok(with(doc, map[string]any{"CapacityMiB": nil, "Status": map[string]any{"State": "Absent"}}))
	}
	return ok(with(doc, map[string]any{
		"CapacityMiB": m.state.MemoryModules[n-1], "MemoryDeviceType": "DDR4", "OperatingSpeedMhz": 3200,
		"Status": status("Enabled", "OK"),
	}))
}

func (m *Machine) chassisListDoc(*call) answer {
	return ok(m.collection("ChassisCollection", "/redfish/v1/Chassis", m.chassis("")))
}

func (m *Machine) chassisDoc(*call) answer {
	s := &m.state
	doc := m.doc("Chassis.v1_14_0.Chassis", m.chassis(""), m.config.ChassisID, "Computer System Chassis")
	return ok(with(doc, map[string]any{
		"ChassisType": "RackMount", "Manufacturer": s.Manufacturer, "Model": s.Model, "SKU": s.SKU,
		"SerialNumber": s.ChassisSerial, "PowerState": s.Power, "Status": status("Enabled", "OK"),
		"Drives": m.link(m.chassis("Drives")), "PCIeDevices": m.link(m.chassis("PCIeDevices")),
		"Links": map[string]any{"ComputerSystems": m.links(m.system("")), "ManagedBy": m.links(m.manager(""))},
	}))
}

func (m *Machine) pcieDevicesDoc(*call) answer {
	var members []string
	for i := range m.state.Links {
		members = append(members, m.chassis("PCIeDevices/"+strconv.Itoa(i)))
	}
	return ok(m.collection("PCIeDeviceCollection", m.chassis("PCIeDevices"), members...))
}

func (m *Machine) pcieDeviceDoc(c *call) answer {
	n, err := strconv.Atoi(c.vars[0])
	if err != nil || n < 0 || n >= len(m.state.Links) {
		return notFound()
	}
	link := m.state.Links[n]
	doc := m.doc("PCIeDevice.v1_5_0.PCIeDevice", m.chassis("PCIeDevices/"+c.vars[0]), c.vars[0], link.Name)
	return ok(with(doc, map[string]any{
		"DeviceType": "SingleFunction", "SerialNumber": link.SerialNumber, "Status": status("Enabled", "OK"),
		"PCIeInterface": map[string]any{
			"LanesInUse": link.Width, "MaxLanes": max(link.Width, link.MaxWidth), "PCIeType": link.Speed, "MaxPCIeType": "Gen4",
		},
	}))
}

func (m *Machine) managersDoc(*call) answer {
	return ok(m.collection("ManagerCollection", "/redfish/v1/Managers", m.manager("")))
}

func (m *Machine) managerDoc(c *call) answer {
	doc := m.doc("Manager.v1_11_0.Manager", m.manager(""), m.config.ManagerID, "Manager")
	version := ""
	if bmc := m.state.component("BMC", ""); bmc != nil {
		version = bmc.Version
	}
	with(doc, map[string]any{
		"ManagerType": "BMC", "FirmwareVersion": version, "Model": m.state.Model, "UUID": m.state.UUID,
		"DateTime": m.stamp(c.at), "PowerState": powerOn, "Status": status("Enabled", "OK"),
		"Links": map[string]any{"ManagerForServers": m.links(m.system("")), "ManagerForChassis": m.links(m.chassis(""))},
		"Actions": map[string]any{"#Manager.Reset": map[string]any{
			"target": m.uri(m.manager("Actions/Manager.Reset")), "ResetType@Redfish.AllowableValues": []string{"GracefulRestart", "ForceRestart"},
		}},
	})
	if m.config.ManagerReset {
		doc["LastResetTime"] = m.stamp(m.state.BMCReset)
	}
	if m.config.JobIDs {
		doc["Links"].(map[string]any)["Oem"] = map[string]any{"Dell": map[string]any{"Jobs": m.link(m.manager("Jobs"))}}
	}
	return ok(doc)
}

// resetManager restarts the BMC, on request.
func (m *Machine) resetManager(c *call) answer {
	m.changed = true
	m.state.Work = append(m.state.Work, &Work{Kind: kindRestart, Due: c.at.Add(time.Millisecond)})
	return answer{status: 204}
}
