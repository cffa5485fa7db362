package redfishsim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// drivesHidden is true while the BMC knows of no drive.
func (m *Machine) drivesHidden() bool {
	phase, _ := m.phase()
	early := m.config.EarlyDiscovery && phase == phaseDiscovered
	return m.config.DrivesNeedPOST && (m.state.Power != powerOn || m.state.InPOST && !early)
}

func (m *Machine) storagesDoc(*call) answer {
	var members []string
	for _, storage := range m.state.Storages {
		if !storage.Unlisted {
			members = append(members, m.system("Storage/"+storage.ID))
		}
	}
	return ok(m.collection("StorageCollection", m.system("Storage"), members...))
}

func (m *Machine) storage(id string) *Storage {
	for _, storage := range m.state.Storages {
		if storage.ID == id && !storage.Unlisted {
			return storage
		}
	}
	return nil
}

func (m *Machine) storageDoc(c *call) answer {
	storage := m.storage(c.vars[0])
	if storage == nil {
		return notFound()
	}
	path := m.system("Storage/" + storage.ID)
	doc := m.doc("Storage.v1_10_0.Storage", path, storage.ID, storage.ID)
	var drives []string
	if !m.drivesHidden() {
		for _, drive := range storage.Drives {
			if !drive.Missing {
				drives = append(drives, path+"/Drives/"+drive.ID)
			}
		}
	}
	return ok(with(doc, map[string]any{
		"Status": status("Enabled", "OK"), "Drives": m.links(drives...), "Drives@odata.count": len(drives),
		"Volumes": m.link(path + "/Volumes"),
		"StorageControllers": []any{map[string]any{
			"@odata.id": m.uri(path) + "#/StorageControllers/0", "MemberId": "0", "Name": storage.ID,
			"Status": status("Enabled", "OK"),
		}},
		"Actions": map[string]any{"#Storage.ResetToDefaults": map[string]any{
			"target":                            m.uri(path + "/Actions/Storage.ResetToDefaults"),
			"ResetType@Redfish.AllowableValues": []string{"ResetAll", "PreserveVolumes"},
		}},
	}))
}

func (m *Machine) chassisDrivesDoc(*call) answer {
	var members []string
	for _, storage := range m.state.Storages {
		for _, drive := range storage.Drives {
			if !storage.NotChassis && !drive.Missing && !m.drivesHidden() {
				members = append(members, m.chassis("Drives/"+drive.ID))
			}
		}
	}
	return ok(m.collection("DriveCollection", m.chassis("Drives"), members...))
}

// find is the drive that a path names: by storage and ID, or by ID in the chassis.
func (m *Machine) find(vars []string) (drive *Drive, storage *Storage, path string) {
	if m.drivesHidden() {
		return nil, nil, ""
	}
	for _, storage := range m.state.Storages {
		if len(vars) == 2 && (storage.ID != vars[0] || storage.Unlisted) || len(vars) == 1 && storage.NotChassis {
			continue
		}
		for _, drive := range storage.Drives {
			if drive.ID != vars[len(vars)-1] || drive.Missing {
				continue
			}
			if len(vars) == 1 {
				return drive, storage, m.chassis("Drives/" + drive.ID)
			}
			return drive, storage, m.system("Storage/" + storage.ID + "/Drives/" + drive.ID)
		}
	}
	return nil, nil, ""
}

// volumesOf are the volumes that a drive is in.
func (storage *Storage) volumesOf(drive *Drive) []string {
	var in []string
	for _, volume := range storage.Volumes {
		if slices.Contains(volume.Drives, drive.ID) {
			in = append(in, volume.ID)
		}
	}
	return in
}

func (m *Machine) driveDoc(c *call) answer {
	drive, storage, path := m.find(c.vars)
	if drive == nil {
		return notFound()
	}
	doc := m.doc("Drive.v1_17_0.Drive", path, drive.ID, drive.ID)
	if len(drive.Sanitizations) == 0 {
		doc["@odata.type"] = "#Drive.v1_9_0.Drive"
	}
	serial := drive.Serial
	if len(c.vars) == 1 {
		serial += "    " // the chassis shows it as the drive does, with its padding
	}
	var volumes []string
	for _, id := range storage.volumesOf(drive) {
		volumes = append(volumes, m.system("Storage/"+storage.ID+"/Volumes/"+id))
	}
	with(doc, map[string]any{
		"SerialNumber": serial, "Model": drive.Model, "Manufacturer": strings.Fields(drive.Model + " x")[0],
		"CapacityBytes": drive.CapacityBytes, "BlockSizeBytes": 512, "Protocol": drive.Protocol, "MediaType": drive.MediaType,
		"NegotiatedSpeedGbs": speeds[drive.Protocol], "CapableSpeedGbs": speeds[drive.Protocol],
		"Status": status("Enabled", "OK"), "Links": map[string]any{"Volumes": m.links(volumes...)},
	})
	if !drive.NotErasable && !(m.config.HideEraseInVolume && len(volumes) > 0) {
		action := map[string]any{"target": m.uri(path + "/Actions/Drive.SecureErase")}
		if len(drive.Sanitizations) > 0 {
			action["SanitizationType@Redfish.AllowableValues"] = drive.Sanitizations
		}
		doc["Actions"] = map[string]any{"#Drive.SecureErase": action}
	}
	if w := m.eraseOf(drive); w != nil && !w.Waits {
		percent := 50
		if whole := w.Due.Sub(w.Started); whole > 0 && m.config.Endings[KindErase] != Stalls {
			percent = int(max(0, min(99, 100*c.at.Sub(w.Started)/whole)))
		}
		operation := map[string]any{"OperationName": "Sanitize", "Operation": "Sanitize", "PercentageComplete": percent}
		if w.Task != "" {
			operation["AssociatedTask"] = m.link(tasks + "/" + w.Task)
		}
		doc["Operations"] = []any{operation}
	}
	return ok(doc)
}

// speeds are in Gbit/s, by protocol.
var speeds = map[string]float64{"SATA": 6, "SAS": 12, "NVMe": 63.02}

func (m *Machine) eraseOf(drive *Drive) *Work {
	for _, w := range m.state.Work {
		if w.Kind == KindErase && w.Drive == drive.Serial {
			return w
		}
	}
	return nil
}

func (m *Machine) secureErase(c *call) answer {
	drive, storage, _ := m.find(c.vars)
	if drive == nil || drive.NotErasable {
		return notFound()
	}
	in := len(storage.volumesOf(drive)) > 0
	switch {
	case in && m.config.HideEraseInVolume:
		return failure(400, "iLO.2.14.ActionNotSupported", "The action Drive.SecureErase is not supported by the resource.")
	case in && m.config.RefuseEraseInVolume:
		return failure(400, "IDRAC.2.8.STOR023", "The operation cannot be completed, because the drive is part of a "+
			"virtual disk.")
	case m.state.Power != powerOn:
		return failure(409, "Base.1.8.ResourceInStandby", "The request could not be performed because the resource is in "+
			"standby.")
	case m.eraseOf(drive) != nil:
		return failure(409, "Base.1.8.ResourceInUse", "The change to the requested resource failed because the resource "+
			"is in use.")
	}
	if how, given := c.json["SanitizationType"]; given {
		if len(drive.Sanitizations) == 0 {
			return failure(400, "Base.1.8.ActionParameterUnknown",
				"The action Drive.SecureErase was submitted with the invalid parameter SanitizationType.")
		}
		if !slices.Contains(drive.Sanitizations, fmt.Sprint(how)) {
			return failure(400, "Base.1.8.ActionParameterValueNotInList",
				fmt.Sprintf("The value %v for the parameter SanitizationType is not in the list of acceptable values.", how))
		}
	}
	drive.Erases++
	m.changed = true
	w := &Work{Kind: KindErase, Drive: drive.Serial, Started: c.at, Due: c.at.Add(m.config.Delays.Erase)}
	if m.config.EraseStaged {
		w.Waits = true
	}
	task := m.newTask(KindErase, "Secure erase of "+drive.ID, c.at)
	task.JobType = "RealTimeNoRebootConfiguration"
	if w.Waits {
		task.JobType = "RAIDConfiguration"
	}
	m.from(c, task)
	w.Task = task.ID
	m.state.Work = append(m.state.Work, w)
	return m.accepted(c, task, m.config.EraseForm)
}

// erased is the end of a drive's erase.
func (m *Machine) erased(w *Work, at time.Time) {
	how := m.config.Endings[KindErase]
	if drive, storage := m.state.DriveBySerial(w.Drive); drive != nil && how == Succeeds && !drive.Lies {
		drive.Content = ""
		storage.Volumes = slices.DeleteFunc(storage.Volumes,
			func(v Volume) bool { return slices.Contains(v.Drives, drive.ID) })
	}
	m.end(w, how, at)
}

func (m *Machine) volumesDoc(c *call) answer {
	storage := m.storage(c.vars[0])
	if storage == nil {
		return notFound()
	}
	path := m.system("Storage/" + storage.ID + "/Volumes")
	var members []string
	for _, volume := range storage.Volumes {
		members = append(members, path+"/"+volume.ID)
	}
	return ok(m.collection("VolumeCollection", path, members...))
}

func (m *Machine) volumeDoc(c *call) answer {
	storage := m.storage(c.vars[0])
	if storage == nil {
		return notFound()
	}
	for _, volume := range storage.Volumes {
		if volume.ID != c.vars[1] {
			continue
		}
		path := m.system("Storage/" + storage.ID)
		var drives []string
		for _, id := range volume.Drives {
			drives = append(drives, path+"/Drives/"+id)
		}
		doc := m.doc("Volume.v1_5_0.Volume", path+"/Volumes/"+volume.ID, volume.ID, volume.ID)
		return ok(with(doc, map[string]any{
			"RAIDType": "RAID1", "CapacityBytes": 480103981056, "Status": status("Enabled", "OK"),
			"Links": map[string]any{"Drives": m.links(drives...)},
		}))
	}
	return notFound()
}

// deleteVolume forgets a volume. What is on the drives stays there.
func (m *Machine) deleteVolume(c *call) answer {
	storage := m.storage(c.vars[0])
	if storage == nil {
		return notFound()
	}
	for i, volume := range storage.Volumes {
		if volume.ID == c.vars[1] {
			storage.Volumes = append(storage.Volumes[:i:i], storage.Volumes[i+1:]...)
			m.changed = true
			return answer{status: 204}
		}
	}
	return notFound()
}

// resetToDefaults forgets all volumes of a storage, and erases nothing either.
func (m *Machine) resetToDefaults(c *call) answer {
	storage := m.storage(c.vars[0])
	if storage == nil {
		return notFound()
	}
	storage.Volumes = nil
	m.changed = true
	return message(200, "Base.1.8.Success", "Successfully completed request.")
}
