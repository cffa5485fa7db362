package metadata

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"burnish/internal/tagging"
	"burnish/workflows/contract"
)

// maxDomain is the most that FromDomain reads. libvirt's domains have some kilobytes.
const maxDomain = 8 << 20

// FromDomain reads libvirt's domain XML, as `virsh dumpxml` prints it, and gives where the
// guest finds each device that the host passes through. The key is the device's on the host:
// its PCI address, such as 0000:01:00.0, or a disk's path. A device that the domain does not
// hand to its guest (address type unassigned) has no entry; one whose address libvirt does
// not know yet has the bus alone. Error messages name the device.
//
// In libvirt's XML the address in <source> is the host's. The guest's is the one that is a
// child of the device's own element.
func FromDomain(r io.Reader) (map[string][]contract.GuestAddress, error) {
	limited := &io.LimitedReader{R: r, N: maxDomain + 1}
	// The decoder knows XML's five entities and no others, and follows no reference.
	dec := xml.NewDecoder(limited)
	var dom domainXML
	err := dec.Decode(&dom)
	if err == nil {
		err = onlySpace(dec)
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("the domain has more than %d MiB: that is not libvirt's", maxDomain>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("the domain is not libvirt's XML: %w", err)
	}
	guests := map[string][]contract.GuestAddress{}
	for _, list := range []struct {
		element string
		devices []passedXML
	}{{"hostdev", dom.Devices.Hostdevs}, {"interface", dom.Devices.Interfaces}, {"disk", dom.Devices.Disks}} {
		for i, p := range list.devices {
			host, err := p.host(list.element)
			if err != nil {
				return nil, fmt.Errorf("%s %d of the domain: %w", list.element, i+1, err)
			}
			if host == "" {
				continue
			}
			if _, twice := guests[host]; twice {
				return nil, fmt.Errorf("%s %s: the domain has it twice", list.element, host)
			}
			guest, err := p.guest(list.element)
			if err == nil && guest != nil {
				guests[host] = []contract.GuestAddress{*guest}
				err = tagging.CheckGuest(guests[host])
			}
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", list.element, host, err)
			}
		}
	}
	return guests, nil
}

// onlySpace refuses anything but blanks and comments behind the domain.
func onlySpace(dec *xml.Decoder) error {
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.Comment, xml.ProcInst:
		case xml.CharData:
			if strings.TrimSpace(string(t)) != "" {
				return errors.New("text follows the domain")
			}
		default:
			return errors.New("another element follows the domain")
		}
	}
}

type domainXML struct {
	XMLName xml.Name `xml:"domain"`
	Devices struct {
		Hostdevs   []passedXML `xml:"hostdev"`
		Interfaces []passedXML `xml:"interface"`
		Disks      []passedXML `xml:"disk"`
	} `xml:"devices"`
}

// passedXML is a hostdev, an interface or a disk.
type passedXML struct {
	Mode   string `xml:"mode,attr"`
	Type   string `xml:"type,attr"`
	Source struct {
		Dev       string       `xml:"dev,attr"`
		Addresses []addressXML `xml:"address"`
	} `xml:"source"`
	Target struct {
		Dev string `xml:"dev,attr"`
		Bus string `xml:"bus,attr"`
	} `xml:"target"`
	MAC struct {
		Address string `xml:"address,attr"`
	} `xml:"mac"`
	Addresses []addressXML `xml:"address"`
}

type addressXML struct {
	Type       string `xml:"type,attr"`
	Domain     string `xml:"domain,attr"`
	Bus        string `xml:"bus,attr"`
	Slot       string `xml:"slot,attr"`
	Function   string `xml:"function,attr"`
	Controller string `xml:"controller,attr"`
	Target     string `xml:"target,attr"`
	Unit       string `xml:"unit,attr"`
	Port       string `xml:"port,attr"`
}

// host is what the host knows the device by, "" for an element that passes no device of the
// host through by PCI address or path.
func (p passedXML) host(element string) (string, error) {
	switch {
	case element == "hostdev" && p.Type == "pci" && (p.Mode == "" || p.Mode == "subsystem"),
		element == "interface" && p.Type == "hostdev",
		element == "disk" && p.Type == "nvme":
		if len(p.Source.Addresses) != 1 {
			return "", fmt.Errorf("its <source> has %d addresses: the host's PCI address is missing", len(p.Source.Addresses))
		}
		a := p.Source.Addresses[0]
		if a.Type != "" && a.Type != tagging.PCI {
			return "", nil // a hostdev of another kind
		}
		host, err := a.pci()
		if err != nil {
			return "", fmt.Errorf("the host's address in its <source>: %w", err)
		}
		return host, nil
	case element == "disk" && p.Type == "block":
		return p.Source.Dev, nil
	}
	return "", nil
}

// guest is where the guest finds the device; nil if it does not get it.
func (p passedXML) guest(element string) (*contract.GuestAddress, error) {
	if len(p.Addresses) > 1 {
		return nil, fmt.Errorf("it has %d addresses in the guest", len(p.Addresses))
	}
	g := &contract.GuestAddress{Bus: p.busOf(element), MAC: strings.ToLower(p.MAC.Address)}
	if element == "disk" && g.Bus == tagging.Xen && p.Target.Dev != "" {
		g.Path = "/dev/" + p.Target.Dev // Xen's paravirtual disks keep their names
	}
	if len(p.Addresses) == 0 {
		return g, nil
	}
	a := p.Addresses[0]
	var err error
	switch {
	case a.Type == "unassigned":
		return nil, nil
	case a.Type == tagging.PCI:
		g.Bus = tagging.PCI
		g.Address, err = a.pci()
	case a.Type == tagging.USB:
		g.Bus = tagging.USB
		if !strings.Contains(a.Port, ".") { // a port behind a hub has no form in the document
			g.Address, err = numbers(field{"bus", a.Bus}, field{"port", a.Port})
		}
	case a.Type == "drive" && g.Bus == tagging.SCSI:
		g.Address, err = numbers(field{"controller", a.Controller}, field{"bus", a.Bus}, field{"target", a.Target},
			field{"unit", a.Unit})
	case a.Type == "drive" && g.Bus == tagging.IDE:
		g.Address, err = numbers(field{"bus", a.Bus}, field{"unit", a.Unit})
	}
	if err != nil {
		return nil, fmt.Errorf("its address in the guest: %w", err)
	}
	return g, nil
}

// busOf is the guest's bus as far as it is known without an address. The document has no word
// for libvirt's other buses (sata, ccw).
func (p passedXML) busOf(element string) string {
	if element != "disk" {
		return tagging.PCI
	}
	switch p.Target.Bus {
	case tagging.SCSI, tagging.IDE, tagging.USB, tagging.Xen:
		return p.Target.Bus
	}
	return tagging.None
}

// pci is a PCI address in the form 0000:00:05.0. libvirt leaves out a domain or function 0.
func (a addressXML) pci() (string, error) {
	var n [4]uint64
	for i, f := range []field{{"domain", cmp.Or(a.Domain, "0")}, {"bus", a.Bus}, {"slot", a.Slot},
		{"function", cmp.Or(a.Function, "0")}} {
		var err error
		if n[i], err = f.number(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", n[0], n[1], n[2], n[3]), nil
}

// field is one attribute of an address.
type field struct{ name, text string }

// numbers joins numbers as Linux shows them: decimal, parted by colons.
func numbers(fields ...field) (string, error) {
	var parts []string
	for _, f := range fields {
		n, err := f.number()
		if err != nil {
			return "", err
		}
		parts = append(parts, strconv.FormatUint(n, 10))
	}
	return strings.Join(parts, ":"), nil
}

// number reads a number as libvirt writes it, 0x1f or 31.
func (f field) number() (uint64, error) {
	n, err := strconv.ParseUint(f.text, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("%s %q is not a number", f.name, f.text)
	}
	return n, nil
}
