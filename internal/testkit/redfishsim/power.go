package redfishsim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	powerOn     = "On"
	powerOff    = "Off"
	poweringOn  = "PoweringOn"
	poweringOff = "PoweringOff"
)

// reset carries out ComputerSystem.Reset.
func (m *Machine) reset(c *call) answer {
	kind := c.Text("ResetType")
	if !slices.Contains(m.Conf.ResetTypes, kind) {
		return failure(400, "Base.1.8.ActionParameterNotSupported", "The ResetType "+kind+" is not supported.")
	}
	s := &m.Data
	on := s.Power == powerOn || s.Power == poweringOn
	starts := kind == "On" || kind == "ForceOn"
	switch {
	case on == starts && kind != "PushPowerButton":
		return failure(m.Conf.PowerConflict, "Base.1.8.ResourceInUse", "The system is in that state already.")
	case m.Conf.IgnoreGraceful && strings.HasPrefix(kind, "Graceful"):
		return answer{Status: 204}
	}
	c.Entry.Changed = true
	m.setPower(kind, c.At)
	if m.is(ILO) {
		return message(200, "Base.1.4.Success", "Successfully completed request.")
	}
	return answer{Status: 204}
}

// setPower begins a change of power, by whomever.
func (m *Machine) setPower(kind string, at time.Time) {
	s, d := &m.Data, m.Conf.Delays
	if kind == "Nmi" {
		return
	}
	s.ResetCount++
	s.LastReset = at
	off := func(after time.Duration, then string) {
		s.Power, s.PowerNext, s.PowerDue, s.PowerThen = poweringOff, powerOff, at.Add(after), then
	}
	if s.Power == powerOff || s.Power == poweringOff {
		if s.Power == poweringOff {
			s.PowerThen = powerOn
			return
		}
		s.Power, s.PowerNext, s.PowerDue = poweringOn, powerOn, at.Add(d.PowerOn)
		return
	}
	m.interrupt(kind, at)
	switch kind {
	case "ForceOff":
		off(d.PowerOff, "")
	case "GracefulShutdown", "PushPowerButton":
		off(d.Shutdown, "")
	case "PowerCycle":
		off(d.PowerOff, powerOn)
	default: // ForceRestart, GracefulRestart
		if !m.Conf.RestartKeepsOn {
			off(d.PowerOff, powerOn)
			return
		}
		s.Power, s.PowerNext = powerOn, ""
		m.startPOST(at)
	}
}

// interrupt is what a power change does to what is being written.
func (m *Machine) interrupt(kind string, at time.Time) {
	for _, w := range slices.Clone(m.Data.Work) {
		switch {
		case w.Waits:
		case w.Kind == KindFirmware && w.Stage == stageWrite && w.System == "" && w.Component != "BMC":
			m.Data.Bricked = fmt.Sprintf("%s while %s was written", kind, w.Component)
			m.end(w, Exception, at)
		case w.Kind == KindErase:
			m.Data.Interrupted = append(m.Data.Interrupted, w.Drive)
			m.end(w, Exception, at)
		}
	}
}

// powerDone is the end of PoweringOn or PoweringOff.
func (m *Machine) powerDone(at time.Time) {
	s := &m.Data
	s.Power, s.PowerNext = s.PowerNext, ""
	switch {
	case s.Power == powerOn:
		m.startPOST(at)
	case s.PowerThen == powerOn:
		s.InPOST, s.PowerThen = false, ""
		s.Power, s.PowerNext, s.PowerDue = poweringOn, powerOn, at.Add(m.Conf.Delays.PowerOn)
	default:
		s.InPOST = false
	}
}

// startPOST begins what waits for a reset. POST takes as long as all of it.
func (m *Machine) startPOST(at time.Time) {
	s, d := &m.Data, m.Conf.Delays
	s.InPOST, s.POSTStart, s.POSTDue = true, at, at.Add(d.POST)
	if s.Bricked != "" {
		return
	}
	if m.startsTPM() {
		s.POSTDue = at.Add(1000 * time.Hour)
	}
	for _, w := range s.Work {
		if !w.Waits || w.System != "" {
			continue
		}
		switch w.Kind {
		case KindErase:
			w.Waits, w.Started, w.Due = false, at, at.Add(d.Erase)
		case KindFirmware:
			w.Waits, w.Stage, w.Started, w.Due = false, stageWrite, at, at.Add(d.Write)
		default:
			continue
		}
		if w.Due.After(s.POSTDue) {
			s.POSTDue = w.Due.Add(time.Millisecond)
		}
	}
}

// postDone is the end of POST: what was wanted of the BIOS holds from now on.
func (m *Machine) postDone(at time.Time) {
	s := &m.Data
	for _, w := range s.Work {
		// A stalled task must not hold up POST without end, but the write goes on.
		if w.Kind == KindFirmware && w.Stage == stageWrite && !w.Waits && m.Conf.Endings[KindFirmware] != Stalls &&
			w.System == "" && w.Component == "BIOS" && w.Due.After(at) {
			s.POSTDue = w.Due.Add(time.Millisecond)
			return
		}
	}
	s.InPOST = false
	s.POSTs++
	m.applyBIOS(at)
	m.started()
}

// Power is the server's power as the BMC shows it.
func (m *Machine) Power() (string, error) { return m.State().Power, nil }

// SetPower begins a change of power that another way into the server asked for: On, ForceOff,
// GracefulShutdown or ForceRestart. A server that is there already, or on its way, stays so.
func (m *Machine) SetPower(resetType string) error {
	if !slices.Contains([]string{"On", "ForceOff", "GracefulShutdown", "ForceRestart"}, resetType) {
		return fmt.Errorf("%q is not a change of power", resetType)
	}
	m.Do(func(now time.Time) {
		on := m.Data.Power == powerOn || m.Data.Power == poweringOn
		if on != (resetType == "On") {
			m.setPower(resetType, now)
		}
	})
	return nil
}
