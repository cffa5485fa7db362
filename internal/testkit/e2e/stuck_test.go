package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
)

const (
	// margin is what a device may take to follow its own write, or the sweep that saw it,
	// on a busy machine.
	margin = 10 * time.Second
	// retryDelay is how long after an outage a call may wait for its next attempt: the
	// longest pause between two attempts, and the time-out of one whose worker is gone.
	retryDelay = 10 * time.Second
	// answersWithin is how fast Placement answers where no test delays it.
	answersWithin = time.Second
)

// stuck is how long each reserved device has looked available, not in maintenance. It may do so
// until the next sweep; what Burnish reserved itself needs none (D9). In the time of an outage
// Burnish can notice nothing: each wait begins again after it.
type stuck struct {
	sweepInterval time.Duration // 0: only sweeps that are asked for
	since         map[string]time.Time
	told          []string
}

// see is told that a device looks available, or not, while this is its provider's last write.
func (s *stuck) see(now time.Time, name string, available, outage bool, last openstack.Change) {
	if outage || !available || !last.Burned() {
		delete(s.since, name)
		return
	}
	since, known := s.since[name]
	if !known {
		s.since[name], since = now, now
	}
	allowed := margin
	if last.By.ByScheduler {
		if s.sweepInterval == 0 {
			return
		}
		allowed += s.sweepInterval
	}
	if now.Sub(since) > allowed {
		s.told = append(s.told, fmt.Sprintf("%s is available and reserved since %s, reserved=%d of %d by %s %s",
			name, clock(since), last.Reserved, last.Total, last.By.Method, last.By.Path))
		s.since[name] = now
	}
}

// watchStuck looks at the watched devices until the test ends.
func (c *Cloud) watchStuck(ctx context.Context) {
	c.stuck.since = map[string]time.Time{}
	var impaired time.Time
	_ = proc.Await(ctx, time.Hour, time.Second, "the end", func() (bool, string) {
		listed, err := c.Workflows().List(ctx, client.Filter{})
		now := time.Now()
		if err != nil || c.outage(now) {
			impaired = now
		}
		looks := map[string]bool{}
		for _, e := range listed {
			looks[e.Name] = e.Status.DeviceState == device.Available && !e.Status.Maintenance
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for provider, d := range c.watched {
			if last, ok := c.Recorder.Latest(provider); ok {
				c.stuck.see(now, d.Name, looks[d.Name], now.Sub(impaired) < retryDelay, last)
			}
		}
		return false, ""
	})
}

// outage says that no worker runs workflows, or that Placement does not answer Burnish as usual.
func (c *Cloud) outage(now time.Time) bool {
	if !slices.ContainsFunc(c.Controls(), (*proc.Process).Alive) {
		return true
	}
	all := c.Recorder.Exchanges()
	return slices.ContainsFunc(all[max(0, len(all)-100):], func(e openstack.Exchange) bool {
		failed := e.Status == 0 || e.Status >= 500 || e.Ended.Sub(e.Began) > answersWithin
		return !e.ByScheduler && failed && now.Sub(e.Ended) < retryDelay
	})
}

// sweepInterval reads the pause between two sweeps out of a worker's environment.
func sweepInterval(env []string) time.Duration {
	every := time.Minute // where nothing is set
	for _, pair := range env {
		if value, ok := strings.CutPrefix(pair, "BURNISH_SWEEP_INTERVAL="); ok {
			every, _ = time.ParseDuration(value) // what it cannot read, the worker refuses
		}
	}
	return every
}

func clock(at time.Time) string { return at.UTC().Format("15:04:05.000") }

// What is a device that should be cleaned and is not, and what is none.
func TestAStuckDeviceIsTold(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	burned := openstack.Change{Exists: true, Stocked: true, Total: 1, Reserved: 1}
	byNova, free := burned, burned
	byNova.By.ByScheduler, free.Reserved = true, 0
	for what, c := range map[string]struct {
		sweeps time.Duration
		last   openstack.Change
		told   int
		also   func(s *stuck)
	}{
		"reserved by Nova, for longer than a sweep": {sweeps: time.Second, last: byNova, told: 1},
		"reserved by Nova, without sweeps":          {last: byNova},
		"reserved by Burnish, without sweeps":       {last: burned, told: 1},
		"not reserved":                              {sweeps: time.Second, last: free},
		"cleaned in time":                           {sweeps: time.Second, last: byNova, also: func(s *stuck) { s.see(at(9), "d1", false, false, byNova) }},
		"an outage":                                 {sweeps: time.Second, last: byNova, also: func(s *stuck) { s.see(at(9), "d1", true, true, byNova) }},
	} {
		s := &stuck{sweepInterval: c.sweeps, since: map[string]time.Time{}}
		s.see(at(0), "d1", true, false, c.last)
		if c.also != nil {
			c.also(s)
		}
		s.see(at(12), "d1", true, false, c.last)
		require.Len(t, s.told, c.told, what)
	}
}
