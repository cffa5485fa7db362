package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/contract"
)

// The worker is killed while it claims, or burns, the devices of an instance. The command waits
// through the crash, and in the end all devices are bound, each once. A repetition of the
// request binds nothing more.
//
// S0.6
func TestInstanceBindWhileTheWorkerIsKilled(t *testing.T) {
	t.Parallel()
	for _, at := range []string{contract.ActivityClaimDevices, contract.ActivityBurnDevices} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			w := s.Run(t, "all")
			names := []string{"d1", "d2", "d3"}
			for _, name := range names {
				s.Enroll(t, s.Fake(t, name, MiB), "--provide")
			}
			for _, name := range names {
				s.AwaitState(t, name, 30*time.Second, device.Available)
			}
			u := Instance("alice")
			args := []string{"instance", "bind", u, "--device", "d1=a", "--device", "d2=b", "--device", "d3=c", "--request-id", "r1", "--timeout", "2m"}
			type answer struct {
				proc.Result
				err error
			}
			answers := make(chan answer, 1)
			go func() {
				r, err := s.Site.Burnish(context.WithoutCancel(t.Context()), args...)
				answers <- answer{r, err}
			}()
			PollFast(t, 20*time.Second, at+" to be scheduled", func() (bool, string) { return s.scheduled(t, u, at), "" })
			w.Kill(t)
			w.Start(t)
			got := <-answers
			require.NoError(t, got.err)
			require.Zero(t, got.Code, got.Result)
			require.Contains(t, got.Stdout, ": d1 as a, binding 1; d2 as b, binding 1; d3 as c, binding 1\n")
			require.Contains(t, s.Must(t, args...), ": already bound, ")
			for _, name := range names {
				s.RequireReserved(t, name, 1)
			}
			s.Must(t, "instance", "release", u)
			for _, name := range names {
				s.AwaitState(t, name, 30*time.Second, device.Available)
				v, err := s.Workflows().Query(t.Context(), name)
				require.NoError(t, err)
				require.Len(t, v.Bindings, 1)
				require.Len(t, v.Cleans, 2, "that of its enrollment and that after the release")
			}
		})
	}
}

// scheduled says whether the instance's workflow has asked for this activity.
func (s *Site) scheduled(t testing.TB, instance, activity string) bool {
	t.Helper()
	all := s.Client.GetWorkflowHistory(t.Context(), contract.InstanceWorkflowID(instance), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for all.HasNext() {
		event, err := all.Next()
		if err != nil { // it has not begun
			return false
		}
		if event.GetActivityTaskScheduledEventAttributes().GetActivityType().GetName() == activity {
			return true
		}
	}
	return false
}
