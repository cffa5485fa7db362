package nvmesim

import (
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// dispatch runs a command.
func (w *state) dispatch(s *slot, c *call) error {
	if c.Status = s.allowed(c); c.Status != Success {
		return nil
	}
	switch c.Opcode {
	case Reset:
		s.reset(ByReset)
		return w.rescan(s)
	case SubsystemReset:
		if !s.Controller.SubsystemResets {
			c.Errno = int(unix.ENOTTY)
			return nil
		}
		s.reset(BySubsystemReset)
		return w.rescan(s)
	case DownloadFirmware:
		return s.download(c)
	case CommitFirmware:
		return s.commit(c)
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
	case SanitizeDrive:
		return w.sanitize(s, c)
	case ReceiveSecurity:
		return s.securityReceive(c)
	}
	return c.refuse(InvalidOpcode)
}

// allowed refuses commands that are not permitted during a sanitize or after a failed one.
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
		if c.CDW[0]&0xff != logFirmware || refusal == SanitizeInProgress && s.Controller.Sanitize.AnswersLogs {
			return Success
		}
	}
	return refusal
}

// reset is a controller level reset: staged firmware is activated if this kind of reset does
// that, a download is lost, and features take their saved values. A sanitize continues.
func (s *slot) reset(kind Activation) {
	if by := s.Controller.Update.By; by == kind || by == ByReset || by == AtOnce {
		s.activate()
	}
	s.Controller.Update.Downloaded = nil
	for id, feature := range s.Controller.Features {
		feature.Current = feature.Saved
		if feature.NotSaveable {
			feature.Current = feature.Default
		}
		s.Controller.Features[id] = feature
	}
}

// manage is the command Namespace Management.
func (w *state) manage(s *slot, c *call) error {
	if s.Controller.OACS&(1<<3) == 0 {
		return c.refuse(InvalidOpcode)
	}
	switch c.CDW[0] & 0xf {
	case 0:
		return s.createNamespace(c)
	case 1:
		return w.deleteNamespace(s, c)
	}
	return c.refuse(InvalidField)
}

// createNamespace allocates the lowest free extent. It keeps the bytes that are there.
func (s *slot) createNamespace(c *call) error {
	data, err := c.readData()
	if err != nil {
		return err
	}
	if len(data) < 384 {
		return c.refuse(InvalidField)
	}
	n := Namespace{Blocks: binary.LittleEndian.Uint64(data), Format: int(data[26] & 0xf), CSI: uint8(c.CDW[1] >> 24)}
	for n.NSID = 1; s.namespace(n.NSID) != nil; {
		n.NSID++
	}
	switch {
	case n.Format >= len(s.Controller.Formats):
		return c.refuse(InvalidFormat)
	case n.Blocks == 0 || binary.LittleEndian.Uint64(data[8:]) > n.Blocks:
		return c.refuse(InvalidField)
	case n.NSID > s.Controller.NN:
		return c.refuse(NoNamespaceNumber)
	case n.Blocks > s.Size/s.blockSize(&n):
		return c.refuse(NoCapacity)
	}
	n.Offset = s.freeExtent(s.bytes(&n), s.Controller.Namespaces)
	if n.Offset+s.bytes(&n) > s.Size-s.Controller.Unallocatable {
		return c.refuse(NoCapacity)
	}
	s.Controller.Namespaces = append(s.Controller.Namespaces, n)
	return c.setResult(n.NSID)
}

// deleteNamespace deletes one namespace or all. Their bytes stay on the media.
func (w *state) deleteNamespace(s *slot, c *call) error {
	all := s.Controller.Namespaces
	switch {
	case c.NSID == everyNamespace:
		s.Controller.Namespaces = nil
	case s.namespace(c.NSID) == nil:
		return c.refuse(InvalidNamespace)
	default:
		s.Controller.Namespaces = slices.DeleteFunc(all, func(n Namespace) bool { return n.NSID == c.NSID })
	}
	return w.showNamespaces(s)
}

// showNamespaces updates sysfs and dev. The state is saved first, as on a controller whose
// host dies.
func (w *state) showNamespaces(s *slot) error {
	return errors.Join(w.save(), w.scan(s))
}

func (w *state) attachOrDetach(s *slot, c *call) error {
	if s.Controller.OACS&(1<<3) == 0 {
		return c.refuse(InvalidOpcode)
	}
	data, err := c.readData()
	if err != nil {
		return err
	}
	n := s.namespace(c.NSID)
	if n == nil {
		return c.refuse(InvalidNamespace)
	}
	ids := parseControllerList(data)
	known := w.controllers(s)
	if len(ids) == 0 || slices.ContainsFunc(ids, func(id uint16) bool { return !slices.Contains(known, id) }) {
		return c.refuse(InvalidControllers)
	}
	attach := c.CDW[0]&0xf == 0
	if !slices.Contains(ids, s.Controller.CNTLID) {
		return nil // another host's controller
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

// parseControllerList reads a controller list.
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

// featureWriteProtect is the write protection of a namespace.
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
			return c.refuse(InvalidNamespace)
		}
		if n.WriteProtected {
			value.Current, value.Saved = 1, 1
		}
	} else {
		var ok bool
		if value, ok = s.Controller.Features[id]; !ok {
			return c.refuse(InvalidField)
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
	return c.refuse(InvalidField)
}

func (s *slot) setFeature(c *call) error {
	id, save := uint8(c.CDW[0]), c.CDW[0]&(1<<31) != 0
	if isMetadata(id) {
		return s.setMetadata(c, id)
	}
	if id == featureWriteProtect {
		n := s.namespace(c.NSID)
		if n == nil {
			return c.refuse(InvalidNamespace)
		}
		if !n.Attached {
			return c.refuse(InvalidField)
		}
		n.WriteProtected = c.CDW[1]&7 != 0
		return nil
	}
	value, ok := s.Controller.Features[id]
	switch {
	case !ok:
		return c.refuse(InvalidField)
	case save && value.NotSaveable:
		return c.refuse(FeatureNotSaveable)
	case save:
		value.Saved = c.CDW[1]
	}
	value.Current = c.CDW[1]
	s.Controller.Features[id] = value
	return c.setResult(0)
}

// securityReceive answers the TCG Level 0 Discovery.
func (s *slot) securityReceive(c *call) error {
	opal := s.Controller.Opal
	protocol, specific := c.CDW[0]>>24, c.CDW[0]>>8&0xffff
	switch {
	case s.Controller.OACS&1 == 0:
		c.Status = InvalidOpcode
	case protocol == 1 && specific == 1 && opal.Supported:
		return c.writeData(opal.discovery())
	default:
		c.Status = InvalidField
	}
	return nil
}

// discovery is a TCG Level 0 Discovery: a header and the features TPer, Locking and Opal 2.
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
	for bit, set := range map[int]bool{1: o.Enabled, 2: o.Locked} {
		if set {
			locking |= 1 << bit
		}
	}
	add(0x0001, append([]byte{0x11}, make([]byte, 11)...)...)
	add(0x0002, append([]byte{locking}, make([]byte, 11)...)...)
	if o.BlockSID {
		var value byte
		if o.Owned {
			value = 1
		}
		add(0x0402, append([]byte{value}, make([]byte, 11)...)...)
	}
	add(0x0203, append([]byte{0x10, 0x00, 0x00, 0x01}, make([]byte, 12)...)...)
	big.PutUint32(answer, uint32(len(answer)-4))
	return answer
}
