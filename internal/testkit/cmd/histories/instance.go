package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/instance"
)

// The instance whose history is recorded, the address of its guest, and how often it gets and
// gives back a device: enough for a continue-as-new.
const (
	recordedInstance = "22222222-2222-4222-8222-222222222222"
	recordedAddress  = "10.0.0.1"
	attaches         = 8
)

// recordedDevices answer as devices do: "lost" refuses its claim, "fails" its burn.
type recordedDevices struct{ claims int }

func (d *recordedDevices) register(control sdkworker.Worker) {
	control.RegisterWorkflowWithOptions(instance.InstanceLifecycle,
		workflow.RegisterOptions{Name: contract.WorkflowInstance})
	control.RegisterWorkflowWithOptions(instance.GuestAddress,
		workflow.RegisterOptions{Name: contract.WorkflowGuestAddress})
	for name, do := range map[string]any{
		contract.ActivityPickDevices: d.pick, contract.ActivityClaimDevices: d.claim, contract.ActivityBurnDevices: d.burn,
		contract.ActivityUnclaimDevices: d.done, contract.ActivityUnbindDevices: d.done,
		contract.ActivityRebuildDevices:  d.done,
		contract.ActivityConfirmDevices:  d.done,
		contract.ActivityFindBound:       func(context.Context, string) ([]contract.HeldDevice, error) { return nil, nil },
		contract.ActivityLeaseAddresses:  func(context.Context, contract.AddressesCall) error { return nil },
		contract.ActivityReturnAddresses: func(context.Context, contract.AddressesCall) error { return nil },
	} {
		control.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
}

func (d *recordedDevices) pick(_ context.Context, in contract.PickInput) (contract.PickAnswer, error) {
	answer := contract.PickAnswer{Devices: slices.Clone(in.Named)}
	for _, r := range in.Requests {
		for n := range max(r.Count, 1) {
			answer.Devices = append(answer.Devices,
				contract.DeviceChoice{Name: fmt.Sprintf("picked_%s_%d", in.Host, n+len(in.Except)), Tag: r.Tag})
		}
	}
	for _, c := range answer.Devices {
		answer.Known = append(answer.Known, known(c.Name))
	}
	return answer, nil
}

// known is what a device says of itself; one that was picked names its host.
func known(name string) contract.HeldDevice {
	host := "h1"
	if parts := strings.Split(name, "_"); len(parts) == 3 {
		host = parts[1]
	}
	return contract.HeldDevice{Name: name, Type: "NVME", Host: host, LiveMigratable: true}
}

// claim refuses "lost", and the first claim of a device that was picked.
func (d *recordedDevices) claim(_ context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	d.claims++
	return answer(in, func(name string) bool { return name == "lost" || d.claims == 1 && name == "picked_h1_0" }), nil
}

func (d *recordedDevices) burn(_ context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	a := answer(in, func(name string) bool { return name == "fails" })
	for n := range a.Outcomes {
		a.Outcomes[n].Device.Binding = 1
	}
	return a, nil
}

func (d *recordedDevices) done(_ context.Context, in contract.DevicesCall) (contract.DevicesAnswer, error) {
	return answer(in, func(string) bool { return false }), nil
}

func answer(in contract.DevicesCall, refuses func(string) bool) contract.DevicesAnswer {
	var a contract.DevicesAnswer
	for _, c := range in.Devices {
		o := contract.DeviceOutcome{Device: known(c.Name)}
		if refuses(c.Name) {
			o.Fault = &device.Fault{Class: device.Permanent, Code: device.CodeRefused, Message: "recorded refusal"}
		}
		a.Outcomes = append(a.Outcomes, o)
	}
	return a
}

// recordInstance has an instance and its guest's address live for a while: a race that is
// lost, a burn that fails, both migrations, an evacuation, a device that leaves by itself, and
// enough acts for a continue-as-new.
func recordInstance(ctx context.Context, temporal sdkclient.Client) {
	c := client.New(temporal)
	bind := func(names ...string) (in contract.InstanceBindInput) {
		for _, name := range names {
			in.Devices = append(in.Devices, contract.DeviceChoice{Name: name})
		}
		return in
	}
	must.Get(c.LeaseAddress(ctx, recordedAddress, recordedInstance))
	first := bind("a", "b")
	first.Addresses = []string{recordedAddress}
	first.Requests = []contract.DeviceRequest{{Type: "NVME", Tag: "t"}}
	first.Host = "h1"
	var plain contract.ReasonInput
	type act struct {
		refused bool
		verb    contract.Verb
		in      contract.Input
	}
	acts := []act{
		{false, contract.VerbInstanceBind, first},
		{true, contract.VerbInstanceAttach, bind("c", "lost")},
		{true, contract.VerbInstanceAttach, bind("c", "fails")},
		{false, contract.VerbInstanceRebuild, plain},
		{false, contract.VerbInstanceMigrate, contract.InstanceMoveInput{To: "h2"}},
		{false, contract.VerbInstanceRevert, plain},
		{false, contract.VerbInstanceLiveMigrate, contract.InstanceMoveInput{To: "h3"}},
		{false, contract.VerbInstanceConfirm, plain},
		{false, contract.VerbInstanceEvacuate, contract.InstanceMoveInput{To: "h1"}},
	}
	for n := range attaches {
		name := fmt.Sprint("more", n)
		acts = append(acts, act{false, contract.VerbInstanceAttach, bind(name)},
			act{false, contract.VerbInstanceDetach, contract.InstanceDetachInput{Devices: []string{name}}})
	}
	for n, act := range acts {
		_, err := c.DoInstance(ctx, recordedInstance, act.verb, act.in)
		must.Be((err != nil) == act.refused, "act %d of the instance: %v", n+1, err)
	}
	// One device leaves by itself, and the others are released.
	leaves := must.Get(c.Instance(ctx, recordedInstance)).Devices[0]
	must.Do(temporal.SignalWorkflow(ctx, contract.InstanceWorkflowID(recordedInstance), "", contract.SignalDeviceLeft,
		contract.DeviceLeft{Device: leaves.Name, Binding: leaves.Binding}))
	must.Do(proc.Await(ctx, time.Minute, proc.PollEvery, "the device to leave", func() (bool, string) {
		status, err := c.Instance(ctx, recordedInstance)
		_, has := status.Has(leaves.Name)
		return err == nil && !has, fmt.Sprintf("%+v %v", status, err)
	}))
	must.Get(c.DoInstance(ctx, recordedInstance, contract.VerbInstanceRelease, plain))
	must.Do(c.ReturnAddress(ctx, recordedAddress, recordedInstance))
}
