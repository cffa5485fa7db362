package redfishsim

import "time"

// hardware is the server behind a BMC of that personality: on, past POST, used by a
// tenant, who changed the BIOS and filled each drive.
func hardware(p Personality) State {
	// It was started yesterday.
	start := time.Now().Add(-24 * time.Hour).Round(time.Second)
	s := State{
		LastReset: start, POSTStart: start, POSTDue: start.Add(2 * time.Minute),
		Power: powerOn, CPUs: 2, CoresPerCPU: 32, MemoryModules: []int{32768, 32768, 32768, 32768},
		UUID: "4c4c4544-004a-4b10-8054-b4c04f4d4233", NextSession: 1000,
		Links: []Link{
			{Name: "NIC.Slot.3", Width: 16, Speed: "Gen4"},
			{Name: "GPU.Slot.7", Width: 16, Speed: "Gen4"},
		},
	}
	s.BIOS.Defaults = map[string]any{
		"BootMode": "Uefi", "SriovGlobalEnable": "Disabled", "LogicalProc": "Enabled", "SecureBoot": "Enabled",
		"AcPwrRcvryUserDelay": 60, "WorkloadProfile": "NotConfigured", "AssetTag": "",
	}
	s.BIOS.Attributes = map[string]any{
		"BootMode": "Uefi", "SriovGlobalEnable": "Enabled", "LogicalProc": "Disabled", "SecureBoot": "Disabled",
		"AcPwrRcvryUserDelay": 60, "WorkloadProfile": "TenantProfile", "AssetTag": "tenant",
		"SystemBiosVersion": "read-only",
	}
	sanitizations := []string{"BlockErase", "CryptographicErase"}
	main := &Storage{ID: "RAID.Slot.6-1", Drives: []*Drive{
		drive("Disk.0", "S6CKNT0W700001", "SAMSUNG MZ7L3960HCJR", "SATA", 960197124096, nil),
		drive("Disk.1", "S6CKNT0W700002", "SAMSUNG MZ7L3960HCJR", "SATA", 960197124096, nil),
	}}
	nvme := &Storage{ID: "CPU.1", Drives: []*Drive{
		drive("Nvme.0", "PHLN123400001P6AGN", "INTEL SSDPE2KE016T8", "NVMe", 1600321314816, sanitizations),
	}}
	boot := &Storage{ID: "AHCI.Slot.1-1", Drives: []*Drive{
		drive("Boot.0", "PHYH0420003W480C", "INTEL SSDSCKJB480G8", "SATA", 480103981056, nil),
		drive("Boot.1", "PHYH0420003X480C", "INTEL SSDSCKJB480G8", "SATA", 480103981056, nil),
	}}
	s.Storages = []*Storage{main, nvme, boot}
	switch p {
	case IDRAC:
		s.Manufacturer, s.Model, s.SKU = "Dell Inc.", "PowerEdge R750", "7JKTMB3"
		s.Serial, s.ChassisSerial = "CNFCP0016L0012", "CNFCP0016L0012"
		s.Components = []*Component{
			{Name: "BIOS", Number: "159", Version: "2.18.1", Previous: "2.17.0"},
			{Name: "BMC", Number: "25227", Version: "5.10.50.00", Previous: "5.10.30.00"},
			{Name: "NIC", Number: "107649", Version: "22.31.10"},
		}
	case ILO:
		s.Manufacturer, s.Model, s.SKU = "HPE", "ProLiant DL360 Gen10 Plus", "P28948-B21"
		s.Serial, s.ChassisSerial = "MXQ24207QJ", "MXQ24207QJ"
		main.ID, nvme.ID, boot.ID = "DE00A000", "DE07C000", "DE00B000"
		boot.NotChassis = true
		s.Components = []*Component{
			{Name: "BMC", Version: "2.72 Sep 04 2022"},
			{Name: "BIOS", Version: "U54 v2.68 (07/14/2022)", Previous: "U54 v2.66 (04/20/2022)"},
			{Name: "NIC", Version: "20.19.51"},
		}
	case Supermicro:
		s.Manufacturer, s.Model, s.SKU = "Supermicro", "SYS-620U-TNR", "To be filled by O.E.M."
		s.Serial, s.ChassisSerial = "S452392X2A12345", "C8190FL12345"
		boot.Unlisted = true
		s.Components = []*Component{
			{Name: "BIOS", Version: "1.4b", Previous: "1.4", Golden: "1.0"},
			{Name: "BMC", Version: "01.01.06", Previous: "01.01.05", Golden: "01.00.00"},
		}
	case XCC:
		s.Manufacturer, s.Model, s.SKU = "Lenovo", "ThinkSystem SR650 V2", "7Z73CTO1WW"
		s.Serial, s.ChassisSerial = "J30A1B2C", "J30A1B2C"
		s.Components = []*Component{
			{Name: "BIOS", Version: "2.10", Previous: "2.00"},
			{Name: "BMC", Version: "3.10"},
		}
	case OpenBMC:
		s.Manufacturer, s.Model, s.SKU = "Open Compute", "Mt.Jade", "MJ-1"
		s.Serial, s.ChassisSerial = "", "OCP20460012"
		boot.Unlisted = true
		s.BIOS.Attributes, s.BIOS.Defaults = map[string]any{}, map[string]any{}
		s.Components = []*Component{
			{Name: "BIOS", Version: "1.08.20210825"},
			{Name: "BMC", Version: "2.12.0"},
		}
	}
	setup(p, &s)
	// The BMC's other system has the same firmware; it matters where Config.SecondSystem is set.
	s.Components = append(s.Components,
		&Component{Name: "BIOS", Number: "159", System: secondSystem, Version: s.version("BIOS", "")})
	return s
}

func drive(id, serial, model, protocol string, size int64, sanitizations []string) *Drive {
	return &Drive{
		ID: id, Serial: serial, Model: model, Protocol: protocol, CapacityBytes: size,
		Content: "data of the tenant on " + serial, Sanitizations: sanitizations,
	}
}

// values are the acceptable values of an attribute that has a list of them.
func values(attribute string) []string {
	switch attribute {
	case "BootMode":
		return []string{"Uefi", "Bios"}
	case "SriovGlobalEnable", "LogicalProc", "SecureBoot":
		return []string{"Enabled", "Disabled"}
	case "Tpm2Hierarchy":
		return []string{"Enabled", "Disabled", "Clear"}
	case "TpmPpiBypassClear":
		return []string{"Enabled", "Disabled"}
	case "Tpm2Operation":
		return []string{"NoAction", "Clear"}
	default:
		return nil
	}
}
