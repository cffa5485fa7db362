package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/redfish"
	"burnish/internal/host"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/redfishsim"
)

const (
	// maxStepOverhead is the time of a server's clean, to that of its requests alone.
	maxStepOverhead = 1.10
	// maxRequests are those of a clean, but for the looks that only wait.
	maxRequests = 550
)

// serverStep is a step of the whole clean of a server, and its arguments.
type serverStep struct {
	name string
	args any
}

// simulated is the BMC of a server whose work takes seconds.
type simulated struct {
	machine *redfishsim.Machine
	server  *httptest.Server
	system  string // its URL
	ca      string
	user    redfishsim.Config

	mu  sync.Mutex
	log []exchange
}

// simulate starts a server that a tenant has used. Each that is started is like the others.
// Its BMC shows at once what happens: nothing else says when a wait is over.
func simulate(post time.Duration) *simulated {
	s := &simulated{machine: redfishsim.New(redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.Delays = redfishsim.Delays{
			PowerOn: post / 4, PowerOff: post / 4, Shutdown: post / 2, POST: post, Write: post, Verify: post / 4,
			Erase: 3 * post / 2, BMCRestart: post / 2, WarmUp: post / 4, Settle: post / 4, Forget: time.Minute,
		}
	})}
	s.server = httptest.NewUnstartedServer(recorded(s.machine, func(e exchange) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.log = append(s.log, e)
	}))
	s.server.StartTLS()
	s.user = s.machine.Config()
	s.system = s.server.URL + "/redfish/v1/Systems/" + s.user.SystemID
	s.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.server.Certificate().Raw}))
	return s
}

func (s *simulated) stop() {
	s.machine.Close()
	s.server.Close()
}

// requests are those since the last call.
func (s *simulated) requests() []exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

// check proves that the server was cleaned: a figure of another work is none.
func (s *simulated) check() {
	left, state := s.machine.TenantData(), s.machine.State()
	must.Be(len(left) == 0, "the drives %v were not erased", left)
	must.Be(biosVersion(state) == benchBIOS, "the BIOS is at %s", biosVersion(state))
	now := state.BIOS.Attributes["WorkloadProfile"]
	must.Be(now == benchProfile, "the BIOS setting is %v", now)
	bad := s.machine.Violations()
	must.Be(len(bad) == 0, "%s", strings.Join(bad, "; "))
}

// What the clean gives the server.
const (
	benchBIOS    = "9.9.9"
	benchProfile = "TelcoOptimizedProfile"
)

func biosVersion(state redfishsim.State) string {
	for _, c := range state.Components {
		if c.Name == "BIOS" && c.System == "" {
			return c.Version
		}
	}
	return ""
}

// serverSteps are the steps of a server's clean, in their order.
func serverSteps(dir string, from redfishsim.State) []serverStep {
	image := redfishsim.Image("BIOS", benchBIOS)
	path := filepath.Join(dir, "bios.img")
	must.Do(os.WriteFile(path, image, 0o600))
	firmware := map[string]any{"components": []any{map[string]any{
		"component": "BIOS", "from": []string{biosVersion(from)}, "to": benchBIOS,
		"image": path, "sha256": redfishsim.Digest(image),
	}}}
	return []serverStep{
		{"security_check", nil}, {"erase_drives", nil}, {"verify", nil},
		{"firmware_reflash", firmware}, {"verify_firmware", firmware},
		{"bios_reset", nil}, {"bios_apply", map[string]any{"WorkloadProfile": benchProfile}},
		{"verify_properties", nil},
	}
}

// redfish compares the driver's steps with their requests alone.
func (b *bench) redfish(ctx context.Context) {
	rounds, post := scale(b, 4, 1), scale(b, 4*time.Second, 2*time.Second)
	driver, alone := series{}, series{}
	var steps []serverStep
	var most int       // requests of a clean
	var late, open int // requests after the clean, and sessions that are open then
	for round := range rounds {
		b.progress("redfish: round %d of %d", round+1, rounds)
		dir := must.Get(b.folder(fmt.Sprintf("redfish-%d", round)))
		first, second := simulate(post), simulate(post)
		b.atEnd(func() error { first.stop(); second.stop(); return nil })
		steps = serverSteps(dir, first.machine.State())
		requests := cleanServer(ctx, first, dir, steps, driver)
		raw := newReplayer(second)
		eachStep("the requests alone", steps, alone, func(i int) { raw.step(ctx, requests[i]) })
		most = max(most, len(slices.Concat(requests...)))
		first.check()
		second.check()
		late, open = max(late, len(first.requests())), max(open, len(first.machine.OpenSessions()))
	}
	b.note("redfish: %d rounds of a simulated iDRAC's whole clean, %v for POST and for a write of firmware", rounds, post)
	b.add(compared("clean of a server over Redfish (baseline: its requests)", "s", driver[whole],
		alone[whole]).ratioAtMost(maxStepOverhead))
	for _, step := range steps {
		b.add(compared("  "+step.name, "s", driver[step.name], alone[step.name]).ratioAtMost(maxStepOverhead))
	}
	b.add(
		single("  requests, without looks that only wait", "", float64(most)).atMost(maxRequests),
		single("  requests after the clean, while its requests are repeated", "", float64(late)).atMost(0),
		single("  sessions that are open then", "", float64(open)).atMost(0),
	)
}

// whole is the name of the time of all steps.
const whole = "all"

// eachStep does something for each step, and adds the seconds that it takes.
func eachStep(what string, steps []serverStep, into series, do func(i int)) {
	all := 0.0
	for i, step := range steps {
		began := time.Now()
		err := must.Try(func() { do(i) })
		must.Be(err == nil, "%s: %s: %w", what, step.name, err)
		seconds := time.Since(began).Seconds()
		into[step.name], all = append(into[step.name], seconds), all+seconds
	}
	into[whole] = append(into[whole], all)
}

// cleanServer enrolls a server and runs the steps of its clean by the driver, in this process, and returns
// the requests that each took. What a step saves goes to stable storage, as a worker's journal does.
func cleanServer(ctx context.Context, bmc *simulated, dir string, steps []serverStep,
	into series) (requests [][]neededExchange) {
	driver := redfish.New(redfish.Host{
		StateDir: dir, Allow: func(string) error { return nil },
		Secret: func(string) (host.Secret, error) {
			return host.Secret{Username: bmc.user.Username, Password: bmc.user.Password, CA: bmc.ca}, nil
		},
	})
	target := hardware.Target{Name: "node1", Driver: "redfish",
		Settings: map[string]string{"url": bmc.system, "secret": "rack"}}
	found := must.Get(driver.Discover(ctx, target, device.Identity{}))
	bmc.requests()
	eachStep("the driver", steps, into, func(i int) {
		must.Do(runStep(ctx, driver, target, found.Identity, dir, steps[i]))
		requests = append(requests, needed(bmc.requests()))
	})
	return requests
}

func runStep(ctx context.Context, driver hardware.Driver, target hardware.Target, enrolled device.Identity,
	dir string, step serverStep) (err error) {
	target.Step = step.name
	opened, err := driver.Open(ctx, target, enrolled, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	runner, is := opened.(hardware.StepRunner)
	if !is {
		return fmt.Errorf("%s runs no steps", driver.Name())
	}
	run := hardware.StepRun{
		Step: step.name, MayGoOn: func() error { return nil }, Progress: func(int, string) error { return ctx.Err() },
		Save: func(name string, value any) error {
			text, err := json.Marshal(value)
			if err != nil {
				return err
			}
			return atomicfile.Write(filepath.Join(dir, "saved-"+name), text)
		},
		Load: func(name string, into any) (bool, error) {
			text, err := os.ReadFile(filepath.Join(dir, "saved-"+name))
			if errors.Is(err, os.ErrNotExist) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			return true, json.Unmarshal(text, into)
		},
	}
	if step.args != nil {
		if run.Args, err = json.Marshal(step.args); err != nil {
			return err
		}
	}
	_, err = runner.RunStep(ctx, run)
	return err
}
