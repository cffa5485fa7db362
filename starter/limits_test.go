package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// queuedDevice waits for a slot; its own record of its place is an old one.
func queuedDevice(name string) contract.DeviceStatus {
	v := in(name, device.PendingCleaning)
	v.Waiting = &contract.StatusWait{For: contract.WaitSlot, Code: device.CodeWaitingForSlot,
		Message: "queued for a slot (9th in line): 2 of 2 cleans run", Since: clock}
	v.LastError, v.Fault = v.Waiting.Message, string(device.CodeWaitingForSlot)
	v.NeedsOperator = true
	return v
}

func limitedFleet() *fakeClient {
	wait := func(name string, place int) contract.SlotWait {
		return contract.SlotWait{Device: name, Place: place,
			Fault: device.Fault{Code: device.CodeWaitingForSlot, Message: "2 of 2 cleans run", Remedy: "wait"}}
	}
	return &fakeClient{
		onList: func(string) ([]client.Execution, error) {
			return []client.Execution{running(queuedDevice("d1")), running(queuedDevice("d2")),
				running(in("d3", device.Available))}, nil
		},
		onDescribe: func(name string) (client.Execution, error) { return running(queuedDevice(name)), nil },
		limits: &contract.LimitsStatus{
			Limits: &device.Limits{ConcurrentCleans: 2}, Running: 2, Queued: 2,
			Waiting: []contract.SlotWait{wait("d2", 1), wait("d1", 2)},
			Alarms: []contract.LimitsAlarm{{Waiting: 2, Fault: device.Fault{Class: device.NeedsOperator,
				Code: device.CodeBreakerOpen, Message: "zero failed 3 times in a row on model M",
				Remedy: `resume --model "M" --step zero`}}},
		},
	}
}

// list and show say the place in line as it is now, and the alarm that stands for all.
func TestPlacesInLine(t *testing.T) {
	l := limitedFleet()
	got := burnish(t, l, "", "list", "--needs-operator")
	require.Equal(t, 0, got.code)
	require.Regexp(t, `(?m)^d1 .* queued:2 `, got.out)
	require.Regexp(t, `(?m)^d2 .* queued:1 `, got.out)
	require.Contains(t, got.errors, "the limits need the operator (2 wait): zero failed 3 times in a row on model M; "+
		"resume")

	got = burnish(t, l, "", "list", "-o", "json")
	require.Contains(t, got.out, `"place": 2`)
	// Without an answer the devices' own, older record is shown.
	l.limitsErr = serviceerror.NewUnavailable("gone")
	got = burnish(t, l, "", "list", "-o", "json")
	require.Contains(t, got.out, "9th in line")
	require.Equal(t, 0, got.code)
}

func TestResume(t *testing.T) {
	var asked contract.ResumeInput
	answer, failure := contract.ResumeResult{Waiting: 3}, error(nil)
	l := &fakeClient{onResume: func(in contract.ResumeInput) (contract.ResumeResult, error) {
		asked = in
		return answer, failure
	}}
	got := burnish(t, l, "", "resume", "--model", "PowerEdge R740", "--step", "bios_apply")
	require.Equal(t, "bios_apply on model PowerEdge R740 goes on; 3 cleans wait for their turn\n", got.out)
	require.Equal(t, "PowerEdge R740 bios_apply", asked.Model+" "+asked.Step)
	require.NotEmpty(t, asked.By)
	answer = contract.ResumeResult{Already: true}
	require.Contains(t, burnish(t, l, "", "resume", "--model", "M", "--step", "zero").out, "was not stopped")
	failure = serviceerror.NewNotFound("no such workflow")
	got = burnish(t, l, "", "resume", "--model", "M", "--step", "zero")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.errors, "nothing is limited")
}
