package oneviewsim

import (
	"fmt"
	"time"
)

// Take has another user take a server: a profile of theirs is applied to it at once, and they
// switch it on, but see Config.TakenStayOff. A server that has a profile is refused.
func (a *Appliance) Take(server string) (err error) {
	a.Do(func(time.Time) { err = a.take(server) })
	return err
}

// Free has another user switch a server off and remove its profile, whoever applied it.
func (a *Appliance) Free(server string) (err error) {
	a.Do(func(time.Time) { err = a.free(server) })
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
	a.addProfile(Wanted{Name: fmt.Sprintf("theirs-%d", a.Data.Next+1), Description: "Of another user"}, h, otherUser,
		time.Now())
	a.show(h, ProfileApplied)
	if a.Conf.TakenStayOff {
		return nil
	}
	return a.switchPower(h, On)
}

func (a *Appliance) free(server string) error {
	h, err := a.find(server)
	if err != nil {
		return err
	}
	p := find(a.Data.Profiles, h.Profile)
	if p == nil {
		return fmt.Errorf("the server %s has no profile", h.Name)
	}
	a.removeFrom(p, h)
	return a.switchPower(h, Off)
}

// SetPower switches a server at once, as someone in front of it does.
func (a *Appliance) SetPower(server, power string) (err error) {
	a.Do(func(time.Time) {
		var h *Hardware
		if h, err = a.find(server); err == nil {
			err = a.switchPower(h, power)
		}
	})
	return err
}

func (a *Appliance) switchPower(h *Hardware, power string) error {
	if bmc := a.bmcs[h.URI()]; bmc != nil {
		if a.refresh(h); h.Power == power {
			return nil
		}
		return bmc.SetPower(map[string]string{On: "On", Off: "ForceOff"}[power])
	}
	h.Power = power
	a.changed(h)
	return nil
}
