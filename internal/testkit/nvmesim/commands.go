package nvmesim

import (
	"encoding/binary"
	"errors"
	"slices"
)

// do carries a command out.
func (w *state) dispatch(s *slot, c *call) error {
	if c.Status = s.allowed(c); c.Status != Success {
		return nil
	}
	switch c.Opcode {
	case Reset, SubsystemReset:
		s.reset()
		return w.rescan(s)
	case Rescan:
		return w.rescan(s)
	case Identify:
		return w.identify(s, c)
	case GetLog:
		return w.log(s, c)
	case SetFeatures:
		return s.setFeature(c)
	case GetFeatures:
		return s.getFeature(c)
	case ManageNamespace:
		return w.manage(s, c)
	case AttachNamespace:
		return w.attachOrDetach(s, c)
	case CommitFirmware:
		return s.commitFirmware(c)
	case DownloadFirmware:
		return s.downloadFirmware(c)
	case SanitizeDrive:
		return w.sanitize(s, c)
	case ReceiveSecurity:
		return s.securityReceive(c)
	case SendSecurity:
		s.securitySend(c)
		return nil
	}
	c.Status = InvalidOpcode
	return nil
}

// allowed refuses what a sanitize, at work or failed, keeps from being done.
func (s *slot) allowed(c *call) Status {
	refusal := Success
	switch {
	case s.sanitizing():
		refusal = SanitizeInProgress
	case s.failed():
		refusal = SanitizeFailed
	}
	switch c.Opcode {
	case Reset, SubsystemReset, Rescan, Identify, SetFeatures, GetFeatures, SanitizeDrive:
		return Success
	case GetLog:
		if c.CDW[0]&0xff != logFirmware {
			return Success
		}
	}
	return refusal
}

// reset is a controller level reset: what was staged runs, and features are as saved.
// A sanitize goes on.
func (s *slot) reset() {
	f := &s.Controller.Slots
	if next := f.AFI >> 4 & 7; next != 0 {
		f.AFI = next
		s.Controller.Firmware = f.Revisions[next-1]
	}
	for id, feature := range s.Controller.Features {
		feature.Current = feature.Saved
		if feature.NotSaveable {
			feature.Current = feature.Default
		}
		s.Controller.Features[id] = feature
	}
}

// manage is namespace management: it creates and deletes.
func (w *state) manage(s *slot, c *call) error {
	if s.Controller.OACS&(1<<3) == 0 {
		c.Status = InvalidOpcode
		return nil
	}
	switch c.CDW[0] & 0xf {
	case 0:
		return s.createNamespace(c)
	case 1:
		return w.deleteNamespace(s, c)
	}
	c.Status = InvalidField
	return nil
}

// create gives a namespace the lowest extent that is free. The bytes that lie there
// are whatever was there before.
func (s *slot) createNamespace(c *call) error {
	data, err := c.readData()
	if err != nil {
		return err
	}
	if len(data) < 384 {
		c.Status = InvalidField
		return nil
	}
	n := Namespace{Blocks: binary.LittleEndian.Uint64(data), Format: int(data[26] & 0xf), CSI: uint8(c.CDW[1] >> 24)}
	for n.NSID = 1; s.namespace(n.NSID) != nil; {
		n.NSID++
	}
	switch {
	case n.Format >= len(s.Controller.Formats):
		c.Status = InvalidFormat
		return nil
	case n.Blocks == 0 || binary.LittleEndian.Uint64(data[8:]) > n.Blocks:
		c.Status = InvalidField
		return nil
	case n.NSID > s.Controller.NN:
		c.Status = NoNamespaceNumber
		return nil
	case n.Blocks > s.Size/s.blockSize(&n):
		c.Status = NoCapacity
		return nil
	}
	n.Offset = s.freeExtent(s.bytes(&n), s.Controller.Namespaces)
	if n.Offset+s.bytes(&n) > s.Size {
		c.Status = NoCapacity
		return nil
	}
	s.Controller.Namespaces = append(s.Controller.Namespaces, n)
	return c.setResult(n.NSID)
}

// remove deletes a namespace, or all; their bytes stay on the media.
func (w *state) deleteNamespace(s *slot, c *call) error {
	all := s.Controller.Namespaces
	switch {
	case c.NSID == everyNamespace:
		s.Controller.Namespaces = nil
	case s.namespace(c.NSID) == nil:
		c.Status = InvalidNamespace
		return nil
	default:
		s.Controller.Namespaces = slices.DeleteFunc(all, func(n Namespace) bool { return n.NSID == c.NSID })
	}
	return w.showNamespaces(s)
}

// follow makes the host see the namespaces, if it does so by itself. What the
// controller did is kept first, as it is by one whose host dies.
func (w *state) showNamespaces(s *slot) error {
	if s.Controller.NodesOnRescan {
		return nil
	}
	return errors.Join(w.save(), w.scan(s))
}

func (w *state) attachOrDetach(s *slot, c *call) error {
	if s.Controller.OACS&(1<<3) == 0 {
		c.Status = InvalidOpcode
		return nil
	}
	data, err := c.readData()
	if err != nil {
		return err
	}
	n := s.namespace(c.NSID)
	if n == nil {
		c.Status = InvalidNamespace
		return nil
	}
	ids := parseControllerList(data)
	known := w.controllers(s)
	if len(ids) == 0 || slices.ContainsFunc(ids, func(id uint16) bool { return !slices.Contains(known, id) }) {
		c.Status = InvalidControllers
		return nil
	}
	attach := c.CDW[0]&0xf == 0
	if !slices.Contains(ids, s.Controller.CNTLID) {
		return nil // Another host's.
	}
	switch {
	case attach && n.Attached:
		c.Status = AlreadyAttached
	case !attach && !n.Attached:
		c.Status = NotAttached
	default:
		n.Attached = attach
		return w.showNamespaces(s)
	}
	return nil
}

// idsIn reads a controller list.
func parseControllerList(data []byte) []uint16 {
	if len(data) < 2 {
		return nil
	}
	var ids []uint16
	count := int(binary.LittleEndian.Uint16(data))
	for i := 1; i <= count && 2*i+2 <= len(data); i++ {
		ids = append(ids, binary.LittleEndian.Uint16(data[2*i:]))
	}
	return ids
}

// featureWriteProtect is a feature of a namespace: whether it is write protected.
const featureWriteProtect = 0x84

func (s *slot) getFeature(c *call) error {
	id, which := uint8(c.CDW[0]), c.CDW[0]>>8&7
	if isMetadata(id) {
		return s.metadata(c, id)
	}
	var value Feature
	if id == featureWriteProtect {
		n := s.namespace(c.NSID)
		if n == nil {
			c.Status = InvalidNamespace
			return nil
		}
		if n.WriteProtected {
			value.Current, value.Saved = 1, 1
		}
	} else {
		var ok bool
		if value, ok = s.Controller.Features[id]; !ok {
			c.Status = InvalidField
			return nil
		}
	}
	var fill error
	if c.dataLength > 0 {
		fill = c.writeData(nil)
	}
	switch which {
	case 0:
		return errors.Join(fill, c.setResult(value.Current))
	case 1:
		return errors.Join(fill, c.setResult(value.Default))
	case 2:
		return errors.Join(fill, c.setResult(value.Saved))
	case 3:
		// Bit 0 saveable, bit 2 changeable.
		can := uint32(5)
		if value.NotSaveable {
			can = 4
		}
		return errors.Join(fill, c.setResult(can))
	}
	c.Status = InvalidField
	return nil
}

func (s *slot) setFeature(c *call) error {
	id, save := uint8(c.CDW[0]), c.CDW[0]&(1<<31) != 0
	if isMetadata(id) {
		return s.setMetadata(c, id)
	}
	if id == featureWriteProtect {
		n := s.namespace(c.NSID)
		if n == nil {
			c.Status = InvalidNamespace
			return nil
		}
		if !n.Attached {
			c.Status = InvalidField
			return nil
		}
		n.WriteProtected = c.CDW[1]&7 != 0
		return nil
	}
	value, ok := s.Controller.Features[id]
	switch {
	case !ok:
		c.Status = InvalidField
		return nil
	case save && value.NotSaveable:
		c.Status = FeatureNotSaveable
		return nil
	case save:
		value.Saved = c.CDW[1]
	}
	value.Current = c.CDW[1]
	s.Controller.Features[id] = value
	return c.setResult(0)
}

// download keeps the image's beginning: its first eight bytes are its revision.
func (s *slot) downloadFirmware(c *call) error {
	if s.Controller.OACS&(1<<2) == 0 {
		c.Status = InvalidOpcode
		return nil
	}
	data, err := c.readData()
	if err == nil && c.CDW[1] == 0 {
		s.Image = slices.Clone(data[:min(8, len(data))])
	}
	return err
}

// commit stores the downloaded image, or runs a slot, as its action says.
func (s *slot) commitFirmware(c *call) error {
	f := &s.Controller.Slots
	place, action := uint8(c.CDW[0]&7), c.CDW[0]>>3&7
	switch {
	case s.Controller.OACS&(1<<2) == 0:
		c.Status = InvalidOpcode
		return nil
	case action > 3:
		c.Status = InvalidField
		return nil
	case action < 2 && len(s.Image) == 0:
		c.Status = InvalidImage
		return nil
	}
	if place == 0 {
		place = 1
	}
	if action < 2 || action == 3 && len(s.Image) > 0 {
		f.Revisions[place-1] = string(s.Image)
		s.Image = nil
	}
	if f.Revisions[place-1] == "" {
		c.Status = InvalidSlot
		return nil
	}
	switch action {
	case 1, 2:
		f.AFI = f.AFI&7 | place<<4
		c.Status = f.CommitStatus
	case 3:
		f.AFI = place
		s.Controller.Firmware = f.Revisions[place-1]
	}
	return nil
}

// receive is what security protocols 0 and 1 tell.
func (s *slot) securityReceive(c *call) error {
	opal := s.Controller.Opal
	protocol, specific := c.CDW[0]>>24, c.CDW[0]>>8&0xffff
	switch {
	case s.Controller.OACS&1 == 0:
		c.Status = InvalidOpcode
	case protocol == 0 && specific == 0:
		list := []byte{0, 0, 0, 0, 0, 0, 0, 1, 0}
		if opal.Supported {
			list = []byte{0, 0, 0, 0, 0, 0, 0, 3, 0, 1, 2}
		}
		return c.writeData(list)
	case protocol == 1 && specific == 1 && opal.Supported:
		return c.writeData(opal.discovery())
	default:
		c.Status = InvalidField
	}
	return nil
}

func (s *slot) securitySend(c *call) {
	switch {
	case s.Controller.OACS&1 == 0:
		c.Status = InvalidOpcode
	case !s.Controller.Opal.Supported:
		c.Status = InvalidField
	}
}

// discovery is the answer to a TCG level 0 discovery: a header, and the features TPer,
// locking and Opal 2.
func (o Opal) discovery() []byte {
	big := binary.BigEndian
	answer := make([]byte, 48)
	answer[7] = 1 // version 0.1
	add := func(code uint16, data ...byte) {
		answer = big.AppendUint16(answer, code)
		answer = append(answer, 1<<4, byte(len(data)))
		answer = append(answer, data...)
	}
	locking := byte(1<<0 | 1<<3) // supported, and the media is encrypted
	for bit, set := range map[int]bool{1: o.Enabled, 2: o.Locked, 4: o.MBREnabled} {
		if set {
			locking |= 1 << bit
		}
	}
	add(0x0001, append([]byte{0x11}, make([]byte, 11)...)...)
	add(0x0002, append([]byte{locking}, make([]byte, 11)...)...)
	add(0x0203, append([]byte{0x10, 0x00, 0x00, 0x01}, make([]byte, 12)...)...)
	big.PutUint32(answer, uint32(len(answer)-4))
	return answer
}
