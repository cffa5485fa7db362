package oneview

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

// largestAnswer bounds what is read of one answer: a page of 1000 servers has some megabytes.
const largestAnswer = 32 << 20

// request is one request to an appliance.
type request struct {
	Method string
	// Path begins with /rest/; it is never a whole URL.
	Path string
	// Body is sent as JSON; nil: none.
	Body any
	// IfMatch is the ETag of the resource that may be changed; "": any.
	IfMatch string
}

// answer is what an appliance answered. Its body was read whole.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// decode reads the answer's JSON.
func (a answer) decode(into any) error {
	if err := json.Unmarshal(a.Body, into); err != nil {
		return &device.Fault{Class: device.Transient, Code: device.CodeToolOutputInvalid,
			Message: fmt.Sprintf("the appliance's answer is not the JSON that OneView defines: %v", err)}
	}
	return nil
}

// problem is why the appliance refuses something, or how a task failed.
type problem struct {
	ErrorCode          string   `json:"errorCode"`
	Message            string   `json:"message"`
	Details            string   `json:"details"`
	RecommendedActions []string `json:"recommendedActions"`
}

// String is one short line.
func (p problem) String() string {
	return hardware.OneLine(
		strings.Join([]string{p.ErrorCode, p.Message, p.Details, strings.Join(p.RecommendedActions, " ")}, " "))
}

// refusal is an answer that says no.
type refusal struct {
	Method, Path string
	Status       int
	problem
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("it answers %d to %s %s", r.Status, r.Method, r.Path)
	if r.Status >= 300 && r.Status < 400 {
		return text + ": a redirect, which is not followed"
	}
	if said := r.String(); said != "" {
		text += ": " + said
	}
	return text
}

// hasStatus: err is an answer with this status.
func hasStatus(err error, status int) bool {
	var r *refusal
	return errors.As(err, &r) && r.Status == status
}

// lost is a request without an answer: the appliance may have carried it out or not.
type lost struct {
	Method, Path string
	err          error
}

func (l *lost) Error() string {
	why := l.err
	if u := new(url.Error); errors.As(why, &u) {
		why = u.Err // which request it was is said already
	}
	return fmt.Sprintf("no answer to %s %s: %v", l.Method, l.Path, why)
}

func (l *lost) Unwrap() error { return l.err }

// passes: the appliance did not answer, or answers that it cannot now.
func passes(err error) bool {
	var r *refusal
	if !errors.As(err, &r) {
		return errors.As(err, new(*lost))
	}
	switch r.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
		http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true
	}
	return false
}

// fault is what an operator is shown of an error of a request.
func (s *session) fault(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case passes(err) || hasStatus(err, http.StatusUnauthorized):
		return &device.Fault{Class: device.Transient, Code: device.CodeApplianceUnreachable,
			Message: fmt.Sprintf("the appliance %s: %s", s.name, hardware.OneLine(err.Error())),
			Remedy:  "check the appliance and its network"}
	case errors.As(err, new(*refusal)):
		return s.refused("correct the cause on the appliance", "%v", err)
	}
	return err
}

// refused is the fault of what the appliance does not do.
func (s *session) refused(remedy, format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeApplianceRefused, Remedy: remedy,
		Message: fmt.Sprintf("the appliance %s: ", s.name) + fmt.Sprintf(format, args...)}
}

// enrollAgain is the remedy for a wrong setting of a device: an enrolled device keeps its own.
func enrollAgain(setting string) string {
	return "retire and forget the device, then enroll it with the right " + setting
}

// link gives the path of a link of the appliance below one of its collections. "" is returned
// for none, and for one that leads to another host or elsewhere: it is never followed.
func (s *session) link(text, collection string) string {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		return ""
	}
	if u.Host != "" && (!strings.EqualFold(u.Host, s.base.Host) || u.Scheme != "" && u.Scheme != s.base.Scheme) {
		return ""
	}
	if !strings.HasPrefix(u.Path, collection) || path.Clean(u.Path) != u.Path || u.RawPath != "" {
		return ""
	}
	return u.RequestURI()
}

// resource is a link to one resource of a collection, such as /rest/tasks/.
func (s *session) resource(text, collection string) string {
	uri := s.link(text, collection)
	if id := strings.TrimPrefix(uri, collection); id == "" || strings.ContainsAny(id, "/?") {
		return ""
	}
	return uri
}

// newTransport gives the connections to one appliance. No proxy of the environment is used.
func newTransport(secret host.Secret) (*http.Transport, error) {
	config, err := secret.TLS()
	if err != nil {
		return nil, err
	}
	return &http.Transport{
		TLSClientConfig:     config,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 15 * time.Second,
		MaxConnsPerHost:     8,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     time.Minute,
	}, nil
}

// send sends one request, once. token is the session's; "" before the login.
func (s *session) send(ctx context.Context, r request, version int, token string) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timing.request, fmt.Errorf("it takes longer than %v", s.timing.request))
	defer cancel()
	var body io.Reader
	if r.Body != nil {
		text, err := json.Marshal(r.Body)
		if err != nil {
			return answer{}, err
		}
		body = bytes.NewReader(text)
	}
	out, err := http.NewRequestWithContext(ctx, r.Method, s.base.Scheme+"://"+s.base.Host+r.Path, body)
	if err != nil {
		return answer{}, err
	}
	out.Header.Set("Accept", "application/json")
	out.Header.Set("User-Agent", "burnish")
	if body != nil {
		out.Header.Set("Content-Type", "application/json")
	}
	if version > 0 {
		out.Header.Set("X-API-Version", strconv.Itoa(version))
	}
	if token != "" {
		out.Header["auth"] = []string{token}
	}
	if r.IfMatch != "" {
		out.Header.Set("If-Match", r.IfMatch)
	}
	in, err := s.http.Do(out)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return answer{}, &lost{Method: r.Method, Path: r.Path, err: err}
	}
	text, err := io.ReadAll(io.LimitReader(in.Body, largestAnswer+1))
	if err := errors.Join(err, in.Body.Close()); err != nil {
		return answer{}, &lost{Method: r.Method, Path: r.Path, err: err}
	}
	if len(text) > largestAnswer {
		return answer{}, s.refused("lower page_size in oneview.yaml", "the answer to %s %s is larger than %d bytes", r.Method,
			r.Path, largestAnswer)
	}
	got := answer{Status: in.StatusCode, Header: in.Header, Body: text}
	if got.Status >= 300 {
		no := &refusal{Method: r.Method, Path: r.Path, Status: got.Status}
		if json.Unmarshal(text, &no.problem) != nil {
			no.problem = problem{} // an error page of a web server
		}
		return got, no
	}
	return got, nil
}
