package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/redfishsim"
)

// trouble is what happens at one request.
type trouble struct {
	name  string
	reads bool // it is worth its time also at a read
	after bool // at a read only after a write
	// at arranges for it at the request of this number, from now on.
	at func(s *stepper, number int)
}

var errKilled = errors.New("the worker was killed")

func faultAt(f redfishsim.Fault) func(s *stepper, number int) {
	return func(s *stepper, number int) {
		once := f
		once.Number = s.bmc.Count() + number
		s.bmc.Inject(once)
	}
}

// killAt ends the attempt at a request, before or after the BMC has carried it out, as a kill -9 does:
// nothing is journaled any more.
func killAt(hangs redfishsim.FaultKind) func(s *stepper, number int) {
	return func(s *stepper, number int) { faultAt(redfishsim.Fault{Kind: hangs, Then: s.kill})(s, number) }
}

var troubles = []trouble{
	{"cut before", false, false, faultAt(redfishsim.Fault{Kind: redfishsim.CutBefore})},
	{"cut after", false, false, faultAt(redfishsim.Fault{Kind: redfishsim.CutAfter})},
	{"restart before", true, true, faultAt(redfishsim.Fault{Kind: redfishsim.RestartBefore})},
	{"restart after", false, false, faultAt(redfishsim.Fault{Kind: redfishsim.RestartAfter})},
	{"unavailable", false, false, faultAt(redfishsim.Unavailable(redfishsim.Fault{}))},
	{"unauthorized", false, false, faultAt(redfishsim.Unauthorized(redfishsim.Fault{}))},
	{"500 after", false, false, faultAt(redfishsim.Fault{Kind: redfishsim.RespondAfter, Status: 500})},
	{"killed before", true, false, killAt(redfishsim.HangBefore)},
	{"killed after", false, false, killAt(redfishsim.HangAfter)},
}

// killAtRecord ends the attempt at a record of its journal, which is stored or not.
func (s *stepper) killAtRecord(at int, stored bool) {
	s.onSave = func(n int, store func() error) error {
		if n != at {
			return store()
		}
		if stored {
			require.NoError(s.t, store())
		}
		s.kill()
		return errKilled
	}
}

// kill ends the running attempt.
func (s *stepper) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	s.kills++
	if s.cancel != nil {
		s.cancel(errKilled)
	}
}

// toTheEnd runs a step as the workflow does: after a crash or a transient fault again.
func (s *stepper) toTheEnd(step string, args any) (note string, err error) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		note, err = s.attempt(step, args)
		f, isFault := device.AsFault(err)
		if !(errors.Is(err, errKilled) || isFault && f.Class == device.Transient) || time.Now().After(deadline) {
			return note, err
		}
		<-time.After(2 * time.Millisecond)
	}
}

// attempt runs a step once, in a worker that was just started where the last one was killed.
func (s *stepper) attempt(step string, args any) (note string, err error) {
	s.t.Helper()
	ctx, cancel := context.WithCancelCause(s.t.Context())
	defer cancel(nil)
	s.mu.Lock()
	if s.dead {
		s.restarted()
	}
	s.dead, s.cancel = false, cancel
	s.mu.Unlock()
	note, err = s.runIn(ctx, step, args)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return "", errKilled
	}
	return note, err
}

// ordeal runs a step with each trouble at its requests, each on a clock of its own. build makes a server,
// and check what must hold in the end, whichever it is.
func ordeal(t *testing.T, build func(t *testing.T) *stepper, step string, args any,
	check func(t *testing.T, s *stepper, err error), atReads bool) {
	t.Helper()
	var log []redfishsim.Request
	records := 0
	virtually(t, func(t *testing.T) {
		s := build(t)
		before := s.bmc.Count()
		_, err := s.toTheEnd(step, args)
		require.NoError(t, err)
		s.requireNoHarm()
		log, records = s.bmc.Requests()[before:], s.saves
		check(t, s, err)
	})
	runs, faults := 0, map[device.Code]int{}
	var mu sync.Mutex
	run := func(t *testing.T, disturb func(s *stepper)) {
		s := build(t)
		s.saves = 0
		disturb(s)
		_, err := s.toTheEnd(step, args)
		if err != nil {
			f, isFault := device.AsFault(err)
			require.True(t, isFault, "%v", err)
			require.Equal(t, device.NeedsOperator, f.Class, "%v", err)
			require.NotContains(t, f.Message, s.bmc.Password)
			mu.Lock()
			faults[f.Code]++
			mu.Unlock()
		}
		s.bmc.ClearFaults()
		s.requireNoHarm()
		check(t, s, err)
	}
	begin, wait := severalAtOnce(t)
	defer wait()
	for _, what := range troubles {
		what.reads = what.reads && atReads
		for _, number := range worthTrouble(log, what) {
			r := log[min(number, len(log))-1]
			if what.name == "unauthorized" && isSessions(r.Path) {
				continue // a password that is refused is the operator's at once
			}
			runs++
			name := fmt.Sprintf("%s request %d %s %s", what.name, number, r.Method, strings.ReplaceAll(r.Path, "/", " "))
			if !begin(name, func(t *testing.T) { run(t, func(s *stepper) { what.at(s, number) }) }) {
				return
			}
		}
	}
	for at := range 2 * records {
		runs++
		name, stored := fmt.Sprintf("killed at record %d, stored %v", at/2+1, at%2 == 1), at%2 == 1
		begin(name, func(t *testing.T) { run(t, func(s *stepper) { s.killAtRecord(at/2+1, stored) }) })
	}
	wait()
	t.Logf("%d requests, %d runs, with the operator ended %v", len(log), runs, faults)
}

// virtually runs a test on a clock of its own, which goes on when all that the test has begun waits: what
// takes minutes takes no longer than its work.
func virtually(t *testing.T, run func(t *testing.T)) {
	t.Helper()
	now := time.Now().Round(0)
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(now)) // it begins in 2000, when the certificates are not valid yet
		run(t)
	})
}

// severalAtOnce gives a function that runs a subtest beside others, on a clock of its own, and says false
// once one has failed, and one that waits for all.
func severalAtOnce(t *testing.T) (begin func(name string, run func(t *testing.T)) bool, wait func()) {
	t.Helper()
	type job struct {
		name string
		run  func(t *testing.T)
	}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				t.Run(j.name, func(t *testing.T) { virtually(t, j.run) })
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

// quickBMC makes the server of a test that runs a step many times fast.
func quickBMC(c *redfishsim.Config, _ *redfishsim.State) {
	d := &c.Delays
	d.PowerOn, d.PowerOff, d.Shutdown, d.POST, d.Settle, d.BMCRestart = 2*time.Millisecond, 2*time.Millisecond,
		4*time.Millisecond, 8*time.Millisecond, 4*time.Millisecond, 10*time.Millisecond
}

// worthTrouble are the numbers of the requests of a run at which a trouble is worth its time.
// Each write has each one. Of reads of one path that follow each other, the first counts and
// those after a write; a read has no effect, so that before and after it are the same.
func worthTrouble(log []redfishsim.Request, what trouble) []int {
	var numbers []int
	seen := map[string]bool{}
	sinceWrite := 100
	for i, r := range log {
		read := r.Method == http.MethodGet
		sinceWrite++
		if !read {
			sinceWrite = 0
		}
		if !read || what.reads && (!seen[r.Path] && !what.after || sinceWrite <= 2) {
			numbers = append(numbers, i+1)
		}
		seen[r.Path] = true
	}
	return numbers
}
