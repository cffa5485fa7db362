package instance

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// devices is the world of a workflow: it asks by activities. ctx is that of the act under way.
type devices struct {
	ctx     workflow.Context
	calls   int
	changed func()
}

// within bounds the calls for which a client waits, and which may be given up: claims end by
// themselves. The others are made until they are answered.
var within = map[string]time.Duration{
	contract.ActivityClaimDevices:   claimFor,
	contract.ActivityUnclaimDevices: calls.ClientDeadline,
	contract.ActivityRebuildDevices: calls.ClientDeadline,
	contract.ActivityConfirmDevices: calls.ClientDeadline,
	contract.ActivityLeaseAddresses: calls.ClientDeadline,
}

func (d *devices) Now() time.Time { return workflow.Now(d.ctx).UTC() }

func (d *devices) Pause(pause time.Duration) {
	err := workflow.NewTimerWithOptions(d.ctx, pause, workflow.TimerOptions{Summary: "before the next try"}).
		Get(d.ctx, nil)
	if err != nil {
		workflow.GetLogger(d.ctx).Warn("a pause ended early", "error", err)
	}
}

func (d *devices) Pick(in contract.PickInput) (answer contract.PickAnswer, err error) {
	err = d.execute(contract.ActivityPickDevices, "find devices for "+in.Instance, calls.ClientDeadline, in, &answer)
	return answer, err
}

func (d *devices) Ask(activity string, call contract.DevicesCall) (answer contract.DevicesAnswer, err error) {
	err = d.execute(activity, fmt.Sprintf("%d devices of %s", len(call.Devices), call.Instance), within[activity],
		call, &answer)
	return answer, err
}

func (d *devices) Addresses(activity string, call contract.AddressesCall) error {
	return d.execute(activity, fmt.Sprintf("%d addresses of %s", len(call.Addresses), call.Instance),
		within[activity], call, nil)
}

func (d *devices) FindBound(instance string) (found []contract.HeldDevice, err error) {
	err = d.execute(contract.ActivityFindBound, "devices that name "+instance, 0, instance, &found)
	return found, err
}

func (d *devices) execute(activity, summary string, within time.Duration, in, out any) error {
	ctx := calls.WithDevices(d.ctx, summary, within)
	return workflow.ExecuteActivity(ctx, activity, in).Get(ctx, out)
}

// CallID is another one in each run, also after a reset.
func (d *devices) CallID() string {
	d.calls++
	return fmt.Sprintf("%s/%d", workflow.GetInfo(d.ctx).WorkflowExecution.RunID, d.calls)
}

func (d *devices) Changed() { d.changed() }
