package udev

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Types of devices that are found otherwise than as a PCI or USB device.
const (
	typeDisk = "disk"
	typeNIC  = "nic"
)

// pattern is what a rule's match is compared with, as it stands between the quotes.
type pattern string

// match is one condition of a rule.
type match struct {
	key, operator string
	value         pattern
}

func (m match) String() string { return fmt.Sprintf(`%s%s"%s"`, m.key, m.operator, m.value) }

func is(key string, value pattern) match    { return match{key, "==", value} }
func isNot(key string, value pattern) match { return match{key, "!=", value} }

// literal is the pattern that only text itself matches. There is none for text that udev's
// syntax cannot hold in every place: quotes, backslashes, | and what is not printable ASCII.
func literal(text string) (pattern, bool) {
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~' || strings.IndexByte(`"\|`, c) >= 0:
			return "", false
		case strings.IndexByte(`*?[`, c) >= 0:
			b.WriteString("[" + string(c) + "]")
		default:
			b.WriteByte(c)
		}
	}
	return pattern(b.String()), text != ""
}

// identity is what a device has of its own: a disk's serial, a card's MAC. key is one of it for
// comparison, and short the part that a virtio disk shows, where that is less. lines are the
// ways to see it; each is enough.
type identity struct {
	key, short string
	lines      [][]match
	shortLine  []match
}

// virtioSerial is how much of a serial a virtio disk shows, and nvmeSerial the width of an NVMe
// controller's, which is filled up with blanks, mostly behind it.
const (
	virtioSerial = 20
	nvmeSerial   = 20
)

func (e entry) identity() (identity, bool) {
	switch e.Type {
	case typeDisk:
		return serialIdentity(e.Serial)
	case typeNIC:
		return macIdentity(e.MAC)
	}
	return identity{}, false
}

func serialIdentity(serial string) (identity, bool) {
	serial = strings.Trim(serial, " ")
	value, ok := literal(serial)
	if !ok {
		return identity{}, false
	}
	attribute := value
	if len(serial) < nvmeSerial {
		attribute += "|" + pattern(strings.Repeat(" ", nvmeSerial-len(serial))) + value
	}
	id := identity{key: serial, short: serial, lines: [][]match{
		{is("SUBSYSTEMS", "block|nvme|nvme-subsystem|scsi|mmc"), is("ATTRS{serial}", attribute)},
	}}
	// udev writes blanks in these as _.
	if !strings.Contains(serial, " ") {
		id.lines = append(id.lines, []match{is("ENV{ID_SERIAL_SHORT}", value)}, []match{is("ENV{ID_SCSI_SERIAL}", value)})
	}
	if len(serial) > virtioSerial {
		id.short = strings.TrimRight(serial[:virtioSerial], " ")
		if start, ok := literal(id.short); ok {
			id.shortLine = []match{is("KERNEL", "vd*"), is("ATTR{serial}", start)}
		}
	}
	return id, true
}

var macForm = regexp.MustCompile(`^[0-9a-f]{2}([:-][0-9a-f]{2}){5}$`)

func macIdentity(mac string) (identity, bool) {
	mac = strings.ToLower(mac)
	if !macForm.MatchString(mac) {
		return identity{}, false
	}
	mac = strings.ReplaceAll(mac, "-", ":")
	// A card in a bond has the MAC of another one.
	return identity{key: mac, short: mac,
		lines: [][]match{{is("ATTR{address}", pattern(mac)), isNot("ENV{"+envMACSet+"}", "1")}}}, true
}

// place is where the document says that the guest finds a device.
type place struct {
	key     string
	matches []match
}

var (
	pciForm = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$`)
	// The document's numbers are hexadecimal and the kernel's decimal, and documents exist that
	// mix them up: only one digit is sure to be the same number.
	usbForm  = regexp.MustCompile(`^[0-9]:[0-9]$`)
	scsiForm = regexp.MustCompile(`^[0-9](:[0-9]){3}$`)
	ideForm  = regexp.MustCompile(`^[01]:[01]$`)
	xenForm  = regexp.MustCompile(`^[0-9]{1,20}$`)
)

// place is false where the address is not known, or has another form than its bus's.
func (e entry) place() (place, bool) {
	address := strings.ToLower(e.Address)
	key := e.Bus + " " + address
	whole := e.Type != typeDisk && e.Type != typeNIC // the device on the bus itself is meant
	switch {
	case e.Bus == "pci" && pciForm.MatchString(address):
		if whole {
			return place{key, []match{is("SUBSYSTEM", "pci"), is("KERNEL", pattern(address))}}, true
		}
		// Not what is behind a bridge that has this address.
		below := pattern("*/" + address + "/")
		return place{key, []match{is("DEVPATH", below+"*"), isNot("DEVPATH", below+"????:??:??.?/*|"+below+"pci*")}}, true
	case e.Bus == "usb" && usbForm.MatchString(address):
		port := pattern(strings.ReplaceAll(address, ":", "-"))
		if whole {
			return place{key, []match{is("SUBSYSTEM", "usb"), is("KERNEL", port)}}, true
		}
		return place{key, []match{is("DEVPATH", "*/"+port+"/"+port+":*")}}, true
	case e.Bus == "scsi" && e.Type == typeDisk && scsiForm.MatchString(address):
		return place{key, []match{is("DEVPATH", pattern("*/"+address+"/block/*"))}}, true
	case e.Bus == "ide" && e.Type == typeDisk && ideForm.MatchString(address):
		channel := int(address[0]-'0') + 1
		return place{key,
			[]match{is("DEVPATH", pattern("*/ata"+strconv.Itoa(channel)+"/host*/target*:0:"+address[2:]+"/*"))}}, true
	case e.Bus == "xen" && e.Type == typeDisk && xenForm.MatchString(address):
		return place{key, []match{is("DEVPATH", pattern("*/vbd-"+address+"/block/*"))}}, true
	case e.Bus == "xen" && e.Type == typeNIC && xenForm.MatchString(address):
		return place{key, []match{is("DEVPATH", pattern("*/vif-"+address+"/net/*"))}}, true
	}
	return place{}, false
}

var (
	pathForm    = regexp.MustCompile(`^/dev/[A-Za-z0-9]{1,30}$`)
	devnameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$`)
)

// name is the kernel's name of a device that has a fixed one.
func (e entry) name() (place, bool) {
	name := ""
	if e.Type == typeDisk && pathForm.MatchString(e.Path) {
		name = strings.TrimPrefix(e.Path, "/dev/")
	} else if e.Type == typeNIC && devnameForm.MatchString(e.Devname) {
		name = e.Devname
	}
	if name == "" {
		return place{}, false
	}
	return place{"name " + name, []match{is("KERNEL", pattern(name))}}, true
}
