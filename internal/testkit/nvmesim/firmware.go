package nvmesim

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// imageMagic begins an image that an emulated drive accepts. The revision follows it.
const imageMagic = "EMULATED IMAGE: "

// Image is a firmware image of this revision and size, a multiple of 4, that an emulated
// drive accepts.
func Image(revision string, size int) []byte {
	image := make([]byte, size)
	for i := range image {
		image[i] = byte(i>>12 + i)
	}
	copy(image, imageMagic)
	page(image).text(len(imageMagic), 8, revision)
	return image
}

// imageRevision is the revision of an image, or "" if it is none.
func imageRevision(image []byte) string {
	if len(image) < len(imageMagic)+8 || string(image[:len(imageMagic)]) != imageMagic {
		return ""
	}
	revision := image[len(imageMagic) : len(imageMagic)+8]
	for len(revision) > 0 && revision[len(revision)-1] == ' ' {
		revision = revision[:len(revision)-1]
	}
	return string(revision)
}

// Activation says what makes a committed image run.
type Activation string

// The activations. A subsystem reset is a reset of the controller too.
const (
	ByReset          Activation = ""
	BySubsystemReset Activation = "subsystem"
	ByPowerCycle     Activation = "power"
	AtOnce           Activation = "now"
)

// Update is how the drive's firmware updates behave.
type Update struct {
	// Answer is the status of a commit that succeeds.
	Answer Status
	By     Activation
	// Downloaded is what was downloaded since the last commit or reset.
	Downloaded []byte
	// HidesNext: the drive does not say which slot the next reset activates.
	HidesNext bool
	// Committed is the SHA-256 of the last image that was committed, in hexadecimal digits.
	Committed string
}

// download is the command Firmware Image Download. What begins at offset 0 begins again. A
// gap reads as zeros.
func (s *slot) download(c *call) error {
	if s.Controller.OACS&(1<<2) == 0 {
		return c.refuse(InvalidOpcode)
	}
	data, err := c.readData()
	if err != nil {
		return err
	}
	have, offset := s.Controller.Update.Downloaded, int(c.CDW[1])*4
	switch {
	case len(data) != (int(c.CDW[0])+1)*4 || offset > maxData:
		return c.refuse(InvalidField)
	case offset == 0:
		have = nil
	case offset < len(have):
		return c.refuse(OverlappingRange)
	}
	s.Controller.Update.Downloaded = slices.Concat(have, make([]byte, offset-len(have)), data)
	return nil
}

// commit is the command Firmware Commit, with the actions 0 to 3.
func (s *slot) commit(c *call) error {
	if s.Controller.OACS&(1<<2) == 0 {
		return c.refuse(InvalidOpcode)
	}
	into, action := uint8(c.CDW[0]&7), c.CDW[0]>>3&7
	f := &s.Controller.Slots
	if into == 0 {
		for into = 1; !s.writableSlot(into) || into == f.AFI&7; into++ {
			if into > 7 {
				return c.refuse(InvalidFirmwareSlot)
			}
		}
	}
	image := s.Controller.Update.Downloaded
	replaces := action <= 1 || action == 3 && image != nil
	switch {
	case action > 3:
		return c.refuse(InvalidField)
	case into > s.firmwareSlots(), replaces && !s.writableSlot(into):
		return c.refuse(InvalidFirmwareSlot)
	case replaces && imageRevision(image) == "", !replaces && f.Revisions[into-1] == "":
		s.Controller.Update.Downloaded = nil
		return c.refuse(InvalidFirmwareImage)
	}
	if replaces {
		f.Revisions[into-1] = imageRevision(image)
		s.Controller.Update.Committed = fmt.Sprintf("%x", sha256.Sum256(image))
		s.Controller.Update.Downloaded = nil
	}
	if action == 0 {
		return nil
	}
	if f.AFI = f.AFI&7 | into<<4; s.Controller.Update.By == AtOnce {
		s.activate()
	}
	return c.refuse(s.Controller.Update.Answer)
}

// firmwareSlots is how many slots the drive has.
func (s *slot) firmwareSlots() uint8 { return s.Controller.FRMW >> 1 & 7 }

// writableSlot reports whether an image may be put into a slot.
func (s *slot) writableSlot(number uint8) bool {
	readOnly := s.Controller.FRMW&1 != 0
	return number <= s.firmwareSlots() && (number > 1 || !readOnly)
}

// activate makes the staged image run.
func (s *slot) activate() {
	f := &s.Controller.Slots
	if next := f.AFI >> 4 & 7; next != 0 {
		f.AFI = next
		s.Controller.Firmware = f.Revisions[next-1]
	}
}

// PowerCycle turns the drive in slot i off and on.
func (s *Host) PowerCycle(i int) {
	s.t.Helper()
	s.change(i, func(w *state, one *slot) error {
		one.activate()
		one.reset(ByPowerCycle)
		return w.rescan(one)
	})
}
