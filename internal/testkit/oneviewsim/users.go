package oneviewsim

import (
	"fmt"
	"time"
)

// Take has another user take a server: a profile of theirs is applied to it at once, and they
// switch it on, but see Config.TakenStayOff. A server that has a profile is refused.
func (a *Appliance) Take(server string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	err := a.take(server)
	a.note(a.save(nil))
	return err
}

// Free has another user switch a server off and remove its profile, whoever applied it.
func (a *Appliance) Free(server string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	err := a.free(server)
	a.note(a.save(nil))
	return err
}

func (a *Appliance) take(server string) error {
	h, err := a.find(server)
	if err != nil {
		return err
	}
	if h.Profile != "" {
		return fmt.Errorf("the server %s has the profile %s", h.Name, h.Profile)
	}
	p := a.addProfile(Wanted{Name: fmt.Sprintf("theirs-%d", a.state.Next+1), Server: h.URI(), Type: h.Type,
		Group: h.Group}, otherUser, time.Now())
	p.Description = "Of another user"
	a.show(h, ProfileApplied)
	if a.config.TakenStayOff {
		return nil
	}
	return a.switchPower(h, On)
}

func (a *Appliance) free(server string) error {
	h, err := a.find(server)
	if err != nil {
		return err
	}
	p := a.profiles[h.Profile]
	if p == nil {
		return fmt.Errorf("the server %s has no profile", h.Name)
	}
	a.assign(p, nil)
	a.removeProfile(p)
	return a.switchPower(h, Off)
}

// SetPower switches a server at once, as someone in front of it does.
func (a *Appliance) SetPower(server, power string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(time.Now())
	h, err := a.find(server)
	if err == nil {
		err = a.switchPower(h, power)
	}
	a.note(a.save(nil))
	return err
}

func (a *Appliance) switchPower(h *Hardware, power string) error {
	if bmc := a.bmcs[h.URI()]; bmc != nil {
		if a.refresh(h); h.Power == power {
			return nil
		}
		return bmc.SetPower(resetType(power, map[string]string{On: "MomentaryPress", Off: "PressAndHold"}[power]))
	}
	h.Power = power
	a.touch(h)
	return nil
}
