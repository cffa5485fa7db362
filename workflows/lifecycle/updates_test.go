package lifecycle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// call is one update that was sent.
type call struct {
	w        *deviceEnv
	verb, id string
	in, out  any

	accepted, done bool
	err            error

	run       int  // in which it was sent
	repeated  bool // a repetition of an earlier one
	abandoned bool // its sender ignores the answer
}

// send sends an update; an empty ID makes a new one. It waits for nothing.
func (w *deviceEnv) send(verb, id string, in any) *call {
	if id == "" {
		w.updatesSent++
		id = fmt.Sprintf("%s-%d", verb, w.updatesSent)
	}
	c := &call{w: w, verb: verb, id: id, in: in, run: w.runs}
	w.open = append(w.open, c)
	w.deliver(func() bool { return c.accepted || c.done }, func() {
		w.env.UpdateWorkflow(verb, id, c, in)
	})
	return c
}

// deliver posts a message, and again in the next run if this one ended before it was
// read, as the server does with a task that was not completed.
func (w *deviceEnv) deliver(read func() bool, post func()) {
	w.after(1, func() {
		env := w.env
		post()
		w.queue = append(w.queue, &message{env: env, read: read, post: post})
	})
}

type message struct {
	env  any
	read func() bool
	post func()
}

// redeliver sends the messages that an ended run had not read.
func (w *deviceEnv) redeliver() {
	unread := w.queue
	w.queue = nil
	for _, l := range unread {
		if !l.read() {
			w.deliver(l.read, l.post)
		}
	}
}

// Accept is the environment's callback.
func (c *call) Accept() {
	if !c.accepted {
		c.w.updates++
	}
	c.accepted = true
}

// Reject is the environment's callback.
func (c *call) Reject(err error) {
	c.done, c.err = true, overWire(err)
	c.w.scheduleCheck()
}

// Complete is the environment's callback.
func (c *call) Complete(out any, err error) {
	if !c.done {
		c.w.updates--
	}
	c.done, c.out, c.err = true, out, overWire(err)
	c.w.scheduleCheck()
	if c.w.answered != nil {
		c.w.answered(c)
	}
}

func overWire(err error) error {
	if err == nil {
		return nil
	}
	c := temporal.GetDefaultFailureConverter()
	return c.FailureToError(c.ErrorToFailure(err))
}

// failOpenCalls fails the updates that a terminated run had accepted, as the server does.
func (w *deviceEnv) failOpenCalls() {
	for _, c := range w.open {
		if c.accepted && !c.done {
			c.done, c.err = true, errors.New("workflow execution terminated")
		}
	}
	w.updates = 0
}

// wait runs the environment until the update is answered.
func (c *call) wait() *call {
	c.w.t.Helper()
	c.w.until(c.verb+" answered", func() bool { return c.done })
	return c
}

// ok waits for success and gives the answer.
func ok[Out any](c *call) Out {
	c.w.t.Helper()
	c.wait()
	require.NoError(c.w.t, c.err, "%s %+v: %s", c.verb, c.in, c.w.describe())
	out, is := c.out.(Out)
	if !is { // an answer from the environment's memory
		text, err := json.Marshal(c.out)
		require.NoError(c.w.t, err)
		require.NoError(c.w.t, json.Unmarshal(text, &out), "%s", reflect.TypeOf(c.out))
	}
	return out
}

// refused waits for a refusal with this code and gives it.
func (c *call) refused(code device.Code) contract.Refusal {
	c.w.t.Helper()
	c.wait()
	require.Error(c.w.t, c.err, "%s %+v was not refused: %s", c.verb, c.in, c.w.describe())
	r, is := contract.RefusalOf(c.err)
	require.True(c.w.t, is, "%v", c.err)
	require.Equal(c.w.t, code, r.Fault.Code, "%v", c.err)
	require.NotEmpty(c.w.t, r.Fault.Message)
	return r
}

// signal sends a signal. It counts as delivered once it is in the workflow's history, whether or
// not the workflow reads it.
func (w *deviceEnv) signal(name string, in any) { w.signalThen(name, in, func() {}) }

// signalThen does something more between the signal's arrival and the workflow's next
// task, so that both are found in one task.
func (w *deviceEnv) signalThen(name string, in any, then func()) {
	done := false
	w.deliver(func() bool { return done }, func() {
		env := w.env
		env.SignalWorkflowSkippingWorkflowTask(name, in)
		env.RegisterDelayedCallback(func() {
			done = true
			then()
			w.after(1, func() {})
		}, 0)
	})
}

func (w *deviceEnv) enrollment() contract.Enrollment {
	e := contract.Enrollment{
		Name: "d1", Host: "h1", Driver: "testdriver", Type: "NVME", Owner: w.owner, OneTimeUse: w.oneTimeUse,
		Settings: map[string]string{"path": "/dev/d1"},
	}
	return e
}

func (w *deviceEnv) enroll(provide bool) *call {
	return w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: w.enrollment(), Provide: provide})
}

func (w *deviceEnv) bind(instance, request string) *call {
	return w.send(contract.VerbBind.Update(), "", contract.BindInput{Instance: instance, Request: request})
}

func (w *deviceEnv) unbind(instance string) *call {
	return w.send(contract.VerbUnbind.Update(), "", contract.UnbindInput{Instance: instance})
}

func (w *deviceEnv) ask(verb string) *call {
	return w.send(verb, "", contract.ReasonInput{Reason: "test"})
}

func (w *deviceEnv) maintain(off bool) *call {
	return w.send(contract.VerbMaintain.Update(), "", contract.MaintenanceInput{Reason: "test", Off: off})
}

func (w *deviceEnv) cleanUp(steps ...string) *call {
	return w.send(contract.VerbClean.Update(), "", contract.CleanInput{Reason: "test", Steps: steps})
}

// reach waits for a state.
func (w *deviceEnv) reach(s device.State) contract.DeviceStatus {
	w.t.Helper()
	w.until("state "+string(s), func() bool { return w.view().DeviceState == s })
	return w.view()
}

// settled waits until the device is in a state that it does not leave by itself.
func (w *deviceEnv) settled() contract.DeviceStatus {
	w.t.Helper()
	w.until("rest", func() bool {
		s := w.view().DeviceState
		held := w.view().Fault == string(device.CodeTenantUnrecorded)
		return w.activitiesInFlight == 0 && w.updates == 0 && (s != device.Unknown || held) && s != device.Cleaning &&
			(s != device.PendingCleaning || w.view().NeedsOperator)
	})
	return w.view()
}

// stepRuns waits until the host works at a step.
func (w *deviceEnv) stepRuns(step string) {
	w.t.Helper()
	w.until(step+" running", func() bool { return w.host.running == step })
}

// makeAvailable enrolls a device and waits until it is available.
func (w *deviceEnv) makeAvailable() {
	w.t.Helper()
	ok[contract.Result](w.enroll(true))
	w.reach(device.Available)
	w.idle()
	require.Zero(w.t, w.inventory.Reserved)
	require.True(w.t, w.host.clean())
}

// newAvailable is a device that is available, by the standard policy.
func newAvailable(t testing.TB) *deviceEnv {
	t.Helper()
	return newDeviceEnv(t, standardPolicy()).available()
}

// available is makeAvailable of a new environment.
func (w *deviceEnv) available() *deviceEnv {
	w.t.Helper()
	w.makeAvailable()
	return w
}

// turnOver takes the device from an instance, and waits until it is available.
func (w *deviceEnv) turnOver(instance string) {
	w.t.Helper()
	ok[contract.Result](w.unbind(instance))
	w.reach(device.Available)
}

// returned waits until the device is available and nothing is under way.
func (w *deviceEnv) returned() {
	w.t.Helper()
	w.reach(device.Available)
	w.idle()
}

// requireReturned is returned of a device that is clean, and free in the inventory.
func (w *deviceEnv) requireReturned() {
	w.t.Helper()
	w.returned()
	require.True(w.t, w.host.clean(), w.describe())
	require.Zero(w.t, w.inventory.Reserved)
}

// newBound is one that the instance i1 has.
func newBound(t testing.TB) *deviceEnv {
	t.Helper()
	w := newDeviceEnv(t, standardPolicy())
	w.makeBound("i1")
	return w
}

// makeBound binds a device to an instance, and fills it with the instance's data.
func (w *deviceEnv) makeBound(instance string) int {
	w.t.Helper()
	if w.runs == 0 {
		w.makeAvailable()
	}
	r := ok[contract.Result](w.bind(instance, "r-"+instance))
	require.Equal(w.t, 1, w.inventory.Reserved, "bind returned before the device was burned")
	w.host.writeAsTenant(instance)
	return r.Binding
}

// idle waits until no activity and no update is under way.
func (w *deviceEnv) idle() {
	w.t.Helper()
	w.until("quiet", func() bool { return w.activitiesInFlight == 0 && w.updates == 0 })
}

// nextRun has the device continue as new, and waits for the next run.
func (w *deviceEnv) nextRun() {
	w.t.Helper()
	runs := w.runs
	w.after(1, func() { w.env.SetContinueAsNewSuggested(true) })
	w.until("continue-as-new", func() bool { return w.runs > runs || !w.live })
	require.True(w.t, w.live, "the workflow ended: %v", w.finishErr)
}

// state is the state that a continue-as-new now passes on.
func (w *deviceEnv) state() contract.DeviceState {
	w.t.Helper()
	w.nextRun()
	return *w.handedOver
}
