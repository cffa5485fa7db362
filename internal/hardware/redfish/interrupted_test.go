package redfish

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// interruption is one way in which a step is disturbed, at one request or one record of its
// journal.
type interruption struct {
	name string
	// kind is what happens to the request; empty: the journal is disturbed.
	kind redfishsim.FaultKind
	// kills: the step's context ends there, and the step is run again.
	kills bool
	// onRead: a read is disturbed in this way too.
	onRead bool
}

var interruptions = []interruption{
	{name: "not received", kind: redfishsim.CutBefore},
	{name: "answer lost", kind: redfishsim.CutAfter},
	{name: "BMC restarts before", kind: redfishsim.RestartBefore},
	{name: "BMC restarts after", kind: redfishsim.RestartAfter, onRead: true},
	{name: "killed before", kind: redfishsim.HangBefore, kills: true},
	{name: "killed after", kind: redfishsim.HangAfter, kills: true, onRead: true},
}

// quickBMC makes the server of a test that runs a step many times fast.
func quickBMC(c *redfishsim.Config, _ *redfishsim.State) {
	d := &c.Delays
	d.PowerOn, d.PowerOff, d.Shutdown, d.POST, d.Settle, d.BMCRestart = 2*time.Millisecond, 2*time.Millisecond,
		4*time.Millisecond, 8*time.Millisecond, 4*time.Millisecond, 10*time.Millisecond
}

// scenario is a step on one server, and what must be true in the end.
type scenario struct {
	personality redfishsim.Personality
	options     []redfishsim.Option
	step        string
	args        any
	// prepare changes the server after it was enrolled.
	prepare func(s *redfishsim.State)
	check   func(t *testing.T, bmc *redfishsim.Server)
	// writesOnly: reads are not disturbed.
	writesOnly bool

	enrolled device.Identity
}

func (sc *scenario) start(t *testing.T) *stepper {
	t.Helper()
	bmc := redfishsim.Start(t, sc.personality, append([]redfishsim.Option{quickBMC}, sc.options...)...)
	var s *stepper
	if sc.enrolled == (device.Identity{}) {
		s = stepperOf(t, bmc)
		sc.enrolled = s.enrolled
	} else {
		s = unenrolled(t, bmc)
		s.enrolled = sc.enrolled
	}
	s.driver.timing.settle = 40 * time.Millisecond
	if sc.prepare != nil {
		s.bmc.Change(sc.prepare)
	}
	return s
}

// requireEnd checks what must be true after every run, however it was disturbed.
func (sc *scenario) requireEnd(t *testing.T, s *stepper) {
	t.Helper()
	state := s.bmc.State()
	require.Empty(t, state.Bricked)
	require.Empty(t, state.Interrupted)
	for _, r := range s.bmc.WritesWithoutIdentity() {
		require.Empty(t, r.Session, "%s %s without a look at the identity", r.Method, r.Path) // "": it never arrived
	}
	if !slices.ContainsFunc(s.bmc.Requests(), func(r redfishsim.Request) bool {
		return r.Fault != "" && strings.Contains(r.Path, "Sessions")
	}) {
		require.Empty(t, s.bmc.OpenSessions(), "sessions that were left open")
	}
	sc.check(t, s.bmc)
}

// interruptEverywhere runs the step once undisturbed, then once for each request and each
// record of the journal, disturbed there in each way, until it is done.
func (sc *scenario) interruptEverywhere(t *testing.T) {
	t.Helper()
	s := sc.start(t)
	enrolled := s.bmc.Count()
	_, err := s.run(sc.step, sc.args)
	require.NoError(t, err)
	sc.requireEnd(t, s)

	begin, wait := severalAtOnce(t)
	all := s.bmc.Requests()[enrolled:]
	for i, r := range all {
		// Of reads that wait for something, each is like the one before.
		isRead := r.Method == http.MethodGet
		if isRead && i > 2 && all[i-1].Path == r.Path && all[i-2].Path == r.Path && all[i-1].Method == r.Method &&
			all[i-2].Method == r.Method {
			continue
		}
		kinds := 0
		for _, how := range interruptions {
			if isRead && (!how.onRead || sc.writesOnly) {
				continue
			}
			// Each read meets one of its two kinds, in turn; in `make soak` both.
			if kinds++; isRead && kinds%2 != i%2 && os.Getenv("BURNISH_KILLS") != "all" {
				continue
			}
			at := r.Number - enrolled
			begin(fmt.Sprintf("%s %d %s", how.name, at, r.Method), func(t *testing.T) { sc.interruptRequest(t, how, at) })
		}
	}
	for at := range s.saves {
		for _, stored := range []bool{false, true} {
			begin(fmt.Sprintf("killed at record %d, stored %v", at+1, stored),
				func(t *testing.T) { sc.interruptRecord(t, at+1, stored) })
		}
	}
	wait()
}

// severalAtOnce gives a function that runs a subtest beside others, and says false once one has
// failed, and one that waits for all. They wait most of the time.
func severalAtOnce(t *testing.T) (begin func(name string, run func(t *testing.T)) bool, wait func()) {
	t.Helper()
	type job struct {
		name string
		run  func(t *testing.T)
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range 12 {
		workers.Go(func() {
			for j := range jobs {
				t.Run(j.name, j.run)
			}
		})
	}
	begin = func(name string, run func(t *testing.T)) bool {
		jobs <- job{name, run}
		return !t.Failed()
	}
	return begin, sync.OnceFunc(func() {
		close(jobs)
		workers.Wait()
	})
}

func (sc *scenario) interruptRequest(t *testing.T, how interruption, at int) {
	s := sc.start(t)
	number := s.bmc.Count() + at
	s.bmc.Inject(redfishsim.Fault{Number: number, Kind: how.kind})
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	if how.kills {
		go func() {
			s.await(ctx, func() bool { return s.bmc.Count() >= number })
			kill()
		}()
	}
	sc.runUntilDone(ctx, t, s)
}

func (sc *scenario) interruptRecord(t *testing.T, at int, stored bool) {
	s := sc.start(t)
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	s.onSave = func(n int, store func() error) error {
		if n != at {
			return store()
		}
		if stored {
			if err := store(); err != nil {
				return err
			}
		}
		kill()
		return context.Canceled
	}
	sc.runUntilDone(ctx, t, s)
}

// runUntilDone runs the step, and once more where it was killed.
func (sc *scenario) runUntilDone(ctx context.Context, t *testing.T, s *stepper) {
	t.Helper()
	_, err := s.runIn(ctx, sc.step, sc.args)
	if ctx.Err() != nil {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		_, err = s.run(sc.step, sc.args)
	}
	require.NoError(t, err, "said: %s", strings.Join(s.said, " | "))
	sc.requireEnd(t, s)
}

// await waits until is holds, or ctx has ended.
func (s *stepper) await(ctx context.Context, is func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// swapEverywhere puts another server behind the BMC before each read of the step. Nothing may be
// changed after that. (Between the read and the change that it is for, nothing helps.)
func (sc *scenario) swapEverywhere(t *testing.T) {
	t.Helper()
	s := sc.start(t)
	enrolled := s.bmc.Count()
	_, err := s.run(sc.step, sc.args)
	require.NoError(t, err)
	for at := range s.bmc.Count() - enrolled {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			bmc := startHooked(t, sc.personality, quickBMC)
			s := unenrolled(t, bmc.Server)
			s.enrolled = sc.enrolled
			var changes atomic.Int64 // when the server was swapped
			changes.Store(-1)
			swap := func(r *http.Request) {
				if changes.Load() >= 0 || s.bmc.Count() < at || r.Method != http.MethodGet {
					return
				}
				s.bmc.Change(func(state *redfishsim.State) { state.Serial, state.ChassisSerial = "OTHER1", "OTHER1" })
				changes.Store(int64(s.bmc.Changes()))
			}
			bmc.before.Store(&swap)
			_, err := s.run(sc.step, sc.args)
			if changes.Load() < 0 {
				return // it was faster this time
			}
			require.Equal(t, device.CodeSerialMismatch, code(err), "%v", err)
			require.EqualValues(t, changes.Load(), s.bmc.Changes(), "something was changed on another server")
		})
	}
}
