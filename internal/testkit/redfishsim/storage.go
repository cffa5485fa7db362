package redfishsim

import (
	"slices"
	"strings"
	"time"
)

// drivesHidden is true while the BMC knows of no drive: an iLO's does before POST has ended.
func (m *Machine) drivesHidden() bool {
	phase, _ := m.phase()
	early := m.Conf.EarlyDiscovery && phase == phaseDiscovered
	return m.is(ILO) && (m.Data.Power != powerOn || m.Data.InPOST && !early)
}

func (t *tree) addStorage() {
	t.list("Storage", t.system("/Storage"))
	t.list("Drive", t.chassis("/Drives"))
	for _, storage := range t.Data.Storages {
		path := t.system("/Storage/" + storage.ID)
		var drives []string
		for _, drive := range storage.Drives {
			if drive.Missing || t.drivesHidden() {
				continue
			}
			drives = append(drives, path+"/Drives/"+drive.ID)
			if !storage.Unlisted {
				t.addDrive(path+"/Drives/"+drive.ID, drive, storage, drive.Serial)
			}
			if !storage.NotChassis { // which shows the serial as the drive does, with its padding
				t.member("Drive", t.chassis("/Drives"), drive.ID, "", nil)
				t.addDrive(t.chassis("/Drives/"+drive.ID), drive, storage, drive.Serial+"    ")
			}
		}
		if storage.Unlisted {
			continue
		}
		t.member("Storage.v1_10_0.Storage", t.system("/Storage"), storage.ID, storage.ID, doc{
			"Drives": t.links(drives...), "Drives@odata.count": len(drives), "Volumes": t.link(path + "/Volumes"),
		})
		t.list("Volume", path+"/Volumes")
		for _, volume := range storage.Volumes {
			var of []string
			for _, id := range volume.Drives {
				of = append(of, path+"/Drives/"+id)
			}
			t.member("Volume.v1_5_0.Volume", path+"/Volumes", volume.ID, volume.ID, doc{
				"RAIDType": "RAID1", "CapacityBytes": 480103981056, "Links": doc{"Drives": t.links(of...)},
			})
		}
	}
}

// addDrive adds a drive at one of its paths.
func (t *tree) addDrive(path string, drive *Drive, storage *Storage, serial string) {
	schema := "Drive.v1_9_0.Drive"
	erase := t.action(path + "/Actions/Drive.SecureErase")
	if len(drive.Sanitizations) > 0 {
		schema = "Drive.v1_17_0.Drive"
		erase["SanitizationType@Redfish.AllowableValues"] = drive.Sanitizations
	}
	var volumes []string
	for _, volume := range storage.Volumes {
		if slices.Contains(volume.Drives, drive.ID) {
			volumes = append(volumes, t.system("/Storage/"+storage.ID+"/Volumes/"+volume.ID))
		}
	}
	r := t.add(schema, path, drive.ID, doc{
		"SerialNumber": serial, "Model": drive.Model, "Manufacturer": strings.Fields(drive.Model + " x")[0],
		"CapacityBytes": drive.CapacityBytes, "BlockSizeBytes": 512, "Protocol": drive.Protocol, "MediaType": "SSD",
		"Links": doc{"Volumes": t.links(volumes...)},
	})
	hidden := t.is(ILO) && len(volumes) > 0 // of a drive in a volume an iLO shows no action
	if !drive.NotErasable && !hidden {
		r.doc["Actions"] = doc{"#Drive.SecureErase": erase}
	}
	if w := t.eraseOf(drive); w != nil && !w.Waits {
		operation := doc{"OperationName": "Sanitize", "Operation": "Sanitize", "PercentageComplete": t.percent(w, t.at)}
		if w.Task != "" {
			operation["AssociatedTask"] = t.link(tasks + "/" + w.Task)
		}
		r.doc["Operations"] = []any{operation}
	}
	if drive.NotErasable {
		return
	}
	t.post(path+"/Actions/Drive.SecureErase", func(c *call) answer {
		_, typed := c.JSON["SanitizationType"]
		switch {
		case hidden:
			return failure(400, "iLO.2.14.ActionNotSupported", "The action Drive.SecureErase is not supported by the resource.")
		case t.is(IDRAC) && len(volumes) > 0:
			return failure(400, "IDRAC.2.8.STOR023", "The drive is part of a virtual disk.")
		case t.Data.Power != powerOn:
			return failure(409, "Base.1.8.ResourceInStandby", "The resource is in standby.")
		case t.eraseOf(drive) != nil:
			return failure(409, "Base.1.8.ResourceInUse", "The resource is in use.")
		case typed && len(drive.Sanitizations) == 0:
			return failure(400, "Base.1.8.ActionParameterUnknown", "SanitizationType is no parameter of the action.")
		case typed && !slices.Contains(drive.Sanitizations, c.Text("SanitizationType")):
			return notInList("the values of SanitizationType", c.Text("SanitizationType"))
		}
		drive.Erases++
		c.Entry.Changed = true
		kind := "RealTimeNoRebootConfiguration"
		if t.Conf.EraseStaged {
			kind = "RAIDConfiguration"
		}
		task := t.newTask(KindErase, "Secure erase of "+drive.ID, kind, c)
		t.Data.Work = append(t.Data.Work, &Work{Kind: KindErase, Drive: drive.Serial, Task: task.ID, Started: c.At,
			Due: c.At.Add(t.Conf.Delays.Erase), Waits: t.Conf.EraseStaged})
		return t.accepted(c, task, t.Conf.EraseForm)
	})
}

func (m *Machine) eraseOf(drive *Drive) *Work {
	for _, w := range m.Data.Work {
		if w.Kind == KindErase && w.Drive == drive.Serial {
			return w
		}
	}
	return nil
}

// erased is the end of a drive's erase.
func (m *Machine) erased(w *Work, at time.Time) {
	how := m.Conf.Endings[KindErase]
	if drive, storage := m.Data.DriveBySerial(w.Drive); drive != nil && how == Succeeds && !drive.Lies {
		drive.Content = ""
		storage.Volumes = slices.DeleteFunc(storage.Volumes,
			func(v Volume) bool { return slices.Contains(v.Drives, drive.ID) })
	}
	m.end(w, how, at)
}
