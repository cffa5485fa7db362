package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
)

// How rough the way to Placement is, in parts of a hundred of Burnish's requests.
const (
	answersLost = 3
	unavailable = 3
	delayed     = 5
	longestWait = 2 * time.Second
	chaosSweep  = 3 * time.Second
)

// roughRoad forwards Burnish's requests to the recorder: some answers are lost, some requests
// refused, some late.
func roughRoad(t *testing.T, target string, random *rand.Rand) string {
	t.Helper()
	var mu sync.Mutex
	dice := func() (what, wait int) {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(100), random.IntN(int(longestWait/time.Millisecond) + 1)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		what, wait := dice()
		if what >= 100-delayed {
			outage(t, time.Duration(wait)*time.Millisecond)
		}
		if what < unavailable {
			http.Error(w, "chaos", http.StatusServiceUnavailable)
			return
		}
		//nolint:noctx // a client that gives up does not undo its request
		on, err := http.NewRequest(r.Method, target+r.URL.RequestURI(), bytes.NewReader(body))
		if err != nil {
			return
		}
		on.Header = r.Header.Clone()
		answer, err := http.DefaultTransport.RoundTrip(on)
		if err != nil || what < unavailable+answersLost {
			if err == nil {
				_ = answer.Body.Close()
			}
			panic(http.ErrAbortHandler) // the connection breaks
		}
		defer answer.Body.Close()
		for name, values := range answer.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body) // the client may have gone
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// chaos is a cloud with a rough road, in which everything happens at once.
type chaos struct {
	*Cloud
	random        *rand.Rand
	control, host *Worker
	slots         []*chaosSlot
}

// chaosSlot is one of Nova's devices.
type chaosSlot struct {
	d        Device
	address  string
	provider string
	instance string // "": Placement has no allocation
	tenants  uint64
}

// newSeed is the seed of a test of chance: another one each time, unless BURNISH_SEED gives it.
func newSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("BURNISH_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("the seed is %d: BURNISH_SEED=%d repeats it", seed, seed)
	return seed
}

// Everything happens at once: Nova allocates, burns or forgets to, deletes, resets and re-creates, workers
// and Placement are killed, and the way to Placement loses answers. What Burnish offers is clean (see
// Cloud), no tenant loses a byte, and in the end each device is clean and offered.
//
// F4, F5, F28
func TestRandomChaosOverPlacement(t *testing.T) {
	t.Parallel()
	length := 20 * time.Second
	if os.Getenv("BURNISH_KILLS") == "all" {
		length = 150 * time.Second
	}
	seed := newSeed(t)
	c := &chaos{Cloud: NewCloud(t, newSite(t)), random: rand.New(rand.NewPCG(seed, 1))}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	c.context = over // what a device says is not asked: its worker may be dead
	road := roughRoad(t, c.Recorder.URL, rand.New(rand.NewPCG(seed, 2)))
	c.access = []string{"OS_AUTH_TYPE=none", "OS_PLACEMENT_ENDPOINT_OVERRIDE=" + road}
	c.control = c.Run(t, "control", c.Env("BURNISH_SWEEP_INTERVAL="+chaosSweep.String())...)
	c.host = c.Run(t, "host", c.Env("BURNISH_SWEEP_INTERVAL="+chaosSweep.String())...)
	for i := range 3 {
		s := &chaosSlot{address: fmt.Sprintf("0000:%02x:00.0", i+1)}
		s.d, s.provider = c.NovaDevice(t, s.address, 4*MiB)
		c.EnrollNovaDevice(t, s.d)
		c.slots = append(c.slots, s)
	}
	lowered := make(chan string, 100)
	c.Recorder.OnChange(func(change openstack.Change) {
		if change.Allocatable() && !change.By.ByScheduler {
			select {
			case lowered <- change.UUID:
			default:
			}
		}
	})
	for end := time.Now().Add(length); time.Now().Before(end); {
		select {
		case provider := <-lowered: // Nova may be waiting for a device
			if i := slices.IndexFunc(c.slots, func(s *chaosSlot) bool {
				return s.provider == provider && s.instance == ""
			}); i >= 0 && c.random.IntN(2) == 0 {
				c.spawn(t, c.slots[i])
			}
		case <-time.After(time.Duration(50+c.random.IntN(700)) * time.Millisecond):
			c.happen(t)
		}
	}
	t.Logf("%s calm", clock(time.Now()))
	for _, s := range c.slots {
		c.leave(t, s)
	}
	for _, s := range c.slots {
		Await(t, 15*time.Second, s.d.Name+" to be clean and offered", func() (bool, string) {
			v, err := c.Workflows().Query(t.Context(), s.d.Name)
			_, zero, _ := s.d.Count(t, 0)
			last, _ := c.Recorder.Latest(s.provider)
			return err == nil && v.DeviceState == device.Available && zero == s.d.Blocks() && last.Allocatable(),
				fmt.Sprintf("%s %s, %d blocks zero, %v", v.DeviceState, v.LastError, zero, err)
		})
	}
}

// happen lets one thing happen.
func (c *chaos) happen(t *testing.T) {
	t.Helper()
	s := c.slots[c.random.IntN(len(c.slots))]
	switch n := c.random.IntN(100); {
	case n < 40 && s.instance == "":
		c.spawn(t, s)
	case n < 75 && s.instance != "":
		c.leave(t, s)
	case n < 75: // it is as it should be
	case n < 81:
		c.bounce(t, c.control)
	case n < 86:
		c.bounce(t, c.host)
	case n < 89:
		t.Logf("%s Placement is restarted", clock(time.Now()))
		c.Placement.Kill(t)
		outage(t, time.Duration(c.random.IntN(3000))*time.Millisecond)
		c.Placement.Restart(t)
	case n < 96 && s.instance == "":
		c.recreate(t, s)
	default:
		t.Logf("%s Nova resets %s", clock(time.Now()), s.d.Name)
		c.Nova.SetReserved(s.provider, 0)
	}
}

// spawn gives the device to an instance, if Placement offers it. Nova may forget to burn it.
func (c *chaos) spawn(t *testing.T, s *chaosSlot) {
	t.Helper()
	instance := uuid.NewString()
	if err := c.Nova.Allocate(t.Context(), s.provider, instance); err != nil {
		return
	}
	s.instance = instance
	// Whoever had the device before left nothing: it was offered.
	_, zero, _ := s.d.Count(t, 0)
	if zero != s.d.Blocks() {
		t.Logf("%s %s was allocated with %d of %d blocks zero", clock(time.Now()), s.d.Name, zero, s.d.Blocks())
	}
	s.tenants++
	s.d.Stamp(t, s.tenants)
	burns := c.random.IntN(3) > 0
	t.Logf("%s %s is allocated, burned %v", clock(time.Now()), s.d.Name, burns)
	if burns {
		c.Nova.Burn(s.provider)
	}
}

// leave ends the instance, whose bytes must be there.
func (c *chaos) leave(t *testing.T, s *chaosSlot) {
	t.Helper()
	if s.instance == "" {
		return
	}
	s.d.RequireStamps(t, s.tenants)
	t.Logf("%s %s is left", clock(time.Now()), s.d.Name)
	c.Destroy(t, s.instance)
	s.instance = ""
}

// bounce kills a worker, and starts it again.
func (c *chaos) bounce(t *testing.T, w *Worker) {
	t.Helper()
	t.Logf("%s kill -9 of the %s worker", clock(time.Now()), w.Role)
	w.Kill(t)
	outage(t, time.Duration(c.random.IntN(1500))*time.Millisecond)
	w.Start(t)
}

// recreate has Nova delete the provider and make it again, at once or later.
func (c *chaos) recreate(t *testing.T, s *chaosSlot) {
	t.Helper()
	t.Logf("%s Nova re-creates the provider of %s", clock(time.Now()), s.d.Name)
	c.Nova.Delete(s.provider)
	if c.random.IntN(2) == 0 {
		outage(t, time.Duration(c.random.IntN(3000))*time.Millisecond)
	}
	s.provider = c.Nova.Device(c.Root, c.NovaHost, s.address, Class)
	c.Cloud.watch(s.provider, s.d)
}
