package e2e

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/cluster"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// clusterSite is a site on a cluster whose processes may be killed one by one: two control workers and
// three hosts.
type clusterSite struct {
	*Site
	cluster   *cluster.Cluster
	controls  []*Worker
	hosts     []*Worker
	over      time.Time // of the incidents
	incidents sync.Map  // what → *atomic.Int64
	turns     atomic.Int64
	repeats   atomic.Int64
}

func newClusterSite(t *testing.T) *clusterSite {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{Programs: filepath.Dir(programs.Server), Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	s := &clusterSite{Site: siteOn(t, &site.Server{Address: c.Address}), cluster: c}
	for range 2 {
		s.controls = append(s.controls, s.Run(t, "control"))
	}
	for i := range 3 {
		w := s.Worker(t, "host", "BURNISH_SWEEP_INTERVAL=5s")
		w.Host, w.StateDir = site.NewHost(), filepath.Join(s.Dir, fmt.Sprint("host", i+1))
		w.Start(t)
		s.hosts = append(s.hosts, w)
	}
	return s
}

// devices are a quick, a slow and a real one of each host.
func (s *clusterSite) devices(t *testing.T) (all []Device) {
	t.Helper()
	for i, host := range s.hosts {
		quick := host.FakeDevice(fmt.Sprintf("quick%d", i), 2*MiB)
		slow := host.FakeDevice(fmt.Sprintf("slow%d", i), 80*MiB, "delay=3s")
		for _, d := range []site.Device{quick, slow, s.FileDevice(fmt.Sprintf("disk%d", i), 80*MiB)} {
			require.NoError(t, d.Stamp(1))
			s.Enroll(t, Device(d), "--provide", "--host", host.Host)
			all = append(all, Device(d))
		}
	}
	return all
}

// ask sends a request until it has a definite answer, and says whether it was carried out. What happens
// meanwhile may take the answer of each attempt.
func (s *clusterSite) ask(t *testing.T, d Device, v contract.Verb, in contract.Input) (done bool) {
	t.Helper()
	Await(t, 2*time.Minute, v.Name+" of "+d.Name+" to be answered", func() (bool, string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := s.Workflows().Do(ctx, d.Name, v, in)
		refusal, known := client.Fault(err)
		done = err == nil
		if !done && !(known && refusal.Fault.Code == device.CodeRefused) {
			s.repeats.Add(1)
			return false, fmt.Sprint(err)
		}
		return true, ""
	})
	return done
}

// turnOver gives the device from tenant to tenant until the incidents are over. Two instances want it at
// once: one gets it, clean, and keeps every byte until it leaves.
func (s *clusterSite) turnOver(t *testing.T, d Device, random *rand.Rand) {
	t.Helper()
	for nonce := uint64(2); ; nonce++ {
		Await(t, 2*time.Minute, d.Name+" to be returned", func() (bool, string) {
			p, err := s.Site.Site.Provider(d.Name)
			return err == nil && p.Reserved == 0, fmt.Sprint(p, err)
		})
		d.RequireZero(t) // at that very moment
		s.AwaitStatus(t, d.Name, time.Minute, "to be available", func(v contract.DeviceStatus) bool {
			return v.DeviceState == device.Available && !v.Dirty
		})
		if !time.Now().Before(s.over) {
			return
		}
		winner := ""
		Await(t, 4*time.Minute, d.Name+" to be bound", func() (bool, string) {
			var wins [2]bool
			instance := func(i int) string { return Instance(fmt.Sprint(d.Name, nonce, i)) }
			each(t, wins[:], func(i int, _ bool) {
				wins[i] = s.ask(t, d, contract.VerbBind, contract.BindInput{Instance: instance(i), Request: "bind"})
			})
			require.NotEqual(t, [2]bool{true, true}, wins, "%s was bound twice", d.Name)
			for i, won := range wins {
				if won {
					winner = instance(i)
				}
			}
			_, seen, _ := s.query(t.Context(), d.Name)
			return winner != "", seen
		})
		d.RequireZero(t)
		d.Stamp(t, nonce)
		outage(t, upTo(random, 3*time.Second))
		d.RequireStamps(t, nonce)
		require.True(t, s.ask(t, d, contract.VerbUnbind, contract.UnbindInput{Instance: winner}), "unbind of %s", d.Name)
		s.turns.Add(1)
	}
}

// part is a process of the cluster or of Burnish, which a service manager starts again.
type part struct {
	name  string
	now   func() *proc.Process
	start func(context.Context) error
}

// startAgain starts the part until it answers, as a service manager does.
func (p part) startAgain(t *testing.T) {
	t.Helper()
	Await(t, time.Minute, p.name+" to start", func() (bool, string) {
		err := p.start(t.Context())
		return err == nil, fmt.Sprint(err)
	})
}

// upTo is any time that is shorter than the longest.
func upTo(random *rand.Rand, longest time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(longest)))
}

// incident is something that happens to a part. When it returns the part is there again.
type incident struct {
	what string
	do   func(*testing.T, *rand.Rand)
}

// killed is the incident of kill -9.
func killed(p part) incident {
	return incident{"kill -9 of " + p.name, func(t *testing.T, random *rand.Rand) {
		require.NoError(t, p.now().Kill())
		outage(t, upTo(random, 3*time.Second))
		p.startAgain(t)
	}}
}

// frozen is the incident of SIGSTOP, for longer than servers wait for each other.
func frozen(p part) incident {
	return incident{"SIGSTOP of " + p.name, func(t *testing.T, random *rand.Rand) {
		if !p.now().Alive() { // it ended by itself a moment ago
			return
		}
		require.NoError(t, p.now().Freeze())
		outage(t, time.Second+upTo(random, 14*time.Second))
		require.NoError(t, p.now().Thaw())
	}}
}

// play lets all of these happen to the parts, one after the other in any order, again and again, each at
// least once, with this pause on average. A part that ended by itself is started again.
func (s *clusterSite) play(t *testing.T, random *rand.Rand, parts []part, pause time.Duration,
	incidents []incident) {
	t.Helper()
	count := func(what string) {
		n, _ := s.incidents.LoadOrStore(what, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
	}
	for round := 0; round == 0 || time.Now().Before(s.over); round++ {
		for _, i := range random.Perm(len(incidents)) {
			if round > 0 && !time.Now().Before(s.over) {
				break
			}
			outage(t, pause/2+upTo(random, pause))
			for _, p := range parts {
				if !p.now().Alive() {
					t.Logf("%s %s ended by itself: %s", clock(time.Now()), p.name, p.now().Tail())
					count(p.name + " ended by itself")
					p.startAgain(t)
				}
			}
			t.Logf("%s %s", clock(time.Now()), incidents[i].what)
			incidents[i].do(t, random)
			count(incidents[i].what)
		}
	}
	for _, p := range parts {
		if !p.now().Alive() {
			p.startAgain(t)
		}
	}
}

// Processes of a cluster, of its database and of the workers are killed and stopped while devices turn over.
// None is lost, none is offered with a byte of its last tenant, none is bound twice.
//
// F1, F2, F3, F5
func TestClusterChaos(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("BURNISH_CHAOS"), "60s"))
	require.NoError(t, err)
	seed := newSeed(t)
	s := newClusterSite(t)
	devices := s.devices(t)
	for _, d := range devices {
		s.AwaitReturned(t, d, time.Minute)
	}
	s.over = time.Now().Add(length)
	database := s.cluster.Database
	servers := []part{{"the database", func() *proc.Process { return database.Process }, database.Start}}
	ofServers := []incident{killed(servers[0])}
	for i, server := range s.cluster.Servers {
		p := part{fmt.Sprint("server ", i+1), func() *proc.Process { return server.Process }, server.Start}
		servers, ofServers = append(servers, p), append(ofServers, killed(p), frozen(p))
	}
	var workers []part
	var ofWorkers []incident
	for _, alike := range [][]*Worker{s.controls, s.hosts} {
		for i, w := range alike {
			p := part{fmt.Sprintf("%s worker %d", w.Role, i+1), func() *proc.Process { return w.Process }, w.Worker.Start}
			workers, ofWorkers = append(workers, p), append(ofWorkers, killed(p))
		}
	}
	// Each has a sequence of its own, whatever the others do meanwhile.
	stream := func(i int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(i))) }
	parts := map[string]func(*testing.T){
		"servers": func(t *testing.T) { s.play(t, stream(0), servers, 6*time.Second, ofServers) },
		"workers": func(t *testing.T) { s.play(t, stream(1), workers, 4*time.Second, ofWorkers) },
	}
	for i, d := range devices {
		parts[d.Name] = func(t *testing.T) { s.turnOver(t, d, stream(2+i)) }
	}
	beside(t, parts)
	Await(t, 30*time.Second, "the list of all devices", func() (bool, string) {
		all, err := s.List(t.Context())
		bad := slices.ContainsFunc(all, func(v contract.DeviceStatus) bool {
			return v.DeviceState != device.Available || v.Dirty || v.NeedsOperator
		})
		return err == nil && len(all) == len(devices) && !bad, fmt.Sprint(all, err)
	})
	s.incidents.Range(func(what, count any) bool {
		t.Logf("%3d × %s", count.(*atomic.Int64).Load(), what)
		return true
	})
	t.Logf("%d turnovers of %d devices; %d requests were sent again", s.turns.Load(), len(devices),
		s.repeats.Load())
	require.Positive(t, s.turns.Load())
}
