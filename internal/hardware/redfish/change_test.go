package redfish

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/redfishsim"
)

// reset is a request that changes something, and can be seen.
func (s *stepper) reset(h *handle) request {
	s.t.Helper()
	system, err := h.readSystem(s.t.Context())
	require.NoError(s.t, err)
	return request{Method: http.MethodPost, Path: string(system.Actions.Reset.Target),
		Body: map[string]any{"ResetType": "ForceOff"}}
}

// F11
func TestTheIdentityIsReadBeforeEachChange(t *testing.T) {
	for name, swap := range map[string]func(*redfishsim.State){
		"serial":       func(s *redfishsim.State) { s.Serial, s.ChassisSerial = "OTHER1", "OTHER1" },
		"manufacturer": func(s *redfishsim.State) { s.Manufacturer = "Other" },
		"SKU":          func(s *redfishsim.State) { s.SKU = "other" },
		"model":        func(s *redfishsim.State) { s.Model = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, p redfishsim.Personality) {
				s := newStepper(t, p)
				h := s.open()
				off := s.reset(h)
				s.bmc.Change(swap)
				_, err := h.change(t.Context(), off)
				fault, ok := device.AsFault(err)
				require.True(t, ok, "%v", err)
				require.Contains(t, []device.Code{device.CodeSerialMismatch, device.CodeIdentityChanged}, fault.Code)
				require.Empty(t, s.bmc.Writes())
				require.NoError(t, h.Close())
				for _, step := range steps() {
					_, err := s.run(step, nil)
					require.Error(t, err)
				}
				require.Empty(t, s.bmc.Writes())
			})
		})
	}
}

// F13, F32
func TestAChangeAsksTheRulesAndTheLease(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	h := s.open()
	off := s.reset(h)
	over := errors.New("the lease has ended")
	_, err := h.change(hardware.WithLease(t.Context(), func(context.Context) error { return over }), off)
	require.ErrorIs(t, err, over)
	no := hardware.Refused(device.CodeNotAllowed, "", "not any more")
	s.driver.host.Allow = func(string) error { return no }
	_, err = h.change(t.Context(), off)
	require.ErrorIs(t, err, no)
	s.driver.host.Allow = nil
	_, err = h.change(t.Context(), off)
	require.Equal(t, device.CodeNotAllowed, code(err))
	require.Empty(t, s.bmc.Writes())
	require.NoError(t, h.Close())
}

// afterTheLook has a request of another step's go first, once the next change has read who the system is.
func (s *stepper) afterTheLook(h *handle, do func()) {
	s.driver.host.Allow = func(string) error {
		s.driver.host.Allow = func(string) error { return nil }
		h.bmc.turn <- struct{}{}
		go func() {
			defer func() { <-h.bmc.turn }()
			do()
		}()
		return nil
	}
}

// F11: the identity that was read is that of the BMC with the session that has ended.
func TestAChangeIsNotSentAfterALogin(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	h := s.open()
	off := s.reset(h)
	s.afterTheLook(h, func() {
		h.bmc.expired = true
		s.bmc.Change(func(state *redfishsim.State) { state.Serial, state.ChassisSerial = "OTHER1", "OTHER1" })
	})
	_, err := h.change(t.Context(), off)
	require.Equal(t, device.CodeSerialMismatch, code(err), "%v", err)
	require.Empty(t, s.bmc.Writes())
	require.NoError(t, h.Close())
}

// F32
func TestTheLeaseIsAskedAfterTheTurnHasCome(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	h := s.open()
	off := s.reset(h)
	over, ended := errors.New("the lease has ended"), atomic.Bool{}
	s.afterTheLook(h, func() { ended.Store(true) })
	_, err := h.change(hardware.WithLease(t.Context(), func(context.Context) error {
		if ended.Load() {
			return over
		}
		return nil
	}), off)
	require.ErrorIs(t, err, over)
	require.Empty(t, s.bmc.Writes())
	require.NoError(t, h.Close())
}

func TestALostChangeIsNotRepeated(t *testing.T) {
	for _, kind := range []redfishsim.FaultKind{redfishsim.CutBefore, redfishsim.CutAfter, redfishsim.RestartBefore,
		redfishsim.RestartAfter} {
		each(t, func(t *testing.T, p redfishsim.Personality) {
			s := newStepper(t, p)
			h := s.open()
			off := s.reset(h)
			s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Path: "*Reset*", Kind: kind})
			_, err := h.change(t.Context(), off)
			require.True(t, isLost(err), "%v", err)
			require.Len(t, s.bmc.Writes(), 1)
			require.NoError(t, h.Close())
		})
	}
}

// A request that never left this host is sent when the BMC is back.
func TestAChangeWaitsForABMCThatIsAway(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	h := s.open()
	off := s.reset(h)
	h.patience = quickTiming.restart
	s.bmc.RestartBMC()
	_, err := h.change(t.Context(), off)
	require.NoError(t, err)
	require.Len(t, s.bmc.Writes(), 1)
	require.NoError(t, h.Close())
}

func TestAReadWaitsForTheBMCAndSaysSo(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	h := s.open()
	h.patience = quickTiming.restart
	s.bmc.Configure(func(c *redfishsim.Config) { c.Delays.BMCRestart = time.Hour }) // it ends when the test says so
	var said []string
	h.report = func(doing string) error {
		said = append(said, doing)
		s.bmc.Hurry()
		return nil
	}
	s.bmc.RestartBMC()
	require.NoError(t, h.Check(t.Context()))
	require.Contains(t, said[0], "waits for the BMC")
	s.bmc.Inject(redfishsim.Unavailable(redfishsim.Fault{Path: "/redfish/v1/Systems/*", Times: 2}))
	said = nil
	require.NoError(t, h.Check(t.Context()))
	require.Len(t, said, 2)
	require.Contains(t, said[0], "503")

	stop := errors.New("stop")
	h.report = func(string) error { return stop }
	s.bmc.RestartBMC()
	require.ErrorIs(t, h.Check(t.Context()), stop)
	h.report, h.patience = nil, 5*time.Millisecond
	err := h.Check(t.Context())
	require.Equal(t, device.CodeBMCUnreachable, code(err), "%v", err)
	s.bmc.Hurry()
	h.patience = quickTiming.restart
	require.NoError(t, h.Check(t.Context()))

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	require.ErrorIs(t, h.Check(ctx), stop)
	s.driver.timing.request = 10 * time.Millisecond
	h.patience = 20 * time.Millisecond
	s.bmc.Inject(redfishsim.Fault{Kind: redfishsim.HangBefore, Times: -1})
	err = h.Check(t.Context())
	require.Equal(t, device.CodeBMCUnreachable, code(err), "%v", err)
	s.bmc.ClearFaults()
	require.NoError(t, h.Close())
}

func TestAResourceThatChangesAllTheTimeIsGivenUp(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	s.bmc.Inject(redfishsim.Fault{Method: http.MethodPost, Kind: redfishsim.Respond, Status: http.StatusPreconditionFailed,
		Times: -1})
	off := s.reset(h)
	off.Path = h.system
	_, err := h.change(t.Context(), off)
	require.True(t, hasStatus(err, http.StatusPreconditionFailed), "%v", err)
	require.NoError(t, h.Close())
}

func TestAnAnswerIsBounded(t *testing.T) {
	s := newStepper(t, redfishsim.IDRAC)
	s.bmc.Inject(redfishsim.Fault{Path: "/redfish/v1/Systems/*", Kind: redfishsim.Respond, Status: 200,
		Body: strings.Repeat("x", largestAnswer+1)})
	_, err := s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.Equal(t, device.CodeToolOutputInvalid, code(err), "%v", err)
	s.bmc.Inject(redfishsim.Fault{Path: "/redfish/v1/Systems/*", Kind: redfishsim.Respond, Status: 200, Body: "<html>"})
	_, err = s.driver.Open(t.Context(), s.target, s.enrolled, true)
	require.Equal(t, device.CodeToolOutputInvalid, code(err), "%v", err)
	require.Empty(t, s.bmc.OpenSessions())
}

// No other code of the driver sends a request that changes something.
func TestOnlyChangeAndTheSessionSend(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	allowed := map[string][]string{
		"transmit": {"inTurn", "makeSession", "readRoot", "deleteSession", "deleteLeft", "setPassword"},
		"exchange": {"Get", "change"}, "inTurn": {"exchange"}, "Do": {"transmit"}, "newRequest": {"transmit"},
	}
	calls := map[string]int{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, declared := range parsed.Decls {
			function, is := declared.(*ast.FuncDecl)
			if !is {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is {
					return true
				}
				selector, is := call.Fun.(*ast.SelectorExpr)
				if !is {
					return true
				}
				callers, guarded := allowed[selector.Sel.Name]
				if guarded {
					require.Contains(t, callers, function.Name.Name, "%s: %s calls %s", file, function.Name.Name, selector.Sel.Name)
					calls[selector.Sel.Name]++
				}
				return true
			})
		}
	}
	for name := range allowed {
		require.Positive(t, calls[name], name)
	}
}
