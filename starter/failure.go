package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/starter/internal/terminal"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// failure is an error as the operator sees it: what failed, which device it concerns,
// and the remedy.
type failure struct {
	exit    int
	code    device.Code
	command string
	// instance is the instance that the request was for; device is the device that it was for,
	// or that refused it.
	instance string
	device   string
	state    device.State
	message  string
	remedy   string
	// notAsked: the command was interrupted before it came to this device.
	notAsked bool
}

// Error gives message and remedy.
func (f *failure) Error() string {
	if f.remedy == "" {
		return f.message
	}
	return f.message + "; " + f.remedy
}

// failf is the failure of what was asked for, with what to do about it.
func failf(code device.Code, remedy, format string, args ...any) *failure {
	exit := exitFailed
	switch code {
	case device.CodeUnreachable:
		exit = exitUnreachable
	case device.CodeTimeout:
		exit = exitTimeout
	case device.CodeInterrupted:
		exit = exitInterrupted
	}
	return &failure{exit: exit, code: code, message: fmt.Sprintf(format, args...), remedy: remedy}
}

// about says which device the failure is of, and its state.
func (f *failure) about(name string, s device.State) *failure {
	f.device, f.state = name, s
	return f
}

// ofFault is the failure of a command because of a fault, of whatever code.
func ofFault(fault device.Fault) *failure {
	f := failf(fault.Code, fault.Remedy, "%s", fault.Message)
	if f.exit != exitUnreachable {
		f.exit = exitFailed
	}
	return f
}

// asFailure gives err as a failure for the operator.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if fault, ok := device.AsFault(err); ok {
		return ofFault(*fault)
	}
	return failf(device.CodeInternal, "", "%s", err)
}

// usagef is the failure of a command line that is not valid.
func usagef(format string, args ...any) *failure {
	return &failure{exit: exitUsage, code: device.CodeInvalid, message: fmt.Sprintf(format, args...)}
}

// notWritten says that the output could not be written.
func notWritten(err error) error {
	return failf(device.CodeIO, "", "the output cannot be written: %s", err)
}

// interrupted is the failure of a command that Ctrl-C ended. It is no failure of a device: what
// says what becomes of that.
func interrupted(what, remedy string) *failure {
	return failf(device.CodeInterrupted, remedy, "%s", strings.TrimSuffix("interrupted; "+what, "; "))
}

// nothingSent is what an interrupted command says that has asked for nothing yet.
const nothingSent = "nothing was sent"

// isInterrupted says that the operator ended the command. The end of a --timeout is no
// interruption.
func isInterrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// notAsked is the failure for a device that an interrupted command has not come to; nil if the
// command goes on.
func notAsked(ctx context.Context, name string) *failure {
	if !isInterrupted(ctx) {
		return nil
	}
	f := interrupted(nothingSent, "")
	f.notAsked, f.device = true, name
	return f
}

// unlessEnded returns do's answer, or ctx's error as soon as ctx ends: nothing else ends a read from a
// terminal or a pipe. do is then left alone.
func unlessEnded[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type answer struct {
		got T
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		got, err := do()
		answers <- answer{got, err}
	}()
	select {
	case a := <-answers:
		return a.got, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// line is the failure as the one line of a table's error.
func (f *failure) line() string {
	head := "burnish"
	if where := strings.Join(strings.Fields(f.command+" "+f.instance+" "+f.device), " "); where != "" {
		head += ": " + where
	}
	return oneLine(head + ": " + f.Error())
}

// errorBody is a failure for programs.
type errorBody struct {
	client.Problem
	// Instance is that of a command of an instance.
	Instance string `json:"instance,omitempty"`
}

func (f *failure) body() *errorBody {
	return &errorBody{client.Problem{Code: f.code, Device: f.device, State: f.state, Message: oneLine(f.message),
		Remedy: oneLine(f.remedy)}, f.instance}
}

// report prints the failure.
func (a *app) report(f *failure) { a.remark(f.line(), map[string]*errorBody{"error": f.body()}) }

// note prints a remark beside the result.
func (a *app) note(name, text string) {
	line := "burnish: note: " + strings.TrimPrefix(name+": "+text, ": ")
	a.remark(oneLine(line), map[string]string{"note": oneLine(text), "device": name})
}

// remark prints a line for people, or an object for programs, on stderr. An error of that print cannot be
// reported, and changes no result.
func (a *app) remark(line string, object any) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.format == formatTable {
		_, _ = fmt.Fprintln(a.stderr, line)
		return
	}
	_ = encode(a.stderr, a.format, compact, object)
}

// pollerMaxAge is the longest time between two polls of a running worker: its long poll,
// and a margin.
const pollerMaxAge = 70 * time.Second

// diagnosisTimeout bounds the search for the reason why a request was not answered.
const diagnosisTimeout = 3 * time.Second

// ask makes one request, about a device or, with "", about none, within --timeout. Its error is a failure
// for the operator.
func ask[T any](ctx context.Context, a *app, l deviceClient, name string,
	request func(context.Context) (T, error)) (T, error) {
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	answer, err := request(rctx)
	if err != nil {
		return answer, a.explain(ctx, l, name, err)
	}
	return answer, nil
}

// explain turns the error of a request about a device into a failure for the
// operator. parent is the command's own context; l may be nil.
func (a *app) explain(parent context.Context, l deviceClient, name string, err error) *failure {
	return a.explainOf(parent, l, subject{device: name}, err)
}

// subject is what a request was about: a device, an instance, or neither.
type subject struct{ device, instance string }

// show is the command that shows the subject.
func (s subject) show() string {
	switch {
	case s.instance != "":
		return "see burnish instance show " + s.instance
	case s.device != "":
		return "see burnish show " + s.device
	}
	return "see burnish list"
}

func (a *app) explainOf(parent context.Context, l deviceClient, of subject, err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	refusal, isRefusal := client.Fault(err)
	unconfirmed, timedOut := client.Unconfirmed(err), client.TimedOut(err)
	lost := "the connection to Temporal was lost"
	if a.api != "" {
		lost = "the API at " + a.api + " did not confirm it"
	}
	const acceptedLost = "accepted, and is still carried out; %s before the result: %s"
	switch {
	case isInterrupted(parent) && client.Accepted(err):
		f = interrupted("it was accepted, and goes on", of.show())
	case isInterrupted(parent) && unconfirmed:
		f = interrupted(mayStill, of.show())
	case isInterrupted(parent):
		f = interrupted("", "")
	case client.Encrypted(err):
		f = ofFault(refusal.Fault)
		if unconfirmed || client.Accepted(err) {
			f.message += "; " + mayStill
		}
	case client.Accepted(err) && !timedOut:
		f = failf(device.CodeUnreachable, of.show(), acceptedLost, lost, err)
	case client.Ended(err):
		f = failf(device.CodeUnreachable, of.show()+" before you repeat it",
			"its workflow ended before it had answered; %s", mayStill)
	case unconfirmed && !timedOut:
		f = failf(device.CodeUnreachable, of.show()+" before you repeat it", "%s: %s; %s", lost, err, mayStill)
	case isRefusal:
		f = ofFault(refusal.Fault)
		f.state = refusal.State
		if of.device == "" {
			of.device = refusal.Device
			f.message = strings.TrimPrefix(f.message, of.device+": ") // where an instance names it
		}
	case client.NotFound(err) && of.instance != "":
		f = failf(device.CodeNotFound, "bind devices to it with burnish instance bind",
			"no such instance: it has no device")
	case client.NotFound(err) && of.device != "":
		f = noSuchDevice(of.device)
	case client.Accepted(err):
		f = failf(device.CodeTimeout, of.show()+"; it may wait for the host's worker, or for an appliance",
			"accepted; still running after %s", a.timeout.limit)
		if _, gone := a.lastPoll(parent, l); gone != nil {
			f = failf(device.CodeUnreachable, of.show(), acceptedLost, lost, gone)
		}
	case timedOut:
		f = a.diagnoseTimeout(parent, l, of, unconfirmed)
	default:
		f = failf(device.CodeInternal, "", "%s", err)
	}
	f.device, f.instance = of.device, of.instance
	return f
}

// noSuchDevice says that no device of this name is enrolled.
func noSuchDevice(name string) *failure {
	return failf(device.CodeNotFound, "enroll it first, or see burnish list", "no such device").about(name, "")
}

// mayStill is said of every request that was sent, and that nothing proves to have no effect.
const mayStill = "the request may still be carried out"

// diagnoseTimeout says why a request was not answered in its time: because Temporal is
// gone, because no control worker polls, or because it takes longer. sent: the request
// changes something, and the server may have it.
func (a *app) diagnoseTimeout(parent context.Context, l deviceClient, of subject, sent bool) *failure {
	last, err := a.lastPoll(parent, l)
	silent := fmt.Sprintf("no control worker answered on queue %s within %s", contract.Queue, a.timeout.limit)
	check := "check with: temporal task-queue describe --task-queue " + contract.Queue
	var f *failure
	switch {
	case err != nil:
		server, choose := a.server()
		f = failf(device.CodeUnreachable, choose, "%s stopped answering: %s", server, err)
	case l == nil, of == (subject{}): // it needs no worker
		f = failf(device.CodeTimeout, "try again with a longer --timeout", "no answer within %s", a.timeout.limit)
	case a.now().Sub(last) > pollerMaxAge:
		f = failf(device.CodeTimeout, "start burnish-worker with BURNISH_ROLE=control or all, and "+check,
			"%s, and none polls it", silent)
	default:
		f = failf(device.CodeTimeout, of.show()+" and the worker's log, and "+check, "%s, though one polled it %s ago",
			silent, a.now().Sub(last).Round(time.Second))
	}
	if sent {
		f.message += "; " + mayStill
	}
	return f
}

// lastPoll asks when a control worker last asked for work, which Temporal answers by itself. The
// end of the command's own time does not end the question; Ctrl-C does.
func (a *app) lastPoll(parent context.Context, l deviceClient) (time.Time, error) {
	if l == nil {
		return time.Time{}, nil
	}
	if !isInterrupted(parent) {
		parent = context.WithoutCancel(parent)
	}
	ctx, cancel := context.WithTimeout(parent, diagnosisTimeout)
	defer cancel()
	return l.LastPoll(ctx, contract.Queue)
}

// oneLine makes text fit for one line of a terminal: a device's own strings may contain
// any character.
func oneLine(text string) string { return terminal.Line(text) }

// compact and indented are the two ways to write JSON.
const (
	compact  = ""
	indented = "  "
)
