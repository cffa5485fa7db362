package e2e

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/activity"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// proving are the settings of control workers that have the site's host prove what it did, for devices as they are
// enrolled.
func (s *Site) proving(t *testing.T, devices ...Device) (env []string) {
	t.Helper()
	etc := filepath.Dir(s.HostFile())
	cmd := exec.Command(s.Programs.Worker, "key")
	cmd.Env = []string{"BURNISH_HOST=" + s.Host, "BURNISH_STATE_DIR=" + s.State}
	entry, err := proc.Run(cmd)
	require.NoError(t, err)
	require.NoError(t, entry.Err())
	text := "hosts:\n" + entry.Stdout + "  devices:\n"
	for _, d := range devices {
		text += "  - name: " + d.Name + "\n    driver: " + d.Driver + "\n    settings:\n"
		for _, set := range d.Set {
			key, value, _ := strings.Cut(set, "=")
			text += "      " + key + ": " + value + "\n"
		}
	}
	keys, secret := filepath.Join(etc, "host_keys.yaml"), filepath.Join(etc, "api.key")
	require.NoError(t, os.WriteFile(keys, []byte(text), 0o644))
	require.NoError(t, os.WriteFile(secret, []byte(newKey("k")), 0o600))
	return []string{"BURNISH_HOST_KEYS=" + keys, "BURNISH_API_KEY=" + secret}
}

// thief can do in the site's namespace whatever its credential allows, and has no host.
type thief struct {
	*Site
	// statements are what he says that the host has signed, by step.
	statements atomic.Pointer[map[string]string]
}

// answersFor has the thief answer what the host is asked of the device, until stop.
func (x *thief) answersFor(t *testing.T, name string) (stop func()) {
	t.Helper()
	status := x.Show(t, name)
	identity := device.Identity{Serial: status.Serial, Model: status.Model, Vendor: status.Vendor, Size: MiB}
	w := sdkworker.New(x.Client, contract.HostQueue(x.Host), sdkworker.Options{DisableWorkflowWorker: true})
	w.RegisterActivityWithOptions(func(_ context.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
		return contract.DiscoveryResult{Identity: identity, Operation: device.Shred, ObservedAt: time.Now().UTC(),
			Statement: (*x.statements.Load())[contract.ActivityDiscover],
			Steps:     map[string]int{"zero": 1, "verify": 1, "security_check": 1, "verify_properties": 1}}, nil
	}, activity.RegisterOptions{Name: contract.ActivityDiscover})
	for _, step := range []string{"security_check", "zero", "verify", "verify_properties"} {
		w.RegisterActivityWithOptions(func(_ context.Context, in contract.StepInput) (contract.StepAnswer, error) {
			return contract.StepAnswer{SeenAt: time.Now().UTC(), Statement: (*x.statements.Load())[in.Step],
				StepResult: contract.StepResult{Step: in.Step, Clean: in.Clean, Seq: in.Seq}}, nil
		}, activity.RegisterOptions{Name: step})
	}
	require.NoError(t, w.Start())
	return w.Stop
}

// asks has a control worker carry out an activity of the inventory.
func (x *thief) asks(t *testing.T, what string, in contract.ReservationRequest) (found device.Inventory, err error) {
	t.Helper()
	return found, x.has(t, contract.Queue, what, in, &found)
}

// newThief is one with the site's credential, who runs a workflow worker of his own.
func newThief(t *testing.T, s *Site) *thief {
	t.Helper()
	w := sdkworker.New(s.Client, "thief", sdkworker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, queue, what string,
		in converter.RawValue) (found converter.RawValue, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: queue,
			StartToCloseTimeout: 10 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
		err = workflow.ExecuteActivity(ctx, what, in).Get(ctx, &found)
		return found, err
	}, workflow.RegisterOptions{Name: "Thief"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	x := &thief{Site: s}
	x.statements.Store(new(map[string]string))
	return x
}

// has a worker carry out an activity.
func (x *thief) has(t *testing.T, queue, what string, in, found any) error {
	t.Helper()
	run, err := x.Client.ExecuteWorkflow(t.Context(), sdkclient.StartWorkflowOptions{TaskQueue: "thief"}, "Thief",
		queue, what, in)
	require.NoError(t, err)
	return run.Get(t.Context(), found)
}

// reservation is the device's, with its receipt, as its history has it.
func (x *thief) reservation(t *testing.T, name string) contract.ReservationRequest {
	t.Helper()
	in := contract.ReservationRequest{UUID: contract.DeviceUUID(name), Name: name}
	for _, e := range x.history(t, name) {
		var found device.Inventory
		result := e.GetMarkerRecordedEventAttributes().GetDetails()["result"]
		if result != nil && converter.GetDefaultDataConverter().FromPayloads(result, &found) == nil && found.Receipt != "" {
			in.Generation, in.Receipt = found.Generation, found.Receipt
		}
	}
	require.NotEmpty(t, in.Receipt)
	return in
}

// plans has the host carry out what he likes under a receipt, as the device's history shows how it is asked, and
// gives what the host signs.
func (x *thief) plans(t *testing.T, name, receipt string, change func(*contract.StepInput)) (statements []string) {
	t.Helper()
	var in contract.StepInput
	for _, e := range x.history(t, name) {
		if asked := e.GetActivityTaskScheduledEventAttributes(); asked != nil && asked.ActivityType.Name == "zero" {
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(asked.Input, &in))
		}
	}
	in.Reservation, _, _ = strings.Cut(receipt, ".")
	in.Clean, in.Number, in.Seq = "thief/1", in.Number+10, in.Seq+100
	in.Resume, in.Next = nil, nil
	change(&in)
	var found contract.DiscoveryResult
	require.NoError(t, x.has(t, contract.HostQueue(x.Host), contract.ActivityDiscover, contract.DiscoverInput{
		Enrollment: in.Enrollment, UUID: contract.DeviceUUID(name), Known: in.Identity,
		Reservation: in.Reservation}, &found))
	statements = append(statements, found.Statement)
	for _, step := range []string{"zero", "verify"} {
		in.Step, in.Seq = step, in.Seq+1
		var answer contract.StepAnswer
		require.NoError(t, x.has(t, contract.HostQueue(x.Host), step, in, &answer))
		statements = append(statements, answer.Statement)
	}
	return statements
}

// history are the events of the device's run.
func (s *Site) history(t *testing.T, name string) (all []*historypb.HistoryEvent) {
	t.Helper()
	events := s.Client.GetWorkflowHistory(t.Context(), contract.WorkflowID(name), "", false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// signed are the statements in the device's history, by step.
func (s *Site) signed(t *testing.T, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, e := range s.history(t, name) {
		var answer contract.StepAnswer
		done := e.GetActivityTaskCompletedEventAttributes()
		if done == nil || converter.GetDefaultDataConverter().FromPayloads(done.Result, &answer) != nil ||
			answer.Statement == "" {
			continue
		}
		found[cmp.Or(answer.Step, contract.ActivityDiscover)] = answer.Statement
		if answer.Next != nil && answer.Next.Result != nil {
			found[answer.Next.Result.Step] = answer.Next.Statement
		}
	}
	return found
}

// stolen is a site whose host proves what it did, with a device that a tenant has left, and the thief, who has answered
// for its host. old is what the host signed before.
func stolen(t *testing.T) (x *thief, d Device, host *Worker, old map[string]string) {
	t.Helper()
	s := newSite(t)
	d = s.Device(t, "fake", "d1", MiB, 0)
	host = s.Run(t, "host")
	s.Run(t, "control", s.proving(t, d)...)
	s.Enroll(t, d)
	s.Must(t, "provide", "d1", "--wait", "--timeout", "60s")
	x = newThief(t, s)
	old = s.signed(t, "d1")
	require.NotEmpty(t, old["verify"])
	require.NotEmpty(t, old[contract.ActivityDiscover])

	s.Bind(t, "d1", "alice")
	d.Stamp(t, 7)
	require.Zero(t, host.Stop(t, 20*time.Second))
	stop := x.answersFor(t, d.Name)
	s.Unbind(t, "d1", "alice")
	x.notProved(t, "no host has said that it cleaned it")
	x.statements.Store(&old) // of the clean before
	s.Must(t, "clean", "d1")
	x.notProved(t, "discover was done before it was reserved")
	stop()
	return x, d, host, old
}

// notProved waits until the device is the operator's, for what is said.
func (x *thief) notProved(t *testing.T, says string) {
	t.Helper()
	x.AwaitDevice(t, "d1", 30*time.Second, "to be the operator's", func(v contract.DeviceStatus) bool {
		return v.DeviceState == device.Error && v.Fault == string(device.CodeNotProved) &&
			strings.Contains(v.LastError, says)
	})
	x.RequireReserved(t, "d1", 1)
}

// Whoever has stolen the credential of the namespace answers for a host, repeats what the host has signed, and asks
// control workers himself. Nothing that was not erased is offered.
func TestAStolenCredentialHasNothingOffered(t *testing.T) {
	t.Parallel()
	s, d, host, old := stolen(t)
	in := contract.ReservationRequest{UUID: contract.DeviceUUID("d1"), Name: "d1"}
	found, err := s.asks(t, contract.ActivityEnsureReserved, in)
	require.NoError(t, err)
	in.Generation, in.Receipt = found.Generation, found.Receipt
	for _, statement := range old {
		in.Statements = append(in.Statements, statement)
	}
	for _, receipt := range []string{found.Receipt, "", strings.Replace(found.Receipt, "..", ".free.", 1)} {
		in.Receipt = receipt
		_, err = s.asks(t, contract.ActivityUnreserve, in)
		require.Error(t, err)
		s.RequireReserved(t, "d1", 1)
	}
	d.RequireStamps(t, 7)
	_, err = s.asks(t, contract.ActivityDeleteProvider, in) // a new one would begin at generation 0
	require.NoError(t, err)
	s.RequireReserved(t, "d1", 1)
	named := contract.ReservationRequest{UUID: in.UUID, Name: s.Host + "_0000:01:00.0"} // of another device
	found, err = s.asks(t, contract.ActivityEnsureReserved, named)
	require.NoError(t, err)
	require.Empty(t, found.Receipt)

	host.Start(t)
	s.AwaitDevice(t, "d1", 30*time.Second, "to read what the thief wrote", func(v contract.DeviceStatus) bool {
		return strings.Contains(v.LastError, "the inventory is newer than this workflow")
	})
	s.Must(t, "clean", "d1")
	s.AwaitReturned(t, d, 30*time.Second)
}

// He has the host itself carry out less than the policy plans, and sign that.
func TestAThiefsOwnPlanIsNotOffered(t *testing.T) {
	t.Parallel()
	s, _, host, _ := stolen(t)
	host.Start(t)
	in := s.reservation(t, "d1")
	in.Statements = s.plans(t, "d1", in.Receipt, func(in *contract.StepInput) { in.Settings.Verify = "sample:1000" })
	_, err := s.asks(t, contract.ActivityUnreserve, in)
	require.ErrorContains(t, err, "zero was done by other settings")
	s.RequireReserved(t, "d1", 1)
}
