package redfish

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// drive is one drive of the server. A BMC may list it several times, below a Storage and
// below the chassis; Shown are all of them.
type drive struct {
	Serial string
	Shown  []*driveResource
}

// driveResource is what the driver reads of a Drive.
type driveResource struct {
	path, storage string // by which Storage it is shown; "" is the chassis
	shared        bool   // the chassis has other systems too, and does not say whose its drives are
	SerialNumber  string
	Model         string         `bmc:"optional"`
	Protocol      string         `bmc:"optional"`
	CapacityBytes int64          `bmc:"optional"`
	Status        resourceStatus `bmc:"optional"`
	// Operations are what the drive does now; some BMCs show an erase only here.
	Operations []driveOperation
	Links      struct{ Volumes []link }
	Actions    struct {
		SecureErase struct {
			Target     link     `json:"target"`
			Allowed    []string `json:"SanitizationType@Redfish.AllowableValues"`
			ActionInfo link     `json:"@Redfish.ActionInfo"`
		} `json:"#Drive.SecureErase"`
	} `bmc:"optional"`
}

type resourceStatus struct {
	State  string
	Health string
}

// unreadable makes a state of it that is not one of the good ones.
func (s *resourceStatus) unreadable(words string) { s.State = words }

type driveOperation struct {
	Operation          string `bmc:"optional"`
	OperationName      string `bmc:"required"`
	PercentageComplete int
	AssociatedTask     link
}

// erases: it says that it erases the drive. A self-test, or what nobody knows, does not.
func (o *driveOperation) erases() bool {
	said := strings.ToLower(o.Operation + " " + o.OperationName)
	return slices.ContainsFunc([]string{"eras", "saniti", "wipe", "overwrit", "scrambl", "format"},
		func(word string) bool {
			return strings.Contains(said, word)
		})
}

// driveProperties are the server's drives as its enrollment records them, by serial.
func driveProperties(all []*drive) []device.Drive {
	var list []device.Drive
	for _, d := range all {
		first := d.Shown[0]
		list = append(list, device.Drive{Serial: d.Serial, Model: strings.TrimSpace(first.Model),
			CapacityBytes: first.CapacityBytes, Protocol: first.Protocol})
	}
	return list
}

// drives reads every drive of the server, by serial: those of each Storage, pairs of boot
// drives among them, and those of its chassis. The server must be on, with POST ended, before
// and after: otherwise BMCs list some drives or none. Where one drive cannot be read, or has
// no serial, all of it is an error; a list is never shorter than what is there.
func (h *handle) drives(ctx context.Context) ([]*drive, error) {
	before, err := h.readReady(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := h.listedDrives(ctx, before)
	if err != nil {
		return nil, driveUnreadable(err)
	}
	found := map[string]*drive{}
	for _, shown := range listed {
		if err := h.get(ctx, shown.path, shown); err != nil {
			return nil, driveUnreadable(err)
		}
		serial := hardware.CanonicalSerial(shown.SerialNumber)
		if serial == "" && strings.EqualFold(shown.Status.State, "Absent") {
			continue // an empty slot
		}
		if serial == "" {
			return nil, hardware.Refused(device.CodeToolOutputInvalid,
				"see the drive on the BMC; replace it if it has no serial",
				"the drive %s has no serial: it cannot be counted", shown.path)
		}
		d := found[serial]
		if d == nil && shown.shared {
			return nil, hardware.Refused(device.CodeToolOutputInvalid, "enroll the server by a URL whose chassis is its own",
				"the drive %s is in a chassis of several systems, and no Storage of this system has it: whose it is, is unknown",
				shown.path)
		}
		if d == nil {
			d = &drive{Serial: serial}
			found[serial] = d
		}
		if i := slices.IndexFunc(d.Shown, shown.isAnother); i >= 0 {
			return nil, hardware.Refused(device.CodeDuplicateSerial, "replace one of the two drives",
				"%s and %s are two drives with the serial %s", d.Shown[i].path, shown.path, serial)
		}
		d.Shown = append(d.Shown, shown)
	}
	after, err := h.readReady(ctx)
	if err != nil {
		return nil, err
	}
	if after.LastResetTime != before.LastResetTime {
		return nil, &device.Fault{Class: device.Transient, Code: device.CodeServerNotReady,
			Message: "the server was reset while its drives were listed"}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *drive) int { return strings.Compare(a.Serial, b.Serial) }), nil
}

// isAnother: two drives of one serial are no single one: one Storage shows both, or their sizes differ.
func (r *driveResource) isAnother(than *driveResource) bool {
	return r.storage != "" && r.storage == than.storage ||
		r.CapacityBytes != than.CapacityBytes && r.CapacityBytes != 0 && than.CapacityBytes != 0
}

// enrolledDrives reads the drives, and proves that they are the enrolled ones: none is missing, none is
// extra.
func (h *handle) enrolledDrives(ctx context.Context) ([]*drive, error) {
	enrolled, err := h.enrolledProperties()
	if err != nil {
		return nil, err
	}
	if len(enrolled.Drives) == 0 {
		return nil, hardware.Refused(device.CodeNoErasePath, "power the server on and enroll it again",
			"no drive was enrolled: nothing says which drives to erase")
	}
	present, err := h.drives(ctx)
	if err != nil {
		return nil, err
	}
	var wanted []device.Drive
	for _, d := range enrolled.Drives {
		wanted = append(wanted, device.Drive{Serial: d.Serial})
	}
	wrong := drivesDiffer(wanted, driveProperties(present))
	if len(wrong) == 0 {
		return present, nil
	}
	return nil, hardware.Refused(device.CodeDrivesChanged,
		"put the enrolled drives back and take the others out, or replace the device",
		"the server's drives are not the enrolled ones: %s", strings.Join(wrong, "; "))
}

// readReady reads the system, which must be on, with POST ended.
func (h *handle) readReady(ctx context.Context) (*system, error) {
	s, err := h.readSystem(ctx)
	if err != nil {
		return nil, err
	}
	return s, h.checkReady(s)
}

// driveUnreadable is the fault of a drive, or of a list of drives, that cannot be read. Where
// it is not found, the BMC may have begun to discover its drives again.
func driveUnreadable(err error) error {
	r, ok := asRefusal(err)
	if !ok {
		return err
	}
	class := device.NeedsOperator
	if r.Status == http.StatusNotFound {
		class = device.Transient
	}
	return &device.Fault{Class: class, Code: device.CodeToolOutputInvalid,
		Message: fmt.Sprintf("%s cannot be read, so the server's drives are not known: %v", r.Path, err),
		Remedy:  "see the drives on the BMC, then clean the server again"}
}

// listedDrives lists the drives of all storages and of the system's chassis, which are not read yet.
func (h *handle) listedDrives(ctx context.Context, s *system) ([]*driveResource, error) {
	var all []*driveResource
	add := func(storage string, shared bool, links []link) {
		for _, l := range links {
			// The same resource in a second collection is no second drive.
			if !slices.ContainsFunc(all, func(have *driveResource) bool { return samePath(have.path, string(l)) }) {
				all = append(all, &driveResource{path: string(l), storage: storage, shared: shared})
			}
		}
	}
	if s.Storage != "" {
		members, err := h.members(ctx, string(s.Storage))
		if err != nil {
			return nil, err
		}
		for _, path := range paths(members) {
			var storage struct{ Drives []link }
			if err := h.get(ctx, path, &storage); err != nil {
				return nil, err
			}
			add(path, false, storage.Drives)
		}
	}
	for _, path := range paths(s.Links.Chassis) {
		var chassis struct {
			Drives link
			Links  struct{ Drives, ComputerSystems []link }
		}
		if err := h.get(ctx, path, &chassis); err != nil {
			return nil, err
		}
		shared := slices.ContainsFunc(chassis.Links.ComputerSystems, func(other link) bool {
			return !samePath(string(other), h.system)
		})
		add("", shared, chassis.Links.Drives)
		if chassis.Drives == "" {
			continue
		}
		members, err := h.members(ctx, string(chassis.Drives))
		if err != nil {
			return nil, err
		}
		add("", shared, members)
	}
	if slices.ContainsFunc(all, func(d *driveResource) bool { return d.path == "" }) {
		return nil, hardware.Refused(device.CodeToolOutputInvalid, "update the BMC's firmware",
			"the BMC lists a drive without a link")
	}
	return all, nil
}

// operation is what the drive does now, by any of the places that show it; nil: nothing. Some show
// an operation without a name, a task or progress where there is none.
func (d *drive) operation() *driveOperation {
	for _, shown := range d.Shown {
		if i := slices.IndexFunc(shown.Operations, func(o driveOperation) bool { return o != driveOperation{} }); i >= 0 {
			return &shown.Operations[i]
		}
	}
	return nil
}

// unhealthy says what is wrong with the drive, "" if nothing is.
func (d *drive) unhealthy() string {
	for _, shown := range d.Shown {
		if shown.Status.Health == "Critical" {
			return fmt.Sprintf("its health is %s", shown.Status.Health)
		}
		if s := shown.Status.State; s != "" && s != "Enabled" && s != "StandbyOffline" && s != "StandbySpare" {
			return "its state is " + s
		}
	}
	return ""
}
