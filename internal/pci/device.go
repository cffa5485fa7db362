package pci

import (
	"slices"
	"strings"
)

// Type is what kind of function a device is, in Nova's words.
type Type string

// The three kinds: a device without SR-IOV, one that can have virtual functions, and
// a virtual function.
const (
	Whole    Type = "type-PCI"
	Physical Type = "type-PF"
	Virtual  Type = "type-VF"
)

// Device is one PCI function. An unknown field is "" or nil.
type Device struct {
	Address string // domain:bus:slot.function, as the kernel writes it
	Vendor  string // four hexadecimal digits in lower case
	Product string // four hexadecimal digits in lower case
	Class   string // six hexadecimal digits in lower case: class, subclass, interface
	Type    Type

	Parent    string   // of a virtual function: the address of its physical function
	Functions []string // of a physical function: its virtual ones' addresses, sorted

	Driver     string // that is bound to it
	IOMMUGroup string

	Interfaces       []string // its network interfaces, sorted
	MAC              string   // its own, in lower case; "" unless it shows exactly one
	ParentInterfaces []string // those of its physical function, where it was given and not read
}

// ID is vendor:product, by which a policy names a model.
func (d Device) ID() string { return d.Vendor + ":" + d.Product }

// ParseDevice reads a device from a JSON object with Nova's keys: address, vendor_id,
// product_id, dev_type, parent_addr, devname, parent_ifname. All are optional, null
// counts as absent, and other keys are ignored. An error is *Invalid.
func ParseDevice(text []byte) (Device, error) {
	given, err := object(text, "")
	if err != nil {
		return Device{}, err
	}
	var d Device
	var kind, own, parents string
	for _, field := range []struct {
		key  string
		into *string
	}{
		{"address", &d.Address}, {"vendor_id", &d.Vendor}, {"product_id", &d.Product}, {"dev_type", &kind},
		{"parent_addr", &d.Parent}, {"devname", &own}, {"parent_ifname", &parents},
	} {
		value, ok := given[field.key]
		if !ok || string(value) == "null" {
			continue
		}
		if *field.into, err = parseString(field.key, value); err != nil {
			return Device{}, err
		}
		if *field.into == "" {
			return Device{}, invalid(field.key, "is empty")
		}
	}
	if d.Vendor, err = identifier("vendor_id", d.Vendor); err != nil {
		return Device{}, err
	}
	if d.Product, err = identifier("product_id", d.Product); err != nil {
		return Device{}, err
	}
	if d.Address, err = canonical("address", d.Address); err != nil {
		return Device{}, err
	}
	if d.Parent, err = canonical("parent_addr", d.Parent); err != nil {
		return Device{}, err
	}
	if own != "" {
		d.Interfaces = []string{own}
	}
	if parents != "" {
		d.ParentInterfaces = []string{parents}
	}
	d.Type = Type(kind)
	switch {
	case kind == "": // as for Nova, a parent alone makes no virtual function
		d.Type = Whole
	case !slices.Contains([]Type{Whole, Physical, Virtual}, d.Type):
		return Device{}, invalid("dev_type", "%q is unknown: must be one of type-PCI, type-PF, type-VF", kind)
	case d.Type != Virtual && d.Parent != "":
		return Device{}, invalid("parent_addr", "only a type-VF has a parent, not a %s", kind)
	}
	return d, nil
}

// identifier normalizes a vendor or product ID of a device; "" stays.
func identifier(field, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	digits, why := hexadecimal(text, 4, 0xFFFF)
	if why != "" {
		return "", invalid(field, "%s", why)
	}
	return digits, nil
}

// canonical normalizes an address; "" stays.
func canonical(field, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	at, err := parseExact(field, text)
	if err != nil {
		return "", err
	}
	return at.String(), nil
}

// String is domain:bus:slot.function.
func (p pciAddress) String() string {
	return p[0] + ":" + p[1] + ":" + p[2] + "." + p[3]
}

// domainTooLong says that the domain has more than four digits, as the kernel gives it
// to disks behind a volume management controller (VMD). No spec can name such a device
// and Nova never uses it.
func domainTooLong(address string) bool {
	return strings.IndexByte(address, ':') > 4
}
