package redfish

import (
	"context"
	"fmt"
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
	path          string
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

// unreadable makes a state of it that is none of the good ones.
func (s *resourceStatus) unreadable(words string) { s.State = words }

type driveOperation struct {
	OperationName      string `bmc:"required"`
	PercentageComplete int
	AssociatedTask     link
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
	paths, err := h.drivePaths(ctx, before)
	if err != nil {
		return nil, driveUnreadable(err)
	}
	var found driveList
	for _, p := range paths {
		shown := &driveResource{path: p.path}
		if err := h.c.get(ctx, p.path, shown); err != nil {
			return nil, driveUnreadable(err)
		}
		if p.shared && !found.has(shown.SerialNumber) {
			return nil, hardware.Refused(device.CodeToolOutputInvalid, "enroll the server by a URL whose chassis is its own",
				"the drive %s is in a chassis of several systems, and no Storage of this system has it: whose it is, is unknown",
				p.path)
		}
		if err := found.add(p.storage, shown); err != nil {
			return nil, err
		}
	}
	after, err := h.readReady(ctx)
	if err != nil {
		return nil, err
	}
	if after.LastResetTime != before.LastResetTime {
		return nil, &device.Fault{Class: device.Transient, Code: device.CodeServerNotReady,
			Message: "the server was reset while its drives were listed"}
	}
	return found.sorted(), nil
}

// readReady reads the system, which must be on, with POST ended.
func (h *handle) readReady(ctx context.Context) (*system, error) {
	s, err := h.c.readSystem(ctx, h.system)
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

// drivePath is where a drive is shown, and by which Storage; "" is the chassis.
type drivePath struct {
	path, storage string
	shared        bool // the chassis has other systems too
}

// drivePaths lists the drives of all storages and of the system's chassis.
func (h *handle) drivePaths(ctx context.Context, s *system) ([]drivePath, error) {
	var all []drivePath
	add := func(storage string, shared bool, paths []string) error {
		for _, path := range paths {
			if path == "" {
				return hardware.Refused(device.CodeToolOutputInvalid, "update the BMC's firmware",
					"the BMC lists a drive without a link")
			}
			// The same resource in a second collection is no second drive.
			if !slices.ContainsFunc(all, func(have drivePath) bool { return samePath(have.path, path) }) {
				all = append(all, drivePath{path, storage, shared})
			}
		}
		return nil
	}
	if s.Storage != "" {
		members, err := h.c.members(ctx, string(s.Storage))
		if err != nil {
			return nil, err
		}
		for _, path := range members {
			var storage struct{ Drives []link }
			if err := h.c.get(ctx, path, &storage); err != nil {
				return nil, err
			}
			if err := add(path, false, paths(storage.Drives)); err != nil {
				return nil, err
			}
		}
	}
	for _, link := range s.Links.Chassis {
		links, shared, err := h.chassisDrives(ctx, string(link))
		if err != nil {
			return nil, err
		}
		if err := add("", shared, links); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// chassisDrives lists the drives of a chassis. shared: it holds other systems too, and does
// not say whose its drives are.
func (h *handle) chassisDrives(ctx context.Context, path string) (links []string, shared bool, err error) {
	var chassis struct {
		Drives link
		Links  struct{ Drives, ComputerSystems []link }
	}
	if err := h.c.get(ctx, path, &chassis); err != nil {
		return nil, false, err
	}
	for _, other := range paths(chassis.Links.ComputerSystems) {
		shared = shared || !samePath(other, h.system)
	}
	links = paths(chassis.Links.Drives)
	if collection := string(chassis.Drives); collection != "" {
		members, err := h.c.members(ctx, collection)
		if err != nil {
			return nil, false, err
		}
		links = append(links, members...)
	}
	return links, shared, nil
}

// driveList collects drives, each once.
type driveList struct {
	all []*drive
	// storages says by which Storages a serial was shown.
	storages map[string][]string
}

// add takes one drive as it is shown. An empty slot is not a drive.
func (l *driveList) add(storage string, shown *driveResource) error {
	name := hardware.CanonicalSerial(shown.SerialNumber)
	if name == "" && strings.EqualFold(shown.Status.State, "Absent") {
		return nil
	}
	if name == "" {
		return hardware.Refused(device.CodeToolOutputInvalid, "see the drive on the BMC; replace it if it has no serial",
			"the drive %s has no serial: it cannot be counted", shown.path)
	}
	if l.storages == nil {
		l.storages = make(map[string][]string)
	}
	if storage != "" && slices.Contains(l.storages[name], storage) {
		return hardware.Refused(device.CodeDuplicateSerial, "replace one of the two drives",
			"%s shows two drives with the serial %s", storage, name)
	}
	if storage != "" {
		l.storages[name] = append(l.storages[name], storage)
	}
	i := slices.IndexFunc(l.all, func(d *drive) bool { return d.Serial == name })
	if i < 0 {
		l.all = append(l.all, &drive{Serial: name, Shown: []*driveResource{shown}})
		return nil
	}
	if first := l.all[i].Shown[0]; first.CapacityBytes != shown.CapacityBytes && first.CapacityBytes != 0 &&
		shown.CapacityBytes != 0 {
		return hardware.Refused(device.CodeDuplicateSerial, "replace one of the two drives",
			"%s and %s have the serial %s and are of different sizes", first.path, shown.path, name)
	}
	l.all[i].Shown = append(l.all[i].Shown, shown)
	return nil
}

// has: a drive of this serial was shown.
func (l *driveList) has(text string) bool {
	return slices.ContainsFunc(l.all, func(d *drive) bool { return d.Serial == hardware.CanonicalSerial(text) })
}

func (l *driveList) sorted() []*drive {
	slices.SortFunc(l.all, func(a, b *drive) int { return strings.Compare(a.Serial, b.Serial) })
	return l.all
}

// compareDrives proves that the drives are the enrolled ones: none is missing, none is extra.
func compareDrives(enrolled []device.Drive, present []*drive) error {
	if len(enrolled) == 0 {
		return hardware.Refused(device.CodeNoErasePath, "power the server on and enroll it again",
			"no drive was enrolled: nothing says which drives to erase")
	}
	var missing, extra []string
	for _, want := range enrolled {
		if !slices.ContainsFunc(present, func(d *drive) bool { return d.Serial == hardware.CanonicalSerial(want.Serial) }) {
			missing = append(missing, want.Serial)
		}
	}
	for _, have := range present {
		if !slices.ContainsFunc(enrolled, func(d device.Drive) bool {
			return hardware.CanonicalSerial(d.Serial) == have.Serial
		}) {
			extra = append(extra, have.Serial)
		}
	}
	var wrong []string
	if len(missing) > 0 {
		wrong = append(wrong, "missing: "+strings.Join(missing, ", "))
	}
	if len(extra) > 0 {
		wrong = append(wrong, "not enrolled: "+strings.Join(extra, ", "))
	}
	if len(wrong) == 0 {
		return nil
	}
	return hardware.Refused(device.CodeDrivesChanged,
		"put the enrolled drives back and take the others out, or replace the device",
		"the server's drives are not the enrolled ones (%s)", strings.Join(wrong, "; "))
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
