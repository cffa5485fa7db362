package udev

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"
)

// entry is a device of the document. Nova's form differs from ours: an unknown address or bus
// is "none" there, an unknown serial null, and there are more keys.
type entry struct {
	Type    string   `json:"type"`
	Bus     string   `json:"bus"`
	Address string   `json:"address"`
	MAC     string   `json:"mac"`
	Serial  string   `json:"serial"`
	Path    string   `json:"path"`
	Devname string   `json:"devname"`
	Tags    []string `json:"tags"`
}

// read gives the document's devices. Text that is not UTF-8 is an error, since two tags might
// become alike by it, and so is a key that an object has twice.
func read(document []byte) ([]entry, error) {
	var d *struct {
		Devices []entry `json:"devices"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, fmt.Errorf("the metadata document cannot be read: %w", err)
	}
	if d == nil {
		return nil, fmt.Errorf("the metadata document is null")
	}
	for i := range d.Devices {
		slices.Sort(d.Devices[i].Tags)
		d.Devices[i].Tags = slices.Compact(d.Devices[i].Tags)
	}
	return d.Devices, nil
}

var typeForm = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

// check says why a device with tags gets no rule; "" if it may get one.
func (e entry) check() string {
	if !typeForm.MatchString(e.Type) {
		return "its type is not a word of small letters and digits"
	}
	for _, tag := range e.Tags {
		if fault := checkTag(tag); fault != "" {
			return fault
		}
	}
	return ""
}

// sameRole reports whether two entries may mark the same device: Xen shows one disk on two
// buses, with one tag.
func (e entry) sameRole(other entry) bool {
	return e.Type != other.Type || slices.Equal(e.Tags, other.Tags)
}
