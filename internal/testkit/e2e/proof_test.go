package e2e

import (
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

// answersFor has the thief answer what the host is asked, until stop.
func (x *thief) answersFor(t *testing.T, identity device.Identity) (stop func()) {
	t.Helper()
	w := sdkworker.New(x.Client, contract.HostQueue(x.Host), sdkworker.Options{DisableWorkflowWorker: true})
	w.RegisterActivityWithOptions(func(_ context.Context, in contract.DiscoverInput) (contract.DiscoveryResult, error) {
		return contract.DiscoveryResult{Identity: identity, Operation: device.Shred, ObservedAt: time.Now().UTC(),
			Steps: map[string]int{"zero": 1, "verify": 1, "security_check": 1, "verify_properties": 1}}, nil
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
	w := sdkworker.New(x.Client, "thief", sdkworker.Options{})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) (found device.Inventory, err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: contract.Queue,
			StartToCloseTimeout: 10 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1}})
		err = workflow.ExecuteActivity(ctx, what, in).Get(ctx, &found)
		return found, err
	}, workflow.RegisterOptions{Name: "Thief"})
	require.NoError(t, w.Start())
	defer w.Stop()
	run, err := x.Client.ExecuteWorkflow(t.Context(), sdkclient.StartWorkflowOptions{TaskQueue: "thief"}, "Thief")
	require.NoError(t, err)
	return found, run.Get(t.Context(), &found)
}

// signed are the statements in the device's history, by step.
func (s *Site) signed(t *testing.T, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	events := s.Client.GetWorkflowHistory(t.Context(), contract.WorkflowID(name), "", false,
		enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for events.HasNext() {
		e, err := events.Next()
		require.NoError(t, err)
		var answer contract.StepAnswer
		done := e.GetActivityTaskCompletedEventAttributes()
		if done == nil || converter.GetDefaultDataConverter().FromPayloads(done.Result, &answer) != nil {
			continue
		}
		if found[answer.Step] = answer.Statement; answer.Next != nil && answer.Next.Result != nil {
			found[answer.Next.Result.Step] = answer.Next.Statement
		}
	}
	return found
}

// Whoever has stolen the credential of the namespace answers for a host, repeats what the host has signed, and asks
// control workers himself. Nothing that was not erased is offered.
func TestAStolenCredentialHasNothingOffered(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.Device(t, "fake", "d1", MiB, 0)
	host := s.Run(t, "host")
	s.Run(t, "control", s.proving(t, d)...)
	s.Enroll(t, d)
	s.Must(t, "provide", "d1", "--wait", "--timeout", "60s")
	x := &thief{Site: s}
	x.statements.Store(new(map[string]string))
	old := s.signed(t, "d1")
	require.NotEmpty(t, old["verify"])

	s.Bind(t, "d1", "alice")
	d.Stamp(t, 7)
	require.Zero(t, host.Stop(t, 20*time.Second))
	status := s.Show(t, "d1")
	identity := device.Identity{Serial: status.Serial, Model: status.Model, Vendor: status.Vendor, Size: MiB}
	stop := x.answersFor(t, identity)
	s.Unbind(t, "d1", "alice")
	notProved := func(says string) {
		s.AwaitDevice(t, "d1", 30*time.Second, "to be the operator's", func(v contract.DeviceStatus) bool {
			return v.DeviceState == device.Error && v.Fault == string(device.CodeNotProved) &&
				strings.Contains(v.LastError, says)
		})
		s.RequireReserved(t, "d1", 1)
	}
	notProved("no host has said that it cleaned it")
	x.statements.Store(&old) // of the clean before
	s.Must(t, "clean", "d1")
	notProved("zero was done before it was reserved")
	stop()

	in := contract.ReservationRequest{UUID: status.UUID, Name: "d1"}
	found, err := x.asks(t, contract.ActivityEnsureReserved, in)
	require.NoError(t, err)
	in.Generation, in.Receipt = found.Generation, found.Receipt
	for _, statement := range old {
		in.Statements = append(in.Statements, statement)
	}
	for _, receipt := range []string{found.Receipt, "", strings.Replace(found.Receipt, "..", ".free.", 1)} {
		in.Receipt = receipt
		_, err = x.asks(t, contract.ActivityUnreserve, in)
		require.Error(t, err)
		s.RequireReserved(t, "d1", 1)
	}
	d.RequireStamps(t, 7)
	_, err = x.asks(t, contract.ActivityDeleteProvider, in) // a new one would begin at generation 0
	require.NoError(t, err)
	s.RequireReserved(t, "d1", 1)
	named := contract.ReservationRequest{UUID: status.UUID, Name: s.Host + "_0000:01:00.0"} // of another device
	found, err = x.asks(t, contract.ActivityEnsureReserved, named)
	require.NoError(t, err)
	require.Empty(t, found.Receipt)

	host.Start(t)
	s.Must(t, "clean", "d1") // which may begin before the device has read what the thief wrote: then it begins again
	s.AwaitReturned(t, d, 30*time.Second)
}
