package activities_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"burnish/activities"
	"burnish/internal/inventory"
	"burnish/workflows/contract"
)

// slowStore answers usages once the test has seen a heartbeat.
type slowStore struct {
	inventory.Store
	beaten <-chan struct{}
}

func (s slowStore) Usages(ctx context.Context, uuid string) (inventory.Usage, error) {
	select {
	case <-s.beaten:
	case <-time.After(time.Minute):
	}
	return s.Store.Usages(ctx, uuid)
}

// A call to a slow inventory heartbeats: it is waited for, and the heartbeat timeout, which
// notices a killed worker, does not end it.
func TestASlowInventoryCallHeartbeats(t *testing.T) {
	s := newInventoryFixture(t, 0)
	beaten := make(chan struct{}, 10)
	control := &activities.Control{Store: slowStore{s.store, beaten}}
	env := again(t, 1).env()
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { beaten <- struct{}{} })
	env.RegisterActivityWithOptions(control.ReserveForBind, activity.RegisterOptions{Name: contract.ActivityReserveForBind})
	began := time.Now()
	_, err := env.ExecuteActivity(contract.ActivityReserveForBind, s.expecting())
	require.NoError(t, err)
	require.Less(t, time.Since(began), 30*time.Second)
	require.EqualValues(t, 1, s.writes())
}
