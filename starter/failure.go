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

// exitOf is the exit code of a command that failed with this fault.
func exitOf(code device.Code) int {
	if code == device.CodeUnreachable {
		return exitUnreachable
	}
	return exitFailed
}

// usagef is the failure of a command line that is not valid.
func usagef(format string, args ...any) *failure {
	return &failure{exit: exitUsage, code: device.CodeInvalid, message: fmt.Sprintf(format, args...)}
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
	Code    device.Code  `json:"code"`
	Device  string       `json:"device"`
	State   device.State `json:"state"`
	Message string       `json:"message"`
	Remedy  string       `json:"remedy"`
	// Instance is that of a command of an instance.
	Instance string `json:"instance,omitempty"`
}

func (f *failure) body() *errorBody {
	return &errorBody{Code: f.code, Device: f.device, State: f.state, Message: oneLine(f.message),
		Remedy: oneLine(f.remedy), Instance: f.instance}
}

// report prints the failure on stderr. An error of that print cannot be reported.
func (a *app) report(f *failure) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.format == formatTable {
		_, _ = fmt.Fprintln(a.stderr, f.line())
		return
	}
	_ = encode(a.stderr, a.format, compact, map[string]*errorBody{"error": f.body()})
}

// note prints a remark on stderr, beside the result. An error of that print changes no result.
func (a *app) note(name, text string) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.format == formatTable {
		head := "burnish: note: "
		if name != "" {
			head += name + ": "
		}
		_, _ = fmt.Fprintln(a.stderr, oneLine(head+text))
		return
	}
	_ = encode(a.stderr, a.format, compact, map[string]string{"note": oneLine(text), "device": name})
}

// pollerMaxAge is the longest time between two polls of a running worker: its long poll,
// and a margin.
const pollerMaxAge = 70 * time.Second

// diagnosisTimeout bounds the search for the reason why a request was not answered.
const diagnosisTimeout = 3 * time.Second

// explain turns the error of a request about a device into a failure for the
// operator. parent is the command's own context; l may be nil.
func (a *app) explain(parent context.Context, l deviceClient, name string, err error) *failure {
	return a.explainOf(parent, l, subject{device: name}, err)
}

// explainInstance is explain for a request about an instance.
func (a *app) explainInstance(parent context.Context, l deviceClient, instance string, err error) *failure {
	return a.explainOf(parent, l, subject{instance: instance}, err)
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

// about names the failure's subject.
func (f *failure) about(of subject) *failure {
	f.device, f.instance = of.device, of.instance
	return f
}

func (a *app) explainOf(parent context.Context, l deviceClient, of subject, err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	f = &failure{exit: exitFailed, device: of.device, instance: of.instance}
	refusal, isRefusal := client.Fault(err)
	unconfirmed := client.Unconfirmed(err)
	lost := "the connection to Temporal was lost"
	if a.api != "" {
		lost = "the API at " + a.api + " did not confirm it"
	}
	switch {
	case isInterrupted(parent) && client.Accepted(err):
		return interrupted("it was accepted, and goes on", of.show()).about(of)
	case isInterrupted(parent) && unconfirmed:
		return interrupted(mayStill, of.show()).about(of)
	case isInterrupted(parent):
		return interrupted("", "").about(of)
	case client.Accepted(err) && !client.TimedOut(err):
		f.exit, f.code = exitUnreachable, device.CodeUnreachable
		f.message = "accepted, and is still carried out; " + lost + " before the result: " + err.Error()
		f.remedy = of.show()
	case client.Ended(err):
		f.exit, f.code = exitUnreachable, device.CodeUnreachable
		f.message = "its workflow ended before it had answered; " + mayStill
		f.remedy = of.show() + " before you repeat it"
	case unconfirmed && !client.TimedOut(err):
		f.exit, f.code = exitUnreachable, device.CodeUnreachable
		f.message = lost + ": " + err.Error() + "; " + mayStill
		f.remedy = of.show() + " before you repeat it"
	case isRefusal:
		f.exit = exitOf(refusal.Fault.Code)
		f.code, f.message, f.remedy = refusal.Fault.Code, refusal.Fault.Message, refusal.Fault.Remedy
		f.state = refusal.State
		if f.device == "" {
			f.device = refusal.Device
			f.message = strings.TrimPrefix(f.message, f.device+": ") // where an instance names it
		}
	case client.NotFound(err) && of.instance != "":
		f.code, f.message = device.CodeNotFound, "no such instance: it has no device"
		f.remedy = "bind devices to it with burnish instance bind"
	case client.NotFound(err) && of.device != "":
		return noSuchDevice(of.device)
	case client.Accepted(err):
		if gone := a.unanswered(parent, l); gone != nil {
			f.exit, f.code = exitUnreachable, device.CodeUnreachable
			f.message = "accepted, and is still carried out; " + lost + " before the result: " + gone.Error()
			f.remedy = of.show()
			return f
		}
		f.exit, f.code = exitTimeout, device.CodeTimeout
		f.message = fmt.Sprintf("accepted; still running after %s", a.timeout.limit)
		f.remedy = of.show() + "; it may wait for the host's worker, or for an appliance"
	case client.TimedOut(err):
		return a.diagnoseTimeout(parent, l, of, unconfirmed)
	default:
		f.code, f.message = device.CodeInternal, err.Error()
	}
	return f
}

// noSuchDevice says that no device of this name is enrolled.
func noSuchDevice(name string) *failure {
	return &failure{
		exit: exitFailed, code: device.CodeNotFound, device: name,
		message: "no such device", remedy: "enroll it first, or see burnish list",
	}
}

// mayStill is said of every request that was sent, and that nothing proves to have no effect.
const mayStill = "the request may still be carried out"

// diagnoseTimeout says why a request was not answered in its time: because Temporal is
// gone, because no control worker polls, or because it takes longer. sent: the request
// changes something, and the server may have it.
func (a *app) diagnoseTimeout(parent context.Context, l deviceClient, of subject, sent bool) *failure {
	f := &failure{exit: exitTimeout, code: device.CodeTimeout, device: of.device, instance: of.instance}
	last, err := a.lastPoll(parent, l)
	silent := fmt.Sprintf("no control worker answered on queue %s within %s", contract.Queue, a.timeout.limit)
	check := "check with: temporal task-queue describe --task-queue " + contract.Queue
	switch {
	case err != nil:
		f.exit, f.code = exitUnreachable, device.CodeUnreachable
		server, choose := a.server()
		f.message, f.remedy = server+" stopped answering: "+err.Error(), choose
	case l == nil, of == (subject{}): // it needs no worker
		f.message, f.remedy = fmt.Sprintf("no answer within %s", a.timeout.limit), "try again with a longer --timeout"
	case a.now().Sub(last) > pollerMaxAge:
		f.message = silent + ", and none polls it"
		f.remedy = "start burnish-worker with BURNISH_ROLE=control or all, and " + check
	default:
		f.message = fmt.Sprintf("%s, though one polled it %s ago", silent, a.now().Sub(last).Round(time.Second))
		f.remedy = of.show() + " and the worker's log, and " + check
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

// unanswered is the error of a server that answers nothing any more; nil if it answers.
func (a *app) unanswered(parent context.Context, l deviceClient) error {
	_, err := a.lastPoll(parent, l)
	return err
}

// oneLine makes text fit for one line of a terminal: a device's own strings may contain
// any character.
func oneLine(text string) string { return terminal.Line(text) }

// compact and indented are the two ways to write JSON.
const (
	compact  = ""
	indented = "  "
)
