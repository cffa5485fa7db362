package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const someInstance = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"

// Every way in which a request can fail, with its exit code, its line and its
// JSON object.
func TestFailures(t *testing.T) {
	refused := device.Fault{Class: device.Permanent, Code: device.CodeRefused,
		Message: "clean is not possible\nwhile the device is in state available", Remedy: "manage it first"}
	sent := func(ctx context.Context) error { return client.UnconfirmedError{Err: noAnswer(ctx)} }
	for name, tt := range map[string]struct {
		err    func(context.Context) error
		polled time.Time
		poll   error
		exit   int
		code   device.Code
		state  string
		says   []string
		// direct: over the API it has words of its own, see TestAnAPIThatFails.
		direct bool
		// timeout is short where no answer comes.
		timeout string
	}{
		"refused": {
			err:  func(context.Context) error { return refuse("d1", device.Available, refused) },
			exit: exitFailed, code: device.CodeRefused, state: "available",
			says: []string{"clean is not possible while the device is in state available", "manage it first"},
		},
		"no such device": {
			err:  func(context.Context) error { return gone() },
			exit: exitFailed, code: device.CodeNotFound,
			says: []string{"no such device", "enroll it first, or see burnish list"},
		},
		"no namespace": {
			err:  func(context.Context) error { return serviceerror.NewNamespaceNotFound("burnish") },
			exit: exitUnreachable, code: device.CodeUnreachable,
			says: []string{`no namespace "burnish"`, "TEMPORAL_NAMESPACE"},
		},
		"not allowed": {
			err:  func(context.Context) error { return serviceerror.NewPermissionDenied("no", "") },
			exit: exitUnreachable, code: device.CodeUnreachable,
			says: []string{"refuses these credentials"},
		},
		"unavailable": {
			err:  func(context.Context) error { return serviceerror.NewUnavailable("closing") },
			exit: exitUnreachable, code: device.CodeUnreachable,
			says: []string{"does not answer", "TEMPORAL_ADDRESS"},
		},
		"the connection was lost": {
			direct: true,
			err: func(context.Context) error {
				return client.UnconfirmedError{Err: serviceerror.NewUnavailable("closing")}
			},
			exit: exitUnreachable, code: device.CodeUnreachable,
			says: []string{"connection to Temporal was lost", "the request may still be carried out", "see burnish show"},
		},
		"the connection was lost after the request was accepted": {
			direct: true,
			err:    func(context.Context) error { return client.AcceptedError{Err: serviceerror.NewUnavailable("closing")} },
			exit:   exitUnreachable, code: device.CodeUnreachable,
			says: []string{"accepted, and is still carried out", "see burnish show"},
		},
		"no control worker": {
			err: sent, timeout: "10ms",
			exit: exitTimeout, code: device.CodeTimeout,
			says: []string{"may still be carried out", "no control worker answered on queue burnish within 10ms", "none polls it", "temporal task-queue describe --task-queue burnish"},
		},
		"a control worker that does not answer": {
			err: sent, timeout: "10ms", polled: clock.Add(-5 * time.Second),
			exit: exitTimeout, code: device.CodeTimeout,
			says: []string{"queue burnish", "polled it 5s ago", "may still be carried out"},
		},
		"accepted, and still running": {
			direct: true,
			err:    func(ctx context.Context) error { return client.AcceptedError{Err: noAnswer(ctx)} }, timeout: "10ms",
			exit: exitTimeout, code: device.CodeTimeout,
			says: []string{"accepted; still running after 10ms", "see burnish show", "for an appliance"},
		},
		"the server is gone": {
			err: sent, timeout: "10ms", poll: errors.New("connection refused"),
			exit: exitUnreachable, code: device.CodeUnreachable,
			says: []string{"stopped answering", "may still be carried out", "TEMPORAL_ADDRESS"},
		},
		"something else": {
			direct: true,
			err:    func(context.Context) error { return errors.New("boom") },
			exit:   exitFailed, code: device.CodeInternal,
			says: []string{"boom"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.direct && throughAPI {
				return
			}
			l := &fakeClient{
				lastPoll: tt.polled, pollErr: tt.poll,
				onUpdate: func(ctx context.Context, _, _ string, _ any) (contract.Result, error) {
					return contract.Result{}, tt.err(ctx)
				},
			}
			limit := cmp.Or(tt.timeout, "30s")
			if throughAPI && tt.timeout != "" {
				limit = "400ms" // within which the request must be on its way
			}
			got := burnish(t, l, "", "clean", "d1", "--timeout", limit)
			require.Equal(t, tt.exit, got.code)
			require.Empty(t, got.out)
			require.Equal(t, 1, strings.Count(got.errors, "\n"), "one line: %q", got.errors)
			require.True(t, strings.HasPrefix(got.errors, "burnish: clean d1: "), got.errors)
			for _, text := range tt.says {
				require.Contains(t, got.errors, strings.Replace(text, " within 10ms", " within "+limit, 1))
			}

			got = burnish(t, l, "", "clean", "d1", "--timeout", limit, "-o", "json")
			require.Equal(t, tt.exit, got.code)
			var body struct {
				Error map[string]string `json:"error"`
			}
			require.NoError(t, json.Unmarshal([]byte(got.errors), &body))
			require.Len(t, body.Error, 5)
			require.Equal(t, string(tt.code), body.Error["code"])
			require.Equal(t, "d1", body.Error["device"])
			require.Equal(t, tt.state, body.Error["state"])
			require.NotEmpty(t, body.Error["message"])
		})
	}
}

func TestNamesAreCanonical(t *testing.T) {
	l := &fakeClient{onUpdate: func(context.Context, string, string, any) (contract.Result, error) {
		return contract.Result{Already: true, Device: in("h1_0000:0a:00.0", device.Available)}, nil
	}}
	got := burnish(t, l, "", "provide", "H1_0000:0A:00.0", "h1_0000:0a:00.0")
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, []string{"provide h1_0000:0a:00.0"}, l.sent, "one device under two spellings")
	require.Equal(t, "h1_0000:0a:00.0: already provided (state: available)\n", got.out)
}

func TestEnroll(t *testing.T) {
	already := false
	l := &fakeClient{onEnroll: func(got contract.EnrollInput) (contract.Result, error) {
		require.Equal(t, contract.EnrollInput{Caller: operator(), Provide: true, Enrollment: contract.Enrollment{
			Name: "h1_0000:0a:00.0", Host: "h1", Driver: "block", Type: "DISK", Address: "0000:0a:00.0",
			Settings: map[string]string{"path": "/dev/sdb"}, Owner: device.OwnerNova, OneTimeUse: true,
			OperatorAssertsClean: true, AcceptSignature: "ext4",
		}}, sentAs(t, got))
		return contract.Result{Already: already, Device: in(got.Enrollment.Name, device.Manageable)}, nil
	}}
	args := []string{
		"enroll", "--host", "H1", "--driver", "block", "--address", "0000:0A:00.0", "--set", "path=/dev/sdb,owner=nova",
		"--one-time-use", "--clean", "--accept-signature", "ext4", "--provide",
	}
	got := burnish(t, l, "", args...)
	require.Equal(t, ran{exitOK, "h1_0000:0a:00.0: enrolled, now manageable\n", ""}, got)
	already = true
	got = burnish(t, l, "", args...)
	require.Equal(t, ran{exitOK, "h1_0000:0a:00.0: already enrolled (state: manageable)\n", ""}, got)
}

func TestWait(t *testing.T) {
	failedView := in("d1", device.Error)
	failedView.Fault, failedView.LastError, failedView.Remedy = "verify_failed", "12 bytes were not zero", "replace it"
	heldView := in("d1", device.PendingCleaning)
	heldView.Fault = string(device.CodeAutomatedCleanOff)
	hostUnreachable := in("d1", device.Cleaning)
	hostUnreachable.NeedsOperator, hostUnreachable.Fault, hostUnreachable.LastError = true, "host_unreachable",
		"h1 is unreachable"
	again := in("d1", device.Allocated)
	again.Cleans = []contract.CleanSummary{{Number: 1, Outcome: "cleaned"}}

	for name, tt := range map[string]struct {
		seen []contract.DeviceStatus
		args []string
		exit int
		out  string
		errs string
	}{
		"cleaned": {
			seen: []contract.DeviceStatus{in("d1", device.PendingCleaning), in("d1", device.Cleaning), in("d1", device.Available)},
			exit: exitOK, out: "d1: cleaned, now available\n",
		},
		"named steps": {
			seen: []contract.DeviceStatus{in("d1", device.Cleaning), in("d1", device.Manageable)},
			exit: exitOK, out: "d1: cleaned, now manageable\n",
		},
		"failed": {
			seen: []contract.DeviceStatus{in("d1", device.Cleaning), failedView},
			exit: exitFailed, errs: "burnish: clean d1: verify_failed: 12 bytes were not zero; replace it\n",
		},
		"on hold": {
			seen: []contract.DeviceStatus{heldView},
			exit: exitFailed, errs: "burnish: clean d1: on hold in pending_cleaning: automated cleaning is off\n",
		},
		"in use": {
			seen: []contract.DeviceStatus{in("d1", device.Cleaning), in("d1", device.Allocated)},
			exit: exitFailed, errs: "burnish: clean d1: the device is in use, and was not cleaned\n",
		},
		"cleaned, and bound again": {
			seen: []contract.DeviceStatus{in("d1", device.Cleaning), again},
			exit: exitOK, out: "d1: cleaned, now allocated\n",
		},
		"the host is unreachable for a while": {
			seen: []contract.DeviceStatus{hostUnreachable, hostUnreachable, in("d1", device.Available)},
			exit: exitOK, out: "d1: cleaned, now available\n",
			errs: "burnish: note: d1: still waiting, but it needs an operator: host_unreachable; h1 is unreachable\n",
		},
		"too long": {
			seen: []contract.DeviceStatus{in("d1", device.Cleaning)}, args: []string{"--timeout", "2s"},
			exit: exitTimeout, errs: "burnish: clean d1: still running after 2s; see burnish show d1\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			queries := 0
			l := &fakeClient{
				onUpdate: func(context.Context, string, string, any) (contract.Result, error) {
					return contract.Result{Device: in("d1", device.PendingCleaning)}, nil
				},
				onDescribe: func(string) (client.Execution, error) { return running(in("d1", device.Cleaning)), nil },
				onQuery: func(context.Context, string) (contract.DeviceStatus, error) {
					v := tt.seen[min(queries, len(tt.seen)-1)]
					queries++
					return v, nil
				},
			}
			got := burnish(t, l, "", append([]string{"clean", "d1", "--wait"}, tt.args...)...)
			require.Equal(t, ran{tt.exit, tt.out, tt.errs}, got)
		})
	}
}

func TestShowWithoutWorker(t *testing.T) {
	known := in("d1", device.Cleaning)
	known.CleanStep = &contract.CleanStep{Step: "zero", Priority: 70, Interface: "deploy"}
	known.Hostname = "h1"
	e := running(known)
	e.Pending = map[string]client.Pending{"zero": {Started: true, Attempt: 2,
		Progress: &contract.Progress{Step: "zero", Offset: 1 << 20, Size: 3 << 20}}}
	l := &fakeClient{
		onDescribe: func(string) (client.Execution, error) { return e, nil },
		onQuery: func(context.Context, string) (contract.DeviceStatus, error) {
			return contract.DeviceStatus{},
				serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down")
		},
	}
	got := burnish(t, l, "", "show", "d1", "-o", "json")
	require.Equal(t, exitOK, got.code)
	var v contract.DeviceStatus
	require.NoError(t, json.Unmarshal([]byte(got.out), &v))
	require.Equal(t, device.Cleaning, v.DeviceState)
	require.Equal(t, &contract.StatusProgress{Percent: 33.3, Done: 1 << 20, Total: 3 << 20, Attempt: 2}, v.Progress)
	var note map[string]string
	require.NoError(t, json.Unmarshal([]byte(got.errors), &note))
	require.Contains(t, note["note"], "no control worker answered (no poller seen")
}

func TestShowByUUID(t *testing.T) {
	var asked string
	l := &fakeClient{
		onList: func(query string) ([]client.Execution, error) {
			if !throughAPI {
				require.Contains(t, query, "DeviceUuid = '"+contract.DeviceUUID("d1")+"'")
			}
			return []client.Execution{running(in("d1", device.Available))}, nil
		},
		onDescribe: func(name string) (client.Execution, error) {
			asked = name
			return running(in(name, device.Available)), nil
		},
		onQuery: func(_ context.Context, name string) (contract.DeviceStatus, error) {
			return in(name, device.Available), nil
		},
	}
	got := burnish(t, l, "", "show", strings.ToUpper(contract.DeviceUUID("d1")))
	require.Equal(t, exitOK, got.code, got.errors)
	require.Equal(t, "d1", asked)

	l.onList = func(string) ([]client.Execution, error) { return nil, nil }
	l.onDescribe = func(string) (client.Execution, error) { return client.Execution{}, gone() }
	require.Equal(t, exitFailed, burnish(t, l, "", "show", contract.DeviceUUID("d2")).code)
}

// A workflow that ended, or whose enrollment was never finished, is not a device.
func TestShowOfNoDevice(t *testing.T) {
	for says, e := range map[string]client.Execution{
		"no such device; enroll it first, or see burnish list": {Name: "d1"},
		"its enrollment was never finished; enroll it again":   running(in("d1", device.Absent)),
	} {
		t.Run(says, func(t *testing.T) {
			l := &fakeClient{
				onDescribe: func(string) (client.Execution, error) { return e, nil },
				onQuery:    func(context.Context, string) (contract.DeviceStatus, error) { return e.Status, nil },
			}
			got := burnish(t, l, "", "show", "d1")
			require.Equal(t, ran{exitFailed, "", "burnish: show d1: " + says + "\n"}, got)
		})
	}
}

// The table lists the arguments that the steps take, where one does.
func TestSteps(t *testing.T) {
	v := in("d1", device.Available)
	l := &fakeClient{shown: &v}
	require.Equal(t, ran{exitOK, "[]\n", ""}, burnish(t, l, "", "steps", "d1", "-o", "json"))
	v.Steps = []contract.CleanStep{{Step: "zero", Priority: 70, Interface: "deploy"},
		{Step: "verify", Priority: 60.5, Interface: "deploy"}}
	require.Equal(t, "STEP    PRIORITY  INTERFACE\nzero    70        deploy\nverify  60.5      deploy\n",
		burnish(t, l, "", "steps", "d1").out)
	v.Steps = append(v.Steps, contract.CleanStep{Step: "firmware_reflash", Priority: 50, Interface: "firmware"},
		contract.CleanStep{Step: "bios_apply", Priority: 35, Interface: "bios"})
	got := burnish(t, l, "", "steps", "d1").out
	require.Regexp(t, `(?s)ARGUMENTS.*component \(text\).*BIOS attributes`, got)
	require.NotContains(t, got, "components")
	require.JSONEq(t, `[{"step":"zero","priority":70,"interface":"deploy"},`+
		`{"step":"verify","priority":60.5,"interface":"deploy"},`+
		`{"step":"firmware_reflash","priority":50,"interface":"firmware"},`+
		`{"step":"bios_apply","priority":35,"interface":"bios"}]`, burnish(t, l, "", "steps", "d1", "-o", "json").out)
}

// A listing needs no worker, so the message of its time-out names none.
func TestListRunsOutOfTime(t *testing.T) {
	l := &fakeClient{onList: func(string) ([]client.Execution, error) { return nil, context.DeadlineExceeded }}
	got := burnish(t, l, "", "list", "--timeout", "7s")
	require.Equal(t, ran{exitTimeout, "", "burnish: list: no answer within 7s; try again with a longer --timeout\n"}, got)
}
