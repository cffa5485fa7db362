package host

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"burnish/internal/device"
)

// Record is what a host stores of a device, independent of its workflow and of the
// server's database (SAFETY F10). Binding, Clean and Seq never decrease; Generation is
// the inventory's.
type Record struct {
	Name       string            `json:"name"`
	UUID       string            `json:"uuid"`
	Driver     string            `json:"driver"`
	Address    string            `json:"address,omitempty"`
	Settings   map[string]string `json:"settings,omitempty"`
	Type       string            `json:"type,omitempty"`
	Owner      device.Owner      `json:"owner,omitempty"`
	OneTimeUse bool              `json:"one_time_use,omitempty"`
	Identity   device.Identity   `json:"identity"`
	Binding    int               `json:"binding,omitempty"`
	Generation int64             `json:"generation,omitempty"`
	Clean      int               `json:"clean,omitempty"`
	Seq        int64             `json:"seq,omitempty"`
	// Forgotten: the device was removed from this host. The record stays because of its
	// numbers: a device enrolled with the same name continues from them.
	Forgotten bool `json:"forgotten,omitempty"`
	// Updated is set by SaveRecord and UpdateRecord.
	Updated time.Time `json:"updated"`
}

// LoadRecord reads the record of the device called name, and whether there is one. A
// *CorruptError means that the numbers are lost: treat the device as unknown and dirty.
func (h *Host) LoadRecord(name string) (Record, bool, error) {
	return load[Record](h.path(devicesFolder), name)
}

// SaveRecord replaces the record of r.Name, as durably as Journal.Save. It overwrites
// concurrent changes: to change a field, use UpdateRecord.
func (h *Host) SaveRecord(r Record) error {
	h.records.Lock()
	defer h.records.Unlock()
	return h.saveRecord(r)
}

// UpdateRecord reads the record, calls change and saves the result, one caller at a time.
// If there is no record, change gets one with only the name; if change fails, nothing is
// saved. A corrupt record is not updated.
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

// ListRecords reads every record, also forgotten ones, in the order of names. The error
// joins a *CorruptError for each corrupt file; the other records are returned too.
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

// FindOtherWith gives the name of another device of this host, not forgotten, that is the
// same hardware: the same serial, or the same file by device and inode (F23). It is "" if
// there is none. If the record of another device is corrupt, that cannot be proved: that
// is an error.
func (h *Host) FindOtherWith(identity device.Identity, exceptNames ...string) (other string, err error) {
	all, err := loadAll[Record](h.path(devicesFolder))
	if err != nil {
		return "", err
	}
	var corrupt error
	for _, file := range all {
		switch {
		case slices.Contains(exceptNames, file.name):
		case file.err != nil:
			corrupt = errors.Join(corrupt, file.err)
		case !file.value.Forgotten && sameHardware(file.value.Identity, identity):
			return file.name, nil
		}
	}
	if corrupt != nil {
		return "", fmt.Errorf("cannot check whether another device of this host is the same hardware: %w", corrupt)
	}
	return "", nil
}

// sameHardware ignores fields that are not set: two devices without a serial differ.
func sameHardware(a, b device.Identity) bool {
	if a.Serial != "" && a.Serial == b.Serial {
		return true
	}
	return a.Inode != 0 && a.Device == b.Device && a.Inode == b.Inode
}
