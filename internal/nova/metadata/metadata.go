// Package metadata is the document that gives an instance's devices and their roles to its
// guest: Nova's device role tagging, as cloud-init and the metadata service know it. It is
// pure; the document is an interface that only grows.
package metadata

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"burnish/internal/device"
	"burnish/internal/tagging"
	"burnish/workflows/contract"
)

// Document is what the guest reads: the instance's UUID, which becomes cloud-init's instance
// ID, and the devices. Both keys are always there.
type Document struct {
	UUID    string   `json:"uuid"`
	Devices []Device `json:"devices"`
}

// Device is one device on one of the guest's buses (S1.8). Only Type and Bus are always there
// (S1.15); a NIC always has a MAC (S1.16).
type Device struct {
	Type    string   `json:"type"`
	Bus     string   `json:"bus"`
	Address string   `json:"address,omitempty"`
	MAC     string   `json:"mac,omitempty"`
	Serial  string   `json:"serial,omitempty"`
	Path    string   `json:"path,omitempty"`
	Devname string   `json:"devname,omitempty"`
	Tags    []string `json:"tags,omitempty"`
}

// New is the document of an instance's devices. Its order depends on their types, tags and
// names alone.
func New(s contract.InstanceStatus) Document {
	held := slices.Clone(s.Devices)
	slices.SortStableFunc(held, func(a, b contract.HeldDevice) int {
		return cmp.Or(
			cmp.Compare(rank(a), rank(b)),
			cmp.Compare(tagging.TypeOf(a.Type), tagging.TypeOf(b.Type)),
			cmp.Compare(a.Tag, b.Tag),
			cmp.Compare(a.Name, b.Name),
		)
	})
	doc := Document{UUID: strings.ToLower(s.UUID), Devices: []Device{}}
	for _, d := range held {
		doc.Devices = append(doc.Devices, entries(d)...)
	}
	return doc
}

// rank puts NICs first and then disks, as the specification's examples do.
func rank(d contract.HeldDevice) int {
	switch tagging.TypeOf(d.Type) {
	case tagging.NIC:
		return 0
	case tagging.Disk:
		return 1
	}
	return 2
}

// entries is one entry for each of the buses on which the guest finds the device (S1.5).
// Where nothing is known of them the bus is none, which claims nothing: what the host knows
// of its own bus and address is not the guest's (S1.15).
func entries(d contract.HeldDevice) []Device {
	guest := d.Guest
	if len(guest) == 0 {
		guest = []contract.GuestAddress{{Bus: tagging.None}}
	}
	var es []Device
	for _, g := range guest {
		e := Device{Type: tagging.TypeOf(d.Type), Bus: g.Bus, Address: strings.ToLower(g.Address)}
		if e.Type == tagging.NIC {
			e.MAC, e.Devname = macOf(d, g), g.Devname
			if e.MAC == "" {
				continue
			}
		} else {
			e.Path = g.Path
			if utf8.ValidString(d.Serial) {
				e.Serial = d.Serial
			}
		}
		if d.Tag != "" {
			e.Tags = []string{d.Tag} // S1.6, S1.7
		}
		es = append(es, e)
	}
	return es
}

// macOf is the MAC that the guest sees; "" if none is known.
func macOf(d contract.HeldDevice, g contract.GuestAddress) string {
	mac, err := device.CanonicalMAC(cmp.Or(g.MAC, d.MAC))
	if err != nil {
		return "" // neither is a MAC
	}
	return mac
}

// JSON is the document as the guest reads it. It is checked against the schema, so that no
// guest reads another.
func (d Document) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("write the metadata document: %w", err)
	}
	if err := Validate(b.Bytes()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
