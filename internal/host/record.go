package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"burnish/internal/device"
)

// Record is a device as its host has recorded it, independently of its workflow and of the
// server's database (SAFETY F10). Binding, Clean and Seq never decrease; Generation is the
// inventory's.
type Record struct {
	Name       string            `json:"name"`
	UUID       string            `json:"uuid"`
	Driver     string            `json:"driver"`
	Address    string            `json:"address,omitempty"`
	Settings   map[string]string `json:"settings,omitempty"`
	Type       string            `json:"type,omitempty"`
	Owner      device.Owner      `json:"owner,omitempty"`
	OneTimeUse bool              `json:"one_time_use,omitempty"`
	// Pool is the pool that a server is shared in; nil if it is Burnish's alone. Without it the
	// device would be cleaned, after its workflow was lost, while another user has the server.
	Pool       *Pool           `json:"pool,omitempty"`
	Identity   device.Identity `json:"identity"`
	Binding    int             `json:"binding,omitempty"`
	Generation int64           `json:"generation,omitempty"`
	Clean      int             `json:"clean,omitempty"`
	Seq        int64           `json:"seq,omitempty"`
	// Reflashed is the firmware revision that a step gives the device, or gave it.
	Reflashed Reflashed `json:"reflashed,omitzero"`
	// Mark is what the target's change mark was when this host had written to it.
	Mark Mark `json:"mark,omitzero"`
	// Forgotten: the device was removed from this host. The record stays for its numbers:
	// a device that is enrolled under the same name continues with them.
	Forgotten bool `json:"forgotten,omitempty"`
	// MovedFrom is the name that the device had, until a discovery under this one: while that
	// one's workflow runs and this one's does not, the move between them is under way.
	MovedFrom string `json:"moved_from,omitempty"`
	// Updated is set by SaveRecord and UpdateRecord.
	Updated time.Time `json:"updated"`
}

// Pool is the pool of a server, with the fields of the enrollment's.
type Pool struct {
	Appliance string `json:"appliance"`
	Hardware  string `json:"server_hardware_uri"`
	Template  string `json:"server_profile_template_uri"`
	Dynamic   bool   `json:"dynamic_allocation,omitempty"`
}

// Reflashed is a firmware revision that a step of this host gives to one unit. It counts
// until the device's next binding: a later change is a tenant's (F20).
type Reflashed struct {
	Revision string `json:"revision,omitempty"`
	Serial   string `json:"serial,omitempty"`
	Binding  int    `json:"binding,omitempty"`
}

// Mark is the change mark of one unit (hardware.ChangeMarker) after Burnish's last write to it, or
// as Burnish accepted it. It counts until the device's next binding: a later change is a
// tenant's (F39).
type Mark struct {
	Mark    string `json:"mark,omitempty"`
	Serial  string `json:"serial,omitempty"`
	Binding int    `json:"binding,omitempty"`
}

// OwnMark is the mark that the device must still have, "" where none is known.
func (r Record) OwnMark() string {
	if r.Mark.Serial != r.Identity.Serial || r.Mark.Binding != r.Binding {
		return ""
	}
	return r.Mark.Mark
}

// WrittenByOthers says that the device, whose mark is now, was changed since.
func (r Record) WrittenByOthers(now string) bool { return r.OwnMark() != "" && r.OwnMark() != now }

// SetMark keeps a mark as Burnish's own.
func (r *Record) SetMark(now string) {
	r.Mark = Mark{Mark: now, Serial: r.Identity.Serial, Binding: r.Binding}
}

// For gives the revision if it is of this unit and no binding came after it, else "".
func (r Reflashed) For(serial string, binding int) string {
	if r.Serial != serial || r.Binding != binding {
		return ""
	}
	return r.Revision
}

// LoadRecord reads the record of the device called name, and whether there is one. A
// *CorruptError means that the record is lost: the device must be taken as unknown and
// dirty.
func (h *Host) LoadRecord(name string) (Record, bool, error) {
	return load[Record](h.path(devicesFolder), name)
}

// SaveRecord replaces the record of r.Name, as durably as Journal.Save. It also overwrites
// concurrent changes: to change a field, use UpdateRecord.
func (h *Host) SaveRecord(r Record) error {
	h.records.Lock()
	defer h.records.Unlock()
	return h.saveRecord(r)
}

// UpdateRecord reads the record, calls change and saves the result, one caller at a time.
// Without a record, change gets one with only the name. If change fails, nothing is saved.
// A corrupt record is not updated.
func (h *Host) UpdateRecord(name string, change func(*Record) error) error {
	h.records.Lock()
	defer h.records.Unlock()
	r, found, err := h.LoadRecord(name)
	if err != nil {
		return err
	}
	if !found {
		r = Record{Name: name}
	}
	if err := change(&r); err != nil {
		return err
	}
	r.Name = name
	return h.saveRecord(r)
}

func (h *Host) saveRecord(r Record) error {
	r.Updated = time.Now().UTC()
	return save(h.path(devicesFolder), r.Name, r)
}

// ListRecords reads every record, forgotten ones too, in the order of names. The
// error joins a *CorruptError for each file that cannot be trusted; the others are
// returned all the same.
func (h *Host) ListRecords() ([]Record, error) {
	all, err := loadAll[Record](h.path(devicesFolder))
	var records []Record
	for _, file := range all {
		if file.err != nil {
			err = errors.Join(err, file.err)
			continue
		}
		records = append(records, file.value)
	}
	return records, err
}

// FindOtherWith names another device of this host, not forgotten, that is the same
// hardware: the same serial, the same file by device and inode (F23, F35), or the same place
// where the serials do not say whether it is. It is "" where there is none. A corrupt record of
// another device is an error, because that device may be the same hardware.
func (h *Host) FindOtherWith(identity device.Identity, driver string, exceptNames ...string) (other string, err error) {
	all, err := loadAll[Record](h.path(devicesFolder))
	if err != nil {
		return "", err
	}
	var unsure error
	for _, file := range all {
		switch {
		case slices.Contains(exceptNames, file.name):
		case file.err != nil:
			unsure = errors.Join(unsure, file.err)
		case !file.value.Forgotten && file.value.has(identity, driver):
			return file.name, nil
		}
	}
	if unsure != nil {
		return "", fmt.Errorf("another device of this host may be the same hardware: %w", unsure)
	}
	return "", nil
}

// has ignores empty fields: two devices without a serial are not the same, unless they are in one
// place. Serials that two drivers tell cannot be compared either.
func (r Record) has(now device.Identity, driver string) bool {
	known, id := r.Identity.Hardware(), now.Hardware()
	switch {
	case id != "" && known == id, now.Inode != 0 && r.Identity.Device == now.Device && r.Identity.Inode == now.Inode:
		return true
	case known == "" || id == "" || r.Driver != driver:
		return now.Path != "" && r.Identity.Path == now.Path
	}
	return false
}
