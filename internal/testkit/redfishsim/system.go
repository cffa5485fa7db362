package redfishsim

import (
	"fmt"
	"strconv"
	"time"
)

// secondSystem is the path of the system beside ours, where the BMC has two.
const secondSystem = root + "/Systems/Other.2"

func (t *tree) addService() {
	t.node("/redfish").doc = doc{"v1": t.uri(root)}
	t.add("ServiceRoot.v1_8_0.ServiceRoot", root, "Root Service", doc{
		"RedfishVersion": "1.11.0", "UUID": t.Data.UUID, "Vendor": t.Data.Manufacturer, "Systems": t.link(root + "/Systems"),
		"Chassis": t.link(root + "/Chassis"), "Managers": t.link(root + "/Managers"),
		"Registries": t.link(registries), "SessionService": t.link(root + "/SessionService"),
		"UpdateService": t.link(updateService), "Tasks": t.link(root + "/TaskService"),
		"Links": doc{"Sessions": t.link(t.Conf.SessionsPath)},
	})
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
	s := &m.Data
	switch {
	case s.Power == powerOff || s.Power == poweringOn:
		return phaseOff, s.LastReset
	case !s.InPOST:
		return phaseEnded, s.POSTDue
	case m.Conf.RestartKeepsOn && m.at.Sub(s.POSTStart) < m.Conf.Delays.Stale && s.LastReset.Equal(s.POSTStart):
		return phaseEnded, time.Time{}
	case m.at.Sub(s.POSTStart) < s.POSTDue.Sub(s.POSTStart)/2:
		return phasePOST, s.POSTStart
	default:
		return phaseDiscovered, s.POSTStart
	}
}

// progress is that in the standard's words, and in HPE's. A server whose drives are erased finds
// no operating system: POST ends all the same.
func (m *Machine) progress() (state string, since time.Time, hpe string) {
	phase, since := m.phase()
	state = []string{"None", "PrimaryProcessorInitializationStarted", "PCIResourceConfigStarted", "OSRunning"}[phase]
	hpe = []string{"PowerOff", "InPost", "InPostDiscoveryStart", "FinishedPost"}[phase]
	if phase == phaseEnded && len(m.Data.TenantData()) == 0 {
		state = "SystemHardwareInitializationComplete"
	}
	if phase == phaseDiscovered && m.Conf.EarlyDiscovery {
		hpe = "InPostDiscoveryComplete"
	}
	return state, since, hpe
}

func (t *tree) addSystem() {
	s := &t.Data
	t.list("ComputerSystem", root+"/Systems")
	memory := 0
	for _, module := range s.MemoryModules {
		memory += module
	}
	cpus := doc{"Count": s.CPUs, "Model": "Intel(R) Xeon(R) Gold 6338", "Status": status("Enabled")}
	if !t.is(Supermicro) {
		cpus["CoreCount"] = s.CPUs * s.CoresPerCPU
	}
	r := t.member("ComputerSystem.v1_13_0.ComputerSystem", root+"/Systems", t.Conf.SystemID, "System", doc{
		"SystemType": "Physical", "Manufacturer": s.Manufacturer, "Model": s.Model, "SKU": s.SKU,
		"SerialNumber": s.Serial, "UUID": s.UUID, "BiosVersion": s.version("BIOS", ""), "PowerState": s.Power,
		"ProcessorSummary": cpus,
		"MemorySummary":    doc{"TotalSystemMemoryGiB": memory / 1024, "Status": status("Enabled")},
		"Bios":             t.link(t.system("/Bios")), "Storage": t.link(t.system("/Storage")),
		"Processors": t.link(t.system("/Processors")), "Memory": t.link(t.system("/Memory")),
		"Links": doc{"Chassis": t.links(t.chassis("")), "ManagedBy": t.links(t.manager(""))},
		"Actions": doc{"#ComputerSystem.Reset": t.action(t.system("/Actions/ComputerSystem.Reset"), "ResetType",
			t.Conf.ResetTypes)},
	})
	r.tagged = true
	t.addBoot(r)
	t.post(t.system("/Actions/ComputerSystem.Reset"), t.reset)
	state, since, hpe := t.progress()
	if t.Conf.NoneBootProgress {
		state, since = "None", time.Time{}
	}
	if !t.Conf.NoBootProgress {
		r.doc["BootProgress"] = doc{"LastState": state, "LastStateTime": t.stamp(since)}
	}
	if !t.Conf.NoLastResetTime {
		r.doc["LastResetTime"] = t.stamp(s.LastReset)
	}
	if t.is(ILO) {
		discovery := "vMainDeviceDiscoveryComplete"
		if t.drivesHidden() {
			discovery = "vAuxDeviceDiscoveryComplete"
		}
		r.doc["Oem"] = doc{"Hpe": doc{
			"@odata.type": "#HpeComputerSystemExt.v2_10_1.HpeComputerSystemExt", "PostState": hpe,
			"DeviceDiscoveryComplete": doc{"DeviceDiscovery": discovery},
		}}
	}
	if t.Conf.SecondSystem {
		t.member("ComputerSystem.v1_13_0.ComputerSystem", root+"/Systems", "Other.2", "System", doc{
			"SystemType": "Physical", "Manufacturer": s.Manufacturer, "Model": s.Model, "SKU": s.SKU,
			"SerialNumber": s.Serial + "-OTHER", "BiosVersion": s.version("BIOS", secondSystem), "PowerState": powerOn,
		})
	}
	// An iLO's system does not list its PCIe devices.
	if !t.is(ILO) {
		var devices []string
		for i := range s.Links {
			devices = append(devices, t.chassis("/PCIeDevices/"+strconv.Itoa(i)))
		}
		r.doc["PCIeDevices"] = t.links(devices...)
	}
	if t.wants(t.system("/Processors"), t.system("/Memory")) {
		t.addParts()
	}
}

func (t *tree) addParts() {
	s := &t.Data
	t.list("Processor", t.system("/Processors"))
	for i := range s.CPUs {
		id := fmt.Sprintf("CPU%d", i+1)
		t.member("Processor.v1_10_0.Processor", t.system("/Processors"), id, id, doc{
			"ProcessorType": "CPU", "Socket": id, "Model": "Intel(R) Xeon(R) Gold 6338", "Manufacturer": "Intel",
			"TotalCores": s.CoresPerCPU, "TotalThreads": 2 * s.CoresPerCPU,
		})
	}
	t.list("Memory", t.system("/Memory"))
	slots := len(s.MemoryModules)
	for i, module := range append(s.MemoryModules[:slots:slots], 0, 0) {
		id := fmt.Sprintf("DIMM%d", i+1)
		body := doc{"CapacityMiB": module, "MemoryDeviceType": "DDR4", "OperatingSpeedMhz": 3200}
		if i >= slots {
			if !t.is(ILO, OpenBMC) { // which list empty slots
				break
			}
			body = doc{"CapacityMiB": nil, "Status": doc{"State": "Absent"}}
		}
		t.member("Memory.v1_11_0.Memory", t.system("/Memory"), id, id, body)
	}
}

func (t *tree) addChassis() {
	s := &t.Data
	t.list("Chassis", root+"/Chassis")
	t.member("Chassis.v1_14_0.Chassis", root+"/Chassis", t.Conf.ChassisID, "Computer System Chassis", doc{
		"ChassisType": "RackMount", "Manufacturer": s.Manufacturer, "Model": s.Model, "SKU": s.SKU,
		"SerialNumber": s.ChassisSerial, "PowerState": s.Power,
		"Drives": t.link(t.chassis("/Drives")), "PCIeDevices": t.link(t.chassis("/PCIeDevices")),
		"Links": doc{"ComputerSystems": t.links(t.system("")), "ManagedBy": t.links(t.manager(""))},
	})
	t.list("PCIeDevice", t.chassis("/PCIeDevices"))
	for i, link := range s.Links {
		t.member("PCIeDevice.v1_5_0.PCIeDevice", t.chassis("/PCIeDevices"), strconv.Itoa(i), link.Name, doc{
			"DeviceType":    "SingleFunction",
			"PCIeInterface": doc{"LanesInUse": link.Width, "PCIeType": link.Speed, "MaxPCIeType": "Gen4"},
		})
	}
	t.list("Manager", root+"/Managers")
	path := t.manager("")
	r := t.member("Manager.v1_11_0.Manager", root+"/Managers", path[len(root+"/Managers/"):], "Manager", doc{
		"ManagerType": "BMC", "FirmwareVersion": s.version("BMC", ""), "Model": s.Model, "UUID": s.UUID,
		"DateTime": t.stamp(t.at), "PowerState": powerOn,
		"Links": doc{"ManagerForServers": t.links(t.system("")), "ManagerForChassis": t.links(t.chassis(""))},
	})
	if t.is(IDRAC, OpenBMC) { // which show when they were restarted last
		r.doc["LastResetTime"] = t.stamp(s.BMCReset)
	}
	t.addManagerSetup(r, path)
	if t.Conf.JobIDs {
		r.doc["Links"].(doc)["Oem"] = doc{"Dell": doc{"Jobs": t.link(path + "/Jobs")}}
	}
}
