package oneviewsim

import (
	"maps"
	"time"

	"burnish/internal/testkit/simserver"
)

// BMC is another way into a server: a power change by either shows in both. A
// redfishsim.Machine is one, and so is a redfishsim.Process.
type BMC interface {
	// Power is On, Off, PoweringOn or PoweringOff.
	Power() (string, error)
	// SetPower begins a change, in Redfish's terms: On, ForceOff, GracefulShutdown,
	// ForceRestart.
	SetPower(resetType string) error
}

// Join makes a server and its BMC one. Of an appliance in another process, see Process.Join.
func (a *Appliance) Join(server string, bmc BMC) (err error) {
	a.Do(func(time.Time) {
		var h *Hardware
		if h, err = a.find(server); err == nil {
			a.bmcs[h.URI()] = bmc
			a.refresh(h)
		}
	})
	return err
}

// joinProcess makes a server one with a BMC in another process, also after a restart.
func (a *Appliance) joinProcess(server string, link Link) error {
	remote, err := simserver.NewRemote(link.URL, link.CA)
	if err != nil {
		return err
	}
	if err := a.Join(server, remoteBMC{remote}); err != nil {
		return err
	}
	h, err := a.Server(server)
	a.Configure(func(c *Config) {
		c.Links = maps.Clone(c.Links)
		c.Links[h.URI()] = link
	})
	return err
}

// refresh is the server's power as its BMC shows it, where there is one.
func (a *Appliance) refresh(h *Hardware) {
	bmc := a.bmcs[h.URI()]
	if bmc == nil {
		return
	}
	power, err := bmc.Power()
	if err != nil {
		power = unknown
	}
	if power != h.Power {
		h.Power = power
		a.changed(h)
	}
}

// resetType is Redfish's name of OneView's power control.
func resetType(power, control string) string {
	switch {
	case power == Off && control == "PressAndHold":
		return "ForceOff"
	case power == Off:
		return "GracefulShutdown"
	case control == "MomentaryPress":
		return "On"
	default:
		return "ForceRestart"
	}
}

// remoteBMC is a BMC in another process.
type remoteBMC struct{ *simserver.Remote }

func (b remoteBMC) Power() (power string, err error) { return power, b.Ask("power", nil, nil, &power) }

func (b remoteBMC) SetPower(resetType string) error { return b.Ask("set-power", nil, resetType, nil) }
