package nvmesim

// The statuses of a sanitize: SSTAT bits 2:0.
const (
	sanitizeDone    = 1
	sanitizeRunning = 2
	sanitizeFailed  = 3
)

// The actions of a sanitize: dword 10 bits 2:0.
const (
	exitFailure      = 1
	blockErase       = 2
	overwrite        = 3
	cryptoErase      = 4
	exitVerification = 5
)

// allowUnrestricted is a bit of dword 10.
const allowUnrestricted = 1 << 3

func (s *slot) sanitizing() bool {
	return s.Controller.Sanitize.Status == sanitizeRunning || s.Controller.Sanitize.Verifying
}

// failed reports whether the drive is in the failure state.
func (s *slot) failed() bool {
	return s.Controller.Sanitize.Status == sanitizeFailed && !s.Controller.Sanitize.FailureLeft
}

// sanitize starts a sanitize, or leaves the state after one.
func (w *state) sanitize(s *slot, c *call) error {
	now := &s.Controller.Sanitize
	action := c.CDW[0] & 7
	bit := map[uint32]uint32{cryptoErase: 1 << 0, blockErase: 1 << 1, overwrite: 1 << 2}[action]
	switch {
	case s.Controller.SANICAP == 0:
		return c.refuse(InvalidOpcode)
	case action == exitVerification && now.Verifying:
		now.Verifying = false
		return w.finishSanitize(s)
	case s.sanitizing():
		return c.refuse(SanitizeInProgress)
	case action == exitFailure:
		if s.failed() && now.CDW10&allowUnrestricted == 0 {
			return c.refuse(SanitizeFailed)
		}
		now.FailureLeft = true
		return nil
	case s.Controller.SANICAP&bit == 0:
		return c.refuse(InvalidField)
	case s.protected():
		return c.refuse(WriteProtected)
	case s.Controller.Slots.AFI>>4&7 != 0:
		return c.refuse(NeedsReset)
	}
	now.Status, now.CDW10, now.GlobalErased = sanitizeRunning, c.CDW[0], false
	now.FailureLeft = false
	s.Polls = 0
	return nil
}

func (s *slot) protected() bool {
	for _, n := range s.Controller.Namespaces {
		if n.WriteProtected {
			return true
		}
	}
	return false
}

// advanceSanitize is one step, at each read of the log.
func (w *state) advanceSanitize(s *slot) error {
	now := &s.Controller.Sanitize
	if now.Status != sanitizeRunning || now.Verifying {
		if now.GlobalErased {
			return w.detectWrites(s)
		}
		return nil
	}
	s.Polls++
	switch {
	case s.stalled() || s.Polls <= now.Polls:
		return nil
	case now.FailIt:
		now.Status = sanitizeFailed
		return nil
	}
	if err := w.erase(s, now.Leaves); err != nil {
		return err
	}
	return w.finishSanitize(s)
}

// finishSanitize is the end of a successful sanitize.
func (w *state) finishSanitize(s *slot) error {
	now := &s.Controller.Sanitize
	now.Status, now.GlobalErased = sanitizeDone, true
	return w.recordMediaTime(s)
}

// progress is in 65,536ths, without a stall.
func (s *slot) progress() uint16 {
	return uint16(min(65535, 65536*s.Polls/(s.Controller.Sanitize.Polls+1)))
}

func (s *slot) stalled() bool {
	at := s.Controller.Sanitize.StallAt
	return at != 0 && s.progress() >= at
}

// sanitizeLog is the Sanitize Status log page.
func (s *slot) sanitizeLog() page {
	now := s.Controller.Sanitize
	p := make(page, 512)
	sprog, status := uint16(65535), uint16(now.Status)
	if now.Status == sanitizeRunning && !now.Verifying {
		sprog = s.progress()
		if s.stalled() {
			sprog = now.StallAt
		}
	}
	if now.GlobalErased {
		status |= 1 << 8
	}
	p.u16(0, sprog)
	p.u16(2, status)
	p.u32(4, now.CDW10)
	// The estimates of overwrite, block erase and crypto erase; the first is unknown.
	for i, seconds := range []uint32{0xffffffff, 40, 2} {
		p.u32(8+4*i, seconds)
		p.u32(20+4*i, seconds)
	}
	if now.Verifying {
		p[36] = 5
	}
	return p
}
