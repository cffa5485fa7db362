package instance

import (
	"fmt"
	"time"

	"burnish/workflows/contract"
)

// direct is an instance whose calls are carried out at once, without Temporal.
type direct struct {
	*instance
	*fleet
	clock time.Time
	calls int
	// onAddresses is called with each call for addresses; nil: nothing.
	onAddresses func(activity string)
}

func newDirect() *direct {
	w := &direct{fleet: newFleet(), clock: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.fleet.now = func() time.Time { return w.clock }
	w.instance = &instance{world: w, InstanceState: &contract.InstanceState{UUID: guest, Phase: contract.InstanceBinding}}
	return w
}

func (w *direct) Now() time.Time        { return w.clock }
func (w *direct) Pause(d time.Duration) { w.clock = w.clock.Add(d) }
func (w *direct) Changed()              {}

func (w *direct) CallID() string {
	w.calls++
	return fmt.Sprint(w.calls)
}

func (w *direct) Pick(in contract.PickInput) (contract.PickAnswer, error) { return w.fleet.pick(in) }

func (w *direct) Ask(activity string, call contract.DevicesCall) (contract.DevicesAnswer, error) {
	return w.fleet.ask(activity, call)
}

func (w *direct) FindBound(instance string) ([]contract.HeldDevice, error) {
	return w.bound(instance), nil
}

func (w *direct) Addresses(activity string, call contract.AddressesCall) error {
	if w.onAddresses != nil {
		w.onAddresses(activity)
	}
	return w.address(activity, call)
}
