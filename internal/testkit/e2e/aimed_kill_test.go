package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	updatepb "go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflowservice/v1"

	"burnish/internal/device"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// An aimed kill: worker and server are killed together in the moment in which a write of an act
// has reached the inventory, and its answer has not reached the worker. The proxy before
// Placement holds that answer until both are dead. Kills at random almost never find this moment.

// blow is how worker and server are killed, and what happens until they are back.
type blow struct {
	name string
	gone bool          // the client dies with them; otherwise it waits for its answer
	down time.Duration // until they are started again
	// first says that another command reaches the server before the worker is back; its client
	// stays. It implies gone.
	first bool
}

// The indices of the blows.
const (
	alive = iota
	gone
	first
)

var blows = []blow{
	alive: {name: "client alive"},
	gone:  {name: "client gone", gone: true},
	first: {name: "another command first", gone: true, first: true},
	{name: "client alive, 20 s later", down: 20 * time.Second},
	{name: "client gone, 20 s later", gone: true, down: 20 * time.Second},
	{name: "another command first, 20 s later", gone: true, first: true, down: 20 * time.Second},
}

// struckAtOnce is how many acts are struck by one blow at most: all their writes must have arrived
// within the second that a call in a workflow task may take.
const struckAtOnce = 5

// holdFor is how long the first of them is held for the others.
const holdFor = 500 * time.Millisecond

// restWithin is how long an act may take to come to rest after a blow, restsFor how long it must
// rest then. needs_operator comes after tellAfter. There are no sweeps: what a blow leaves behind
// is put right because the worker is back, not by the next sweep, which would hide it.
const (
	restWithin = patience * 40 * time.Second
	restsFor   = 3 * time.Second
	tellAfter  = 2 * time.Second
)

// Worker and server are killed after every write that any act makes. Then: an act that was
// refused has no effect, one that was granted all of it, one whose client is gone either; an
// instance's list is what its devices say; nothing stays reserved or dirty without an
// operator called; what an operator holds is neither erased nor offered, a tenant keeps his
// bytes for as long as he has the device, and nothing dirty is offered (see Cloud). Some acts
// meet the blow that is their worst; with BURNISH_KILLS=all each meets every blow after each of
// its writes, and every other command. BURNISH_AIM is a regular expression for the names of the acts, BURNISH_BLOW for
// those of the blows that all get.
//
// F30, F42, F43
func TestKillAtEveryWrite(t *testing.T) {
	t.Parallel()
	const anvils = 2
	acts := map[int][]*aimedAct{}
	wanted, n := regexp.MustCompile(os.Getenv("BURNISH_AIM")), 0
	for _, x := range aimedActs() {
		if wanted.MatchString(x.name) && (x.nth > 0 || os.Getenv("BURNISH_KILLS") == "all") {
			acts[n%anvils] = append(acts[n%anvils], x)
			n++
		}
	}
	for i := range anvils {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if len(acts[i]) > 0 {
				newAnvil(t).strikeAll(t, acts[i])
			}
		})
	}
}

// strikeAll counts the writes of each act, and then strikes after each of them.
func (k *anvil) strikeAll(t *testing.T, acts []*aimedAct) {
	var all []*aim
	for _, x := range acts {
		all = append(all, &aim{k: k, act: x})
	}
	k.strikeTogether(t, all)
	var cases []*aim
	for _, a := range all {
		x := a.act
		x.leads = a.writes
		t.Logf("%s: writes after %v", x.name, x.leads)
		add := func(n, by int) {
			if !blows[by].first {
				cases = append(cases, &aim{k: k, act: x, nth: n, blow: blows[by]})
				return
			}
			for _, other := range x.first {
				cases = append(cases, &aim{k: k, act: x, nth: n, blow: blows[by], other: other})
			}
		}
		if os.Getenv("BURNISH_KILLS") != "all" {
			if x.nth <= len(x.leads) {
				add(x.nth, x.by)
			}
			continue
		}
		wanted := regexp.MustCompile(os.Getenv("BURNISH_BLOW"))
		for n := range x.leads {
			for by := range blows {
				if wanted.MatchString(blows[by].name) {
					add(n+1, by)
				}
			}
		}
	}
	for _, b := range blows {
		k.strikeTogether(t, slices.DeleteFunc(slices.Clone(cases), func(a *aim) bool { return a.blow != b }))
	}
}

// strikeTogether strikes aims with the same blow, some at once: those whose writes come at about
// the same time. One whose write had not come by then is struck again alone.
func (k *anvil) strikeTogether(t *testing.T, aims []*aim) {
	slices.SortStableFunc(aims, func(a, b *aim) int { return cmp.Compare(a.lead(), b.lead()) })
	for len(aims) > 0 {
		now, later := aims[:1:1], []*aim(nil)
		creates := now[0].act.creates
		for _, a := range aims[1:] {
			full := a.nth > 0 && len(now) == struckAtOnce
			if full || now[0].again || a.again || creates && a.act.creates {
				later = append(later, a)
				continue
			}
			now, creates = append(now, a), creates || a.act.creates
		}
		k.strike(t, now...)
		for _, a := range now {
			if a.nth > 0 && a.hit == 0 && !a.again {
				later = append(later, &aim{k: k, act: a.act, nth: a.nth, blow: a.blow, other: a.other, again: true})
			}
		}
		aims = later
	}
}

// anvil is a server and a worker that are killed together, with a Placement behind the recorder.
type anvil struct {
	*Cloud
	worker *Worker
	// away is another host, whose worker is not killed: instances move there.
	away *Worker
	mu   sync.Mutex
	n    int
}

// heldByRunbook is the type of devices whose clean waits for an operator.
const heldByRunbook = "HELD"

func newAnvil(t *testing.T) *anvil {
	t.Helper()
	c := NewCloud(t, ownServer(t))
	policy := c.writeFile(t, "policy.yaml", `
runbooks:
  held:
    match: {type: `+heldByRunbook+`}
    steps: [{step: zero}, {step: verify}, {step: hold, args: {reason: look at it}}]
  by-hand:
    steps: [{step: zero}, {step: verify}]
`)
	// The task of a write that a blow interrupts is lost, and with it what it had recorded: until
	// its worker is back the device says that it is still being cleaned (F5). Its bytes count.
	over, cancel := context.WithCancel(t.Context())
	cancel()
	c.context = over
	k := &anvil{Cloud: c}
	env := c.Env("BURNISH_SWEEP_INTERVAL=0", "BURNISH_TELL_AFTER="+tellAfter.String(), "BURNISH_POLICY="+policy)
	k.worker = c.Run(t, "all", env...)
	return k
}

// elsewhere starts the worker of the other host, once.
func (k *anvil) elsewhere(t *testing.T) {
	t.Helper()
	if k.away != nil {
		return
	}
	k.away = k.Worker(t, "host", "BURNISH_DRIVERS=block")
	k.away.Host, k.away.StateDir = site.NewHost(), filepath.Join(k.Dir, "away")
	k.away.Start(t)
}

// run is one act under one blow.
type aim struct {
	k    *anvil
	act  *aimedAct
	blow blow
	nth  int // the write after which it strikes; 0: none does
	// again: an earlier blow fell before the write had come.
	again bool

	devices  []Device
	instance string
	other    string // the command that comes first, about the first device

	before, after []facts
	hit           time.Duration   // how long before the blow the write had arrived; 0: it had not
	writes        []time.Duration // since the command began, where no blow falls
	result        *proc.Result    // nil: the client is gone
	otherErr      error
}

func (a *aim) String() string {
	if a.nth == 0 {
		return a.act.name + ", no blow"
	}
	what := fmt.Sprintf("%s, write %d, %s", a.act.name, a.nth, a.blow.name)
	if a.again {
		what += ", again"
	}
	if a.other != "" {
		what += " (" + a.other + ")"
	}
	return what
}

// must runs a command that has to succeed.
func (a *aim) must(args ...string) error {
	_, err := a.k.Site.Site.Must(context.Background(), patiently(args...)...)
	return err
}

// await waits for a device to be as wanted.
func (a *aim) await(name, what string, ok func(contract.DeviceStatus) bool) error {
	return proc.Await(context.Background(), patience*20*time.Second, 50*time.Millisecond, name+" "+what,
		func() (bool, string) {
			v, err := a.k.Workflows().Query(context.Background(), name)
			return err == nil && ok(v), fmt.Sprintf("%s %s %v", v.DeviceState, v.LastError, err)
		})
}

func (a *aim) awaitState(name string, state device.State) error {
	return a.await(name, "to be "+string(state), func(v contract.DeviceStatus) bool { return v.DeviceState == state })
}

// newDevice makes a device full of the bytes of an earlier tenant, not enrolled yet.
func (a *aim) newDevice(t testing.TB) Device {
	a.k.mu.Lock()
	a.k.n++
	name := fmt.Sprintf("%s-%d", a.k.Host, a.k.n)
	a.k.mu.Unlock()
	d := a.k.File(name, 1*MiB)
	d.Stamp(t, 1)
	a.k.watch(contract.DeviceUUID(name), d)
	a.devices = append(a.devices, d)
	return d
}

// facts are what is known of a device at rest.
type facts struct {
	State         device.State
	OnHold        bool // in maintenance
	Dirty, Called bool
	Instance      string
	Request, Tag  string
	Managed       bool
	Reserved      int // -1: there is no provider
	Bytes         string
	Fault         string
	Error         string
	Claimed       bool
}

// look reads the facts of a device.
func (k *anvil) look(d Device) (f facts, err error) {
	ctx := context.Background()
	f.Reserved = -1
	if have, err := k.Nova.Inventory(ctx, contract.DeviceUUID(d.Name)); err == nil {
		reserved, _ := have.Fields["reserved"].(float64)
		f.Reserved = int(reserved)
	}
	if f.Bytes, err = bytesOf(d); err != nil {
		return f, err
	}
	v, err := k.Workflows().Query(ctx, d.Name)
	if client.NotFound(err) || err == nil && v.DeviceState == device.Absent {
		f.State = device.Absent
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.State, f.OnHold, f.Dirty, f.Called, f.Fault, f.Error = v.DeviceState, v.Maintenance, v.Dirty, v.NeedsOperator,
		v.Fault, v.LastError
	f.Claimed = v.ClaimedBy != ""
	if v.InstanceUUID != nil && len(v.Bindings) > 0 {
		b := v.Bindings[len(v.Bindings)-1]
		f.Instance, f.Request, f.Tag, f.Managed = *v.InstanceUUID, b.Request, b.Tag, b.Managed
	}
	return f, nil
}

// bytesOf says whose bytes are on a device.
func bytesOf(d Device) (string, error) {
	for _, nonce := range []uint64{1, 2, 5, 9} {
		stamped, zero, other, err := site.Device(d).Count(nonce)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return "no file", nil
		case err != nil:
			return "", err
		case zero == d.Blocks():
			return "zero", nil
		case stamped == d.Blocks():
			return fmt.Sprint("tenant ", nonce), nil
		case stamped > 0:
			return fmt.Sprintf("partly tenant %d: %d, zero %d, other %d", nonce, stamped, zero, other), nil
		}
	}
	return "unknown", nil
}

// resting says that nothing more will happen to the device by itself, and that it does not
// stay reserved or dirty without an operator called.
func (f facts) resting() (bool, string) {
	text := fmt.Sprintf("%+v", f)
	switch f.State {
	case device.Absent:
		return f.Reserved < 0, text
	case device.Available:
		if f.OnHold {
			return f.Reserved == 1, text
		}
		return f.Reserved == 0 && !f.Dirty && !f.Claimed && f.Bytes == "zero", text
	case device.Allocated:
		return f.Reserved == 1 && f.Instance != "", text
	case device.Manageable, device.Retired:
		return f.Reserved == 1, text
	case device.Error:
		return f.Reserved == 1 && f.Called, text
	case device.Unknown, device.PendingCleaning, device.Cleaning:
		// What was not answered in time goes on by itself, although its operator is told.
		return f.Reserved == 1 && f.Called && f.Fault != string(device.CodeTimeout), text
	}
	return false, text
}

// operators says that an operator holds the device.
func (f facts) operators() bool {
	return f.OnHold || f.State == device.Manageable || f.State == device.Error || f.State == device.Cleaning &&
		f.Fault == string(device.CodeOnHold)
}

// same says what of a device is not as it was before an act that was refused. An operator's
// device may have become dirty and reserved; a free one may have been cleaned.
func (f facts) same(before facts) error {
	was := facts{State: before.State, OnHold: before.OnHold, Instance: before.Instance, Request: before.Request,
		Tag: before.Tag, Managed: before.Managed, Bytes: before.Bytes}
	is := facts{State: f.State, OnHold: f.OnHold, Instance: f.Instance, Request: f.Request, Tag: f.Tag, Managed: f.Managed,
		Bytes: f.Bytes}
	if was != is {
		return fmt.Errorf("before %+v, now %+v", before, f)
	}
	return nil
}

// rest waits until all devices rest, and stay so for a while.
func (a *aim) rest(quiet time.Duration) (err error) {
	since := time.Now()
	var last string
	err = proc.Await(context.Background(), restWithin, 100*time.Millisecond, "rest", func() (bool, string) {
		var all []facts
		calm := true
		last = ""
		for _, d := range a.devices {
			f, err := a.k.look(d)
			if err != nil {
				calm, last = false, last+err.Error()
				continue
			}
			ok, text := f.resting()
			all, calm, last = append(all, f), calm && ok, last+d.Name+" "+text+"; "
		}
		if !calm || !slices.Equal(all, a.after) {
			since = time.Now()
		}
		a.after = all
		return calm && time.Since(since) > quiet, last
	})
	return err
}

// together does something for each of the aims at once.
func together(t *testing.T, aims []*aim, what string, do func(*aim) error) {
	t.Helper()
	errs := make([]error, len(aims))
	var all sync.WaitGroup
	for i, a := range aims {
		all.Go(func() {
			if err := do(a); err != nil {
				errs[i] = fmt.Errorf("%s: %s: %w", a, what, err)
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
}

// trigger counts the writes of one act, and holds the answers from the nth on.
type trigger struct {
	nth     int
	began   time.Time
	release <-chan struct{}
	reached chan<- *aim
	of      *aim

	mu    sync.Mutex
	count int
	at    time.Time
}

func (g *trigger) write() {
	g.mu.Lock()
	g.count++
	n := g.count
	if n == g.nth {
		g.at = time.Now()
	}
	if g.nth == 0 {
		g.of.writes = append(g.of.writes, time.Since(g.began))
	}
	g.mu.Unlock()
	if g.nth == 0 || n < g.nth {
		return
	}
	if n == g.nth {
		g.reached <- g.of
	}
	<-g.release
}

// arm has the recorder call the trigger at each write to the providers of the aim's devices.
func (a *aim) arm(g *trigger) (undo func()) {
	var ids []string
	for _, d := range a.devices {
		ids = append(ids, contract.DeviceUUID(d.Name))
	}
	path := "/resource_providers/(" + strings.Join(ids, "|") + ")"
	in := openstack.Injection{After: g.write}
	all := []func(){
		a.k.Recorder.Inject(openstack.Match{Method: http.MethodPut, Path: path}, in),
		a.k.Recorder.Inject(openstack.Match{Method: http.MethodDelete, Path: path}, in),
	}
	if a.act.creates { // at most one such act is struck at once
		all = append(all, a.k.Recorder.Inject(openstack.Match{Method: http.MethodPost, Path: "/resource_providers$"}, in))
	}
	return func() {
		for _, do := range all {
			do()
		}
	}
}

// strike runs the acts, all of which have the same blow, kills worker and server when each has
// made its write, starts both again, and waits until all devices rest.
func (k *anvil) strike(t *testing.T, aims ...*aim) {
	t.Helper()
	blow := aims[0].blow
	for _, a := range aims {
		a.prepare(t)
	}
	together(t, aims, "prepare", func(a *aim) error { return a.act.start(a) })
	together(t, aims, "rest before the act", func(a *aim) error {
		err := a.rest(500 * time.Millisecond)
		a.before = a.after
		return err
	})
	release, reached := make(chan struct{}), make(chan *aim, len(aims))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var undo []func()
	var triggers []*trigger
	var commands sync.WaitGroup
	slowest := time.Duration(0)
	for _, a := range aims {
		slowest = max(slowest, a.lead())
	}
	for _, a := range aims {
		g := &trigger{nth: a.nth, release: release, reached: reached, of: a}
		triggers = append(triggers, g)
		undo = append(undo, a.arm(g))
		commands.Go(func() {
			outage(t, slowest-a.lead()) // so that all reach their writes at about the same time
			g.mu.Lock()
			g.began = time.Now()
			g.mu.Unlock()
			on := context.Background()
			if blow.gone {
				on = ctx
			}
			r, err := k.Site.Site.Burnish(on, append(a.act.command(a), "--timeout", "60s")...)
			if err == nil {
				a.result = &r
			}
		})
	}
	if aims[0].nth > 0 {
		k.kill(t, aims, reached, cancel)
		for i, a := range aims {
			if at := triggers[i].at; !at.IsZero() {
				a.hit = max(time.Since(at), 1)
			}
		}
		for _, one := range undo {
			one()
		}
		close(release)
		outage(t, blow.down)
		k.revive(t, aims)
	}
	commands.Wait()
	struck := map[string]func(*testing.T){}
	for _, a := range aims {
		struck[a.String()] = a.judge
	}
	t.Run("struck", func(t *testing.T) { beside(t, struck) })
	if aims[0].nth == 0 {
		for _, one := range undo {
			one()
		}
		close(release)
	}
}

// lead is how long the act takes to its write.
func (a *aim) lead() time.Duration {
	if leads := a.act.leads; a.nth > 0 && a.nth <= len(leads) {
		return leads[a.nth-1]
	}
	return 0
}

// kill waits for the writes, and kills worker and server.
func (k *anvil) kill(t *testing.T, aims []*aim, reached <-chan *aim, clients context.CancelFunc) {
	t.Helper()
	limit := time.After(2 * time.Minute)
waiting:
	for n := range aims {
		select {
		case <-reached:
		case <-limit:
			break waiting
		}
		if n == 0 {
			limit = time.After(holdFor)
		}
	}
	require.NoError(t, k.worker.Signal(syscall.SIGKILL))
	require.NoError(t, k.Server.Signal(syscall.SIGKILL))
	if aims[0].blow.gone {
		clients()
	}
	k.worker.Kill(t)
	require.NoError(t, k.Server.Kill())
}

// revive starts both again. Commands that are to come first are on the server before the worker.
func (k *anvil) revive(t *testing.T, aims []*aim) {
	t.Helper()
	require.NoError(t, k.Server.Start(t.Context()))
	var others sync.WaitGroup
	for _, a := range aims {
		if a.other == "" {
			continue
		}
		id := uuid.NewString()
		answered := make(chan struct{})
		others.Go(func() { defer close(answered); a.otherErr = a.sendOther(id) })
		k.awaitAdmitted(t, a.otherWorkflow(), id, answered)
	}
	k.worker.Start(t)
	others.Wait()
}

// otherWorkflow is the workflow that gets the other command.
func (a *aim) otherWorkflow() string {
	if a.other == "release" {
		return contract.InstanceWorkflowID(a.instance)
	}
	return contract.WorkflowID(a.devices[0].Name)
}

// sendOther sends the other command to the first device, or to the instance.
func (a *aim) sendOther(id string) error {
	ctx, cancel := context.WithTimeout(client.WithRequest(context.Background(), id), time.Minute)
	defer cancel()
	w, name := a.k.Workflows(), a.devices[0].Name
	why := contract.ReasonInput{Reason: "it comes first"}
	var err error
	switch a.other {
	case "retire --lost", "retire":
		_, err = w.Do(ctx, name, contract.VerbRetire, contract.RetireInput{Reason: why.Reason, Lost: a.other != "retire"})
	case "manage":
		_, err = w.Do(ctx, name, contract.VerbManage, contract.TenantInput{Reason: why.Reason})
	case "abort":
		_, err = w.Do(ctx, name, contract.VerbAbort, why)
	case "maintain":
		_, err = w.Do(ctx, name, contract.VerbMaintain, contract.MaintenanceInput{Reason: why.Reason})
	case "replace":
		_, err = w.Do(ctx, name, contract.VerbReplace, contract.ReplaceInput{Reason: why.Reason})
	case "unbind":
		_, err = w.Send(ctx, name, contract.VerbUnbind, contract.UnbindInput{Instance: a.instance})
	case "release":
		_, err = w.DoInstance(ctx, a.instance, contract.VerbInstanceRelease, contract.ReasonInput{})
	default:
		err = fmt.Errorf("no such command: %s", a.other)
	}
	return err
}

// awaitAdmitted waits until the server has an update. One that asks the worker before it sends
// anything is not waited for.
func (k *anvil) awaitAdmitted(t *testing.T, workflow, id string, answered <-chan struct{}) {
	t.Helper()
	request := &workflowservice.PollWorkflowExecutionUpdateRequest{
		Namespace:  k.Namespace,
		UpdateRef:  &updatepb.UpdateRef{WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflow}, UpdateId: id},
		WaitPolicy: &updatepb.WaitPolicy{LifecycleStage: enumspb.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ADMITTED},
	}
	for limit := time.After(5 * time.Second); ; {
		if _, err := k.Client.WorkflowService().PollWorkflowExecutionUpdate(t.Context(), request); err == nil {
			return
		}
		select {
		case <-answered:
			return
		case <-limit:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// judge waits until the devices rest, and asserts what must hold then.
func (a *aim) judge(t *testing.T) {
	stuck := a.rest(restsFor)
	t.Logf("the write had arrived %s before the blow", a.hit.Round(time.Millisecond))
	if a.result != nil {
		t.Log(*a.result)
	}
	if a.other != "" {
		t.Logf("first came %s: %v", a.other, a.otherErr)
	}
	for i, f := range a.after {
		t.Logf("%s before: %+v", a.devices[i].Name, a.before[i])
		t.Logf("%s after:  %+v", a.devices[i].Name, f)
	}
	if stuck != nil || t.Failed() {
		for _, d := range a.devices {
			r, err := a.k.Site.Site.Burnish(context.Background(), "history", d.Name)
			t.Log(r, err)
		}
	}
	require.NoError(t, stuck, "stays reserved, dirty or under way, and nobody is told")
	for i, f := range a.after {
		if was := a.before[i]; was.operators() && f.Bytes != was.Bytes && !a.act.cleans {
			t.Errorf("an operator held it, and it was wiped: before %+v, now %+v", was, f)
		}
	}
	a.judgeInstance(t)
	if t.Failed() {
		return
	}
	done, kept := a.act.done(a), error(nil)
	for i, f := range a.after {
		if err := f.same(a.before[i]); err != nil {
			kept = errors.Join(kept, fmt.Errorf("%s: %w", a.devices[i].Name, err))
		}
	}
	switch {
	case a.other != "" && a.otherErr == nil:
		a.judgeOther(t)
	case a.result == nil:
		require.False(t, done != nil && kept != nil, "neither all of it nor none: %v; %v", done, kept)
	case a.result.Code == 0:
		require.NoError(t, done, "granted is not all of it: %v", a.result)
	case a.result.Code == 1:
		require.NoError(t, kept, "refused, and it had an effect: %v", a.result)
	default:
		require.False(t, done != nil && kept != nil, "neither all of it nor none: %v; %v; %v", a.result, done, kept)
	}
}

// judgeOther asserts what the other command was granted.
func (a *aim) judgeOther(t *testing.T) {
	t.Helper()
	f := a.after[0]
	switch a.other {
	case "retire --lost", "retire":
		require.Equal(t, device.Retired, f.State)
	case "manage": // it may have been so already, and the act goes on
		require.True(t, f.State == device.Manageable || a.act.done(a) == nil, "%+v", f)
	case "abort":
		require.Contains(t, []device.State{device.Error, device.Manageable}, f.State)
	case "maintain":
		require.True(t, f.OnHold, "%+v", f)
	case "replace":
		require.Equal(t, device.Manageable, f.State)
	case "unbind", "release":
		for i, f := range a.after {
			require.NotEqual(t, a.instance, f.Instance, "it was released, and has %s", a.devices[i].Name)
		}
	}
}

// judgeInstance asserts that the instance's list is what its devices say, once it has heard of them:
// the signal of a device that left may be under way.
func (a *aim) judgeInstance(t *testing.T) {
	t.Helper()
	if !a.act.ofInstance {
		return
	}
	var have []string
	for i, f := range a.after {
		if f.Instance == a.instance {
			have = append(have, a.devices[i].Name)
		}
	}
	slices.Sort(have)
	Await(t, 20*time.Second, "the instance's list to be what the devices say", func() (bool, string) {
		v, err := a.k.Workflows().Instance(t.Context(), a.instance)
		if !client.NotFound(err) {
			require.NoError(t, err)
		}
		var listed []string
		for _, d := range v.Devices {
			listed = append(listed, d.Name)
		}
		if v.Move != nil {
			for _, d := range v.Move.Source {
				listed = append(listed, d.Name)
			}
		}
		slices.Sort(listed)
		return slices.Equal(slices.Compact(listed), have), fmt.Sprint(listed, " instead of ", have)
	})
}

// stampAt is Stamp for a goroutine that is not a test's.
func stampAt(d Device, nonce uint64) error { return site.Device(d).Stamp(nonce) }
