package redfish

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/internal/testkit/redfishsim"
)

// quickTiming is that of the simulated BMCs, which do in milliseconds what others do in minutes.
// What only bounds a wait for something that comes is long: the machine runs other tests, too.
var quickTiming = timing{
	request: 20 * time.Second, login: 20 * time.Second,
	firstPause: time.Millisecond, longestPause: 5 * time.Millisecond,
	restart: time.Minute, look: 20 * time.Second,
	interval: 10 * time.Microsecond,
	power:    20 * time.Second, graceful: 50 * time.Millisecond, post: 20 * time.Second,
	settle: 60 * time.Millisecond, blindPOST: 300 * time.Millisecond, stall: 20 * time.Second,
}

// stepper runs steps of one server on a simulated BMC, with the journal of one clean.
type stepper struct {
	t        *testing.T
	bmc      *redfishsim.Server
	driver   *Driver
	target   hardware.Target
	enrolled device.Identity
	settings device.StepSettings

	mu      sync.Mutex
	dead    bool // the worker was killed: nothing is journaled any more
	kills   int
	cancel  context.CancelCauseFunc
	journal map[string][]byte
	saves   int
	// onSave is called instead of storing, with the record's number.
	onSave   func(n int, store func() error) error
	mayGoOn  func() error
	said     []string
	progress []int
}

func newStepper(t *testing.T, p redfishsim.Personality, options ...redfishsim.Option) *stepper {
	t.Helper()
	return stepperOf(t, redfishsim.StartInMemory(t, p, options...))
}

// memoryDir is a directory that costs a disk nothing, where there is one: each session is written
// down, and flushed.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "burnish-redfish-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

// unenrolled gives the stepper of a server of which nothing was read.
func unenrolled(t *testing.T, bmc *redfishsim.Server) *stepper {
	t.Helper()
	d := New(Host{
		StateDir: memoryDir(t),
		Allow:    func(string) error { return nil },
		Secret: func(string) (host.Secret, error) {
			return host.Secret{Username: bmc.Username, Password: bmc.Password, CA: bmc.CA}, nil
		},
	})
	d.timing = quickTiming
	if bmc.Dial != nil {
		d.dial = bmc.Dial
	}
	return &stepper{
		t: t, bmc: bmc, driver: d, journal: map[string][]byte{}, mayGoOn: func() error { return nil },
		target: hardware.Target{Name: "node1", Driver: "redfish", Settings: map[string]string{"url": bmc.SystemURL,
			"secret": "rack"}},
	}
}

// enrollments are those of the servers of earlier tests, by what the servers were: to read one takes more
// requests than most steps.
var enrollments sync.Map

// stepperOf enrolls the server behind bmc with the drives that it has now.
func stepperOf(t *testing.T, bmc *redfishsim.Server) *stepper {
	t.Helper()
	s := unenrolled(t, bmc)
	is := bmc.State()
	is.LastReset, is.POSTStart, is.POSTDue = time.Time{}, time.Time{}, time.Time{}
	what, err := json.Marshal([]any{bmc.Config(), is})
	require.NoError(t, err)
	if known, again := enrollments.Load(string(what)); again {
		s.enrolled = known.(device.Identity)
		return s
	}
	h, err := s.driver.connect(s.target)
	require.NoError(t, err)
	system, err := h.readSystem(t.Context())
	require.NoError(t, err)
	s.enrolled, err = h.identify(t.Context(), system)
	require.NoError(t, err)
	drives, err := h.drives(t.Context())
	require.NoError(t, err)
	setup, err := h.readSetup(t.Context())
	require.NoError(t, err)
	s.enrolled.Properties, err = device.Properties{Drives: driveProperties(drives), Setup: setup}.Text()
	require.NoError(t, err)
	require.NoError(t, h.Close())
	enrollments.Store(string(what), s.enrolled)
	return s
}

// run makes one attempt of a step.
func (s *stepper) run(step string, args any) (note string, err error) {
	s.t.Helper()
	return s.runIn(s.t.Context(), step, args)
}

func (s *stepper) runIn(ctx context.Context, step string, args any) (note string, err error) {
	s.t.Helper()
	opened, err := s.driver.Open(ctx, s.target, s.enrolled, true)
	if err != nil {
		return "", err
	}
	run := hardware.StepRun{
		Step: step, Rest: later(step), Settings: s.settings, MayGoOn: s.mayGoOn, Save: s.save, Load: s.load,
		Progress: func(percent int, doing string) error {
			s.mu.Lock()
			s.said, s.progress = append(s.said, doing), append(s.progress, percent)
			s.mu.Unlock()
			return s.mayGoOn()
		},
	}
	if args != nil {
		run.Args, err = json.Marshal(args)
		require.NoError(s.t, err)
	}
	runner, is := opened.(hardware.StepRunner)
	require.True(s.t, is)
	note, err = runner.RunStep(ctx, run)
	if closed := opened.Close(); !s.isDead() {
		require.NoError(s.t, closed)
	}
	return note, err
}

// later are the steps of a full clean after this one.
func later(step string) []string { return steps()[slices.Index(steps(), step)+1:] }

func (s *stepper) isDead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

func (s *stepper) save(name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	store := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.dead {
			return errKilled
		}
		s.journal[name] = text
		return nil
	}
	s.saves++
	if s.onSave != nil {
		return s.onSave(s.saves, store)
	}
	return store()
}

func (s *stepper) load(name string, into any) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, found := s.journal[name]
	if !found {
		return false, nil
	}
	return true, json.Unmarshal(text, into)
}

// newClean forgets what the clean has journaled.
func (s *stepper) newClean() { s.journal = map[string][]byte{} }

// code gives the code of a fault.
func code(err error) device.Code {
	f, ok := device.AsFault(err)
	if !ok {
		return ""
	}
	return f.Code
}

// each runs a test for each personality.
func each(t *testing.T, test func(t *testing.T, p redfishsim.Personality)) {
	t.Helper()
	for _, p := range redfishsim.Personalities {
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}
