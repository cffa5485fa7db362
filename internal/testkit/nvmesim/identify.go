package nvmesim

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// everyNamespace is the NSID that means all namespaces.
const everyNamespace = 0xffffffff

// page is a data structure that a controller returns.
type page []byte

func (p page) u16(at int, v uint16) { binary.LittleEndian.PutUint16(p[at:], v) }
func (p page) u32(at int, v uint32) { binary.LittleEndian.PutUint32(p[at:], v) }
func (p page) u64(at int, v uint64) { binary.LittleEndian.PutUint64(p[at:], v) }

// text fills a field with text and spaces.
func (p page) text(at, size int, text string) {
	for i := range size {
		p[at+i] = ' '
	}
	copy(p[at:at+size], text)
}

// identify is the command Identify, by CNS value.
func (w *state) identify(s *slot, c *call) error {
	const highest = everyNamespace - 2
	listed := func(which func(Namespace) bool) error {
		if c.NSID > highest {
			return c.refuse(InvalidNamespace)
		}
		return c.writeData(s.namespaceList(c.NSID, which))
	}
	from := uint16(c.CDW[0] >> 16)
	switch c.CDW[0] & 0xff {
	case 0x00:
		return s.identifyNamespace(c, true)
	case 0x01:
		return c.writeData(s.controllerData())
	case 0x02:
		return listed(func(n Namespace) bool { return n.Attached })
	case 0x03:
		n := s.namespace(c.NSID)
		if n == nil || !n.Attached {
			return c.refuse(InvalidNamespace)
		}
		return c.writeData(s.descriptors(n))
	case 0x10, 0x11, 0x12, 0x13:
		if s.Controller.OACS&(1<<3) == 0 {
			break
		}
		switch c.CDW[0] & 0xff {
		case 0x10:
			return listed(func(Namespace) bool { return true })
		case 0x11:
			return s.identifyNamespace(c, false)
		case 0x12:
			n := s.namespace(c.NSID)
			if n == nil {
				return c.refuse(InvalidNamespace)
			}
			var ids []uint16
			if n.Attached {
				ids = []uint16{s.Controller.CNTLID}
			}
			return c.writeData(controllerList(ids, from))
		}
		return c.writeData(controllerList(w.controllers(s), from))
	}
	return c.refuse(InvalidField)
}

// namespaceList is a list of the namespaces above a number.
func (s *slot) namespaceList(above uint32, which func(Namespace) bool) page {
	var ids []uint32
	for _, n := range s.Controller.Namespaces {
		if n.NSID > above && which(n) {
			ids = append(ids, n.NSID)
		}
	}
	slices.Sort(ids)
	p := make(page, 4096)
	for i, id := range ids[:min(len(ids), 1024)] {
		p.u32(4*i, id)
	}
	return p
}

// controllers are the numbers of all controllers of the subsystem.
func (w *state) controllers(s *slot) []uint16 {
	ids := append([]uint16{s.Controller.CNTLID}, s.Controller.Others...)
	for _, other := range w.subsystem(s) {
		ids = append(ids, other.Controller.CNTLID)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func controllerList(ids []uint16, from uint16) page {
	p := make(page, 4096)
	var count uint16
	for _, id := range ids {
		if id >= from {
			count++
			p.u16(2*int(count), id)
		}
	}
	p.u16(0, count)
	return p
}

func (s *slot) controllerData() page {
	c := s.Controller
	p := make(page, 4096)
	p.u16(0, c.VendorID)
	p.u16(2, c.VendorID)
	p.text(4, 20, c.Serial)
	p.text(24, 40, c.Model)
	p.text(64, 8, c.Firmware)
	p[76] = c.CMIC
	p[77] = 5 // MDTS: 128 KiB
	p.u16(78, c.CNTLID)
	p.u32(80, 0x00010400)
	p[111] = 1 // an I/O controller
	p.u16(256, c.OACS)
	p[260] = c.FRMW
	p[261] = 0xe // log page attributes
	p.u16(266, 343)
	p.u16(268, 353)
	p.u64(280, c.Capacity)
	p[319] = c.FWUG
	p.u64(296, s.unallocated())
	p.u32(328, c.SANICAP)
	p[512], p[513] = 0x66, 0x44
	p.u32(516, c.NN)
	p.u16(520, c.ONCS)
	p[524] = c.FNA
	p[525] = 7 // a volatile write cache
	copy(p[768:1023], c.SubsystemNQN)
	p.u16(2048, 2500) // power state 0: 25 W
	return p
}

// identifyNamespace describes an active or an allocated namespace. Any other one is zeros.
func (s *slot) identifyNamespace(c *call, active bool) error {
	manages := s.Controller.OACS&(1<<3) != 0
	if c.NSID == 0 || c.NSID > s.Controller.NN && (c.NSID != everyNamespace || !manages) {
		return c.refuse(InvalidNamespace)
	}
	p := make(page, 4096)
	n := s.namespace(c.NSID)
	if c.NSID != everyNamespace && (n == nil || active && !n.Attached) {
		return c.writeData(p)
	}
	p[25] = uint8(len(s.Controller.Formats) - 1)
	p[27] = 2 // MC: metadata may be separate
	p[33] = 1 // DLFEAT: what is deallocated reads as zeros
	for i, format := range s.Controller.Formats {
		p.u16(128+4*i, format.Metadata)
		p[130+4*i] = uint8(bits.Len(uint(format.BlockSize)) - 1)
	}
	if n == nil {
		return c.writeData(p)
	}
	p.u64(0, n.Blocks)
	p.u64(8, n.Blocks)
	p.u64(16, n.Blocks)
	p[26] = uint8(n.Format)
	if s.Controller.CMIC&2 != 0 {
		p[30] = 1
	}
	p.u64(48, s.bytes(n))
	if n.WriteProtected {
		p[99] = 1
	}
	copy(p[104:120], s.nguid(n))
	return c.writeData(p)
}

// nguid is derived from the drive's serial number.
func (s *slot) nguid(n *Namespace) []byte {
	id := make([]byte, 16)
	for i, b := range []byte(s.Controller.Serial) {
		id[i%12] ^= b
	}
	binary.BigEndian.PutUint32(id[12:], n.NSID)
	return id
}

// descriptors are the namespace's identification descriptors: NGUID and command set.
func (s *slot) descriptors(n *Namespace) page {
	p := append(page{2, 16, 0, 0}, s.nguid(n)...)
	return append(p, 4, 1, 0, 0, n.CSI)
}

// The log pages.
const (
	logErrors   = 0x01
	logHealth   = 0x02
	logFirmware = 0x03
	logEffects  = 0x05
	logSanitize = 0x81
)

// log is the command Get Log Page.
func (w *state) log(s *slot, c *call) error {
	var p page
	switch c.CDW[0] & 0xff {
	case logErrors:
		p = make(page, 64)
	case logHealth:
		p = s.health()
	case logFirmware:
		p = s.firmware()
	case logEffects:
		p = make(page, 4096)
	case logSanitize:
		if s.Controller.SANICAP == 0 {
			return c.refuse(InvalidLogPage)
		}
		if err := w.advanceSanitize(s); err != nil {
			return err
		}
		p = s.sanitizeLog()
	default:
		return c.refuse(InvalidLogPage)
	}
	offset := uint64(c.CDW[2]) | uint64(c.CDW[3])<<32
	return c.writeData(p[min(offset, uint64(len(p))):])
}

func (s *slot) health() page {
	h := s.Controller.Health
	p := make(page, 512)
	p[0] = h.CriticalWarning
	p.u16(1, 310)
	p[3], p[4], p[5] = h.Spare, h.SpareThreshold, h.PercentUsed
	p.u64(128, h.PowerOnHours)
	return p
}

func (s *slot) firmware() page {
	p := make(page, 512)
	if p[0] = s.Controller.Slots.AFI; s.Controller.Update.HidesNext {
		p[0] &= 7
	}
	for i, revision := range s.Controller.Slots.Revisions {
		if revision != "" {
			p.text(8+8*i, 8, revision)
		}
	}
	return p
}
