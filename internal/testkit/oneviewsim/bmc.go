package oneviewsim

import (
	"time"

	"burnish/internal/testkit/simserver"
)

// BMC is another way into a server: a power change by either shows in both. A
// redfishsim.Machine is one, and so is a redfishsim.Process.
type BMC interface {
	// Power is On, Off, PoweringOn or PoweringOff.
	Power() (string, error)
	// SetPower begins a change, in Redfish's terms: On, ForceOff, GracefulShutdown.
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
	default:
		return "On"
	}
}

// remoteBMC is a BMC in another process.
type remoteBMC struct{ simserver.Remote }

func (b remoteBMC) Power() (power string, err error) { return power, b.Ask("power", nil, nil, &power) }

func (b remoteBMC) SetPower(resetType string) error { return b.Ask("set-power", nil, resetType, nil) }
