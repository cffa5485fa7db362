package e2e

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Of eight requests for a clean at once one is carried out. The others leave no event, neither
// does any request that the state refuses, and the history says whose was accepted. The one that
// is sent again in a later run is answered, and does nothing.
func TestOneOfEightCleansIsCarriedOut(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Run(t, "all")
	d := s.Fake(t, "d1", 1*MiB, "fault=fail:zero@0%x1", "delay=500ms")
	s.Enroll(t, d, "--provide")
	s.AwaitState(t, "d1", 20*time.Second, device.Error)
	before := CountEvents(s.awaitIdle(t, "d1"))

	request := func(i int) string { return contract.RequestID(fmt.Sprint("request-", i), nil) }
	send := func(i int) (contract.Result, error) {
		return s.Workflows().Do(client.WithRequest(t.Context(), request(i)), "d1", contract.VerbClean,
			contract.CleanInput{Reason: "once more", Caller: contract.Caller{By: fmt.Sprint("caller ", i), From: "192.0.2.7"}})
	}
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = send(i) })
	}
	all.Wait()
	winner := -1
	for i, err := range errs {
		if err == nil {
			require.Negative(t, winner, "two were accepted")
			winner = i
			continue
		}
		refusal, ok := client.Fault(err)
		require.True(t, ok, err)
		require.Equal(t, device.CodeRefused, refusal.Fault.Code)
		// Its clean may have ended before a late one comes.
		require.Contains(t, []device.State{device.PendingCleaning, device.Cleaning, device.Available}, refusal.State)
	}
	require.GreaterOrEqual(t, winner, 0)
	s.AwaitReturned(t, d, 20*time.Second)
	s.Refused(t, device.CodeRefused, "clean", "d1")
	s.Refused(t, device.CodeRefused, "release-hold", "d1")
	after := CountEvents(s.awaitIdle(t, "d1"))
	accepted := enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED
	require.Equal(t, before[accepted]+1, after[accepted])

	run := s.Execution(t, "d1").GetRunId()
	require.NoError(t, s.Client.CancelWorkflow(t.Context(), contract.WorkflowID("d1"), run))
	Await(t, 20*time.Second, "the next run", func() (bool, string) {
		next := s.Execution(t, "d1").GetRunId()
		return next != run, next
	})
	again, err := send(winner)
	require.NoError(t, err)
	require.True(t, again.Already)
	require.Equal(t, device.Available, again.Device.DeviceState)

	var history struct {
		Acts   []contract.Act          `json:"acts"`
		Cleans []contract.CleanSummary `json:"cleans"`
	}
	require.NoError(t, json.Unmarshal([]byte(s.Must(t, "history", "d1", "-o", "json")), &history))
	require.Len(t, history.Cleans, 2)
	require.Len(t, history.Acts, 2, "%+v", history.Acts)
	require.Equal(t, "enroll", history.Acts[0].Verb)
	require.Contains(t, history.Acts[0].By, "@", "the command line says who runs it")
	last := history.Acts[1]
	last.At = time.Time{}
	require.Equal(t, contract.Act{Verb: "clean", By: fmt.Sprint("caller ", winner), From: "192.0.2.7", Reason: "once more",
		Request: request(winner)}, last)
}
