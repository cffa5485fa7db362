package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"burnish/internal/device"
	"burnish/workflows/client"
)

// How many seconds a client should wait after a 503, and after a 429: by then a caller may
// request as many changes again as it may in a second.
const (
	retryUnavailable = 5
	retryTooMany     = 1
)

// refuse answers with an error.
func (c *call) refuse(w http.ResponseWriter, err error) {
	p := c.problemOf(err)
	status := statusOf(p.Code)
	switch status {
	case http.StatusUnauthorized:
		c.header.Set("WWW-Authenticate", `Bearer realm="burnish"`)
	case http.StatusTooManyRequests:
		c.header.Set("Retry-After", strconv.Itoa(retryTooMany))
	case http.StatusServiceUnavailable:
		c.header.Set("Retry-After", strconv.Itoa(retryUnavailable))
	}
	c.write(w, status, client.ErrorBody{Error: p})
}

// mayStill is said of every change that was sent, and that nothing proves to have no effect.
const mayStill = "the request may still be carried out"

// problemOf turns an error into what the caller reads, and its status. Only faults show
// their words: those of any other error may be anything.
func (c *call) problemOf(err error) client.Problem {
	p := client.Problem{Device: c.name}
	refusal, isFault := client.Fault(err)
	switch {
	case client.Accepted(err):
		p.Code, p.Message = device.CodeTimeout, "accepted, but not finished in time; "+mayStill
		p.Remedy, p.Outcome = "read the device before you repeat it", client.OutcomeAccepted
	case client.Unconfirmed(err):
		p.Code, p.Message = device.CodeTimeout, "the request was sent and not answered; "+mayStill
		p.Remedy, p.Outcome = "read the device before you repeat it, or repeat it with its Idempotency-Key",
			client.OutcomeUnconfirmed
	case isFault:
		p.Code, p.Message, p.Remedy = refusal.Fault.Code, refusal.Fault.Message, refusal.Fault.Remedy
		p.State = refusal.State
		if refusal.Device != "" {
			p.Device = refusal.Device
		}
	case client.NotFound(err):
		p.Code = device.CodeNotFound
		p.Message, p.Remedy = c.missing()
	case client.TimedOut(err), errors.Is(err, context.Canceled):
		p.Code, p.Message, p.Remedy = device.CodeUnreachable, "no answer from Temporal or from a control worker in time",
			"try again"
	default:
		c.Log.Error("a request failed", "operation", c.operation(), "device", c.name, "error", err)
		p.Code, p.Message, p.Remedy = device.CodeInternal, "an unexpected error", "see the log of the control worker"
	}
	if !c.may(ruleDetail) {
		given := c.segment
		if c.instance != "" {
			given = ""
		}
		if p.Code == device.CodeNotFound {
			p.Message, p.Remedy = c.missing()
		}
		hideDetails(&p, given, refusal.Device != "")
	}
	p.Message, p.Remedy = oneLine(p.Message), oneLine(p.Remedy)
	return p
}

// missing says what there is not, where no workflow has the ID that the path names.
func (c *call) missing() (message, remedy string) {
	switch path := c.route.Path; {
	case strings.Contains(path, "{instance}"):
		return "the instance has no devices", "give the UUID of an instance that has devices"
	case strings.Contains(path, "{cloud}"):
		return fmt.Sprintf("no control worker serves a cloud named %q", c.segment), "list those that there are"
	case strings.Contains(path, "{appliance}"):
		return fmt.Sprintf("no control worker serves an appliance named %q", c.segment), "list those that there are"
	case path == "/v2/limits/resume":
		return "nothing is limited: the policy has no limits", "see GET /v2/limits"
	}
	return "no such device", "list the devices that there are"
}

// hideDetails leaves to a caller without get_details what it sees of devices anyway: neither a
// name that it has not given, nor the words of a device, which name instances and serial
// numbers, nor those of a server that cannot be reached, which have its address.
func hideDetails(p *client.Problem, given string, ofDevice bool) {
	p.Device = given
	switch {
	case ofDevice:
		p.Message, p.Remedy = "the device refuses the request", "ask somebody whom the policy allows "+ruleDetail
	case p.Code == device.CodeUnreachable:
		p.Message, p.Remedy = "Temporal does not answer, or no control worker does", "try again"
	}
}

func (c *call) operation() string {
	if c.route == nil {
		return ""
	}
	return c.route.Operation
}

// write sends an answer. An error of the connection changes nothing for anyone.
func (c *call) write(w http.ResponseWriter, status int, answer any) {
	text, err := encode(answer)
	if err != nil {
		c.Log.Error("an answer cannot be encoded", "operation", c.operation(), "error", err)
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","device":"","state":"",`+
			`"message":"an unexpected error","remedy":"see the log of the control worker"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1))
	w.WriteHeader(status)
	if _, err := w.Write(append(text, '\n')); err != nil {
		c.Log.Debug("an answer was not sent", "operation", c.operation(), "error", err)
	}
}

// encode is the JSON of an answer, with <, > and & as they are.
func encode(v any) ([]byte, error) {
	if text, ok := v.(encoded); ok {
		return text, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// oneLine makes text fit for one line of a terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
}
