package redfish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Why not gofish's own client, of v0.22 neither: an answer that is an error has no headers there, a
// request that may have been carried out looks like one that never left, its types refuse a resource
// for one property of another type, redirects are followed with the token, and its SecureErase always
// names a number of passes. Its names for what the schemas enumerate are used.

// largestAnswer bounds what is read of one answer.
const largestAnswer = 16 << 20

// request is one request to a BMC.
type request struct {
	Method string
	// Path is the resource, with its leading slash; never a whole URL.
	Path string
	// Body is sent as JSON; nil: none. Content is sent instead where it is set.
	Body    any
	Content *content
	// IfMatch is the ETag of the resource that the request may change; "": any.
	IfMatch string
	// Timeout is how long the answer may take; 0: the usual time.
	Timeout time.Duration
	// Intent, if it is set, journals that the request may have been carried out. It is called right
	// before each time that it is sent.
	Intent func() error
}

// content is a body that is not JSON, such as a firmware image.
type content struct {
	Type   string
	Length int64
	// Open gives the bytes from their beginning, each time that the request is sent.
	Open func() io.Reader
}

// upload is a content as it is sent. The right to write may end in its middle (F32), and what the BMC
// has not got whole, it does not carry out.
type upload struct {
	from     io.Reader
	left     atomic.Int64
	mayWrite func() error
}

func (u *upload) Read(p []byte) (int, error) {
	if err := u.mayWrite(); err != nil {
		return 0, err
	}
	n, err := u.from.Read(p)
	u.left.Add(-int64(n))
	return n, err
}

// answer is what a BMC answered. Its body was read whole.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Method and Path are those of the request, bmc is who answered, certificate the digest of its
	// certificate, "" without one.
	Method, Path string
	bmc          *bmc
	certificate  string
}

// decode reads the answer's JSON; see reader.
func (a answer) decode(into any) error {
	document, err := parse(a.Body)
	if err == nil {
		read := reader{func(link string) (string, bool) { return a.bmc.resolve(a.Path, link) }}
		err = read.read("", document, reflect.ValueOf(into).Elem())
	}
	if err != nil {
		return &device.Fault{Class: device.Transient, Code: device.CodeToolOutputInvalid,
			Message: fmt.Sprintf("the BMC's answer to %s %s is not what Redfish defines: %v", a.Method, a.Path, err)}
	}
	return nil
}

// refusal is an answer that says no: the BMC did not carry out the request.
type refusal struct {
	Method, Path string
	Status       int
	Messages     []message
	// Redirect: the answer sends the client elsewhere, and the client does not go.
	Redirect bool
}

// Error is one line, with the BMC's own words.
func (r *refusal) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the BMC answers %d to %s %s", r.Status, r.Method, r.Path)
	if r.Redirect {
		b.WriteString(": a redirect to another host or with another method, which is not followed")
	}
	for _, m := range r.Messages {
		fmt.Fprintf(&b, ": %s", m)
	}
	return b.String()
}

// says: one of the messages has this in its ID or text.
func (r *refusal) says(word string) bool {
	for _, m := range r.Messages {
		if strings.Contains(m.ID, word) || strings.Contains(m.Text, word) {
			return true
		}
	}
	return false
}

// asRefusal finds the refusal in err's chain.
func asRefusal(err error) (*refusal, bool) {
	var r *refusal
	ok := errors.As(err, &r)
	return r, ok
}

// hasStatus: err is an answer with this status.
func hasStatus(err error, status int) bool {
	r, ok := asRefusal(err)
	return ok && r.Status == status
}

// refused is the fault of a request that the BMC refused.
func refused(err error) error {
	r, ok := asRefusal(err)
	if !ok {
		return err
	}
	remedy := "see the BMC's own log, correct the cause, then clean the server"
	if r.says("Not licensed") || r.says("not licensed") {
		remedy = "install the BMC's license for this function, or disable the step"
	}
	return hardware.Refused(device.CodeCommandRefused, remedy, "%s", r.Error())
}

// lost is a request without an answer. If it was sent, the BMC may have carried it out or not,
// and a request that changes something is not sent again before the state was read.
type lost struct {
	Method, Path string
	Sent         bool
	err          error
}

func (l *lost) Error() string {
	return fmt.Sprintf("no answer to %s %s: %v", l.Method, l.Path, l.err)
}

func (l *lost) Unwrap() error { return l.err }

// isLost: the request may have been carried out.
func isLost(err error) bool {
	var l *lost
	return errors.As(err, &l) && l.Sent
}

// isUnanswered: there was no answer.
func isUnanswered(err error) bool {
	var l *lost
	return errors.As(err, &l)
}

// exchange sends a request within the BMC's session, and counts it.
func (h *handle) exchange(ctx context.Context, r request) (answer, error) {
	h.requests++
	got, basic, err := h.bmc.inTurn(ctx, r)
	h.basic = h.basic || basic
	if err != nil && mayPass(err) {
		h.away++
	}
	if got.certificate != "" {
		h.certificate = got.certificate
	}
	return got, err
}

// maxTries bounds how often a request is sent again that was refused for its session or its tag.
const maxTries = 4

// Get reads a resource. While the BMC does not answer or is starting, it is asked again, within the
// handle's patience; a session that the BMC has ended is made again, but not each new one. Errors:
// *refusal, bmc_unreachable, those of the session.
func (h *handle) Get(ctx context.Context, path string) (answer, error) {
	waiting := h.driver.timing.wait(h.patience)
	defer waiting.stop()
	for refusals := 0; ; {
		got, err := h.exchange(ctx, request{Method: http.MethodGet, Path: path})
		if hasStatus(err, http.StatusUnauthorized) {
			if refusals++; refusals == maxTries {
				return answer{}, hardware.Refused(device.CodeBMCLoginRefused, "check the rights of the secret's user on the BMC",
					"the BMC does not accept its own new session: %v", err)
			}
			continue
		}
		if err == nil || !mayPass(err) {
			return got, err
		}
		if h.report != nil {
			if stop := h.report("waits for the BMC: " + hardware.OneLine(err.Error())); stop != nil {
				return answer{}, stop
			}
		}
		if again, stop := waiting.next(ctx); stop != nil {
			return answer{}, stop
		} else if !again {
			return answer{}, unreachable(err)
		}
	}
}

// get reads a resource and decodes it.
func (h *handle) get(ctx context.Context, path string, into any) error {
	got, err := h.Get(ctx, path)
	if err != nil {
		return err
	}
	return got.decode(into)
}

// mayPass: the BMC did not answer, or answers that it is not ready.
func mayPass(err error) bool {
	if r, ok := asRefusal(err); ok {
		switch r.Status {
		case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
			http.StatusTooManyRequests:
			return true
		}
		return false
	}
	return isUnanswered(err)
}

// unreachable is the fault of a BMC that did not answer for as long as it was waited for.
func unreachable(err error) error {
	return &device.Fault{Class: device.Transient, Code: device.CodeBMCUnreachable,
		Message: "the BMC does not answer: " + hardware.OneLine(err.Error()), Remedy: "check the BMC and its network"}
}

// members gives the links of a collection's members, in its order.
func (h *handle) members(ctx context.Context, path string) ([]link, error) {
	var all []link
	for next, pages := path, 0; next != ""; pages++ {
		var page struct {
			Members []link `bmc:"required"`
			Next    link   `json:"Members@odata.nextLink"`
		}
		if err := h.get(ctx, next, &page); err != nil {
			return nil, err
		}
		if pages > 1000 || slices.Contains(page.Members, "") {
			return nil, hardware.Refused(device.CodeToolOutputInvalid, "update the BMC's firmware",
				"the collection %s has no end, or a member without a link", path)
		}
		all, next = append(all, page.Members...), string(page.Next)
	}
	return all, nil
}

// eachMember reads the members of a collection, none where the BMC does not have it. One that is gone since
// it was listed is left out.
func eachMember[T any](ctx context.Context, h *handle, collection link, use func(path string, one *T)) error {
	if collection == "" {
		return nil
	}
	members, err := h.members(ctx, string(collection))
	if hasStatus(err, http.StatusNotFound) {
		return nil
	}
	for _, path := range paths(members) {
		one := new(T)
		switch err := h.get(ctx, path, one); {
		case hasStatus(err, http.StatusNotFound):
		case err != nil:
			return err
		default:
			use(path, one)
		}
	}
	return err
}

// path gives the path of a link, such as a Location, in an answer to path. "" is returned for none
// and for one that leads to another host: what is there is not this BMC's.
func (b *bmc) path(path, link string) string {
	to, _ := b.resolve(path, link)
	return to
}

// resolve gives the path of a link in the resource at path, which is absolute or relative; false: it
// leads to another host.
func (b *bmc) resolve(path, link string) (string, bool) {
	link = strings.TrimSpace(link)
	if strings.HasPrefix(link, "redfish/") {
		link = "/" + link // some leave the first slash out
	}
	from, wrong := url.Parse(path)
	u, err := url.Parse(link)
	if err != nil || wrong != nil || u.Host != "" && (!b.isHost(u) || u.Path == "") || u.User != nil || u.Opaque != "" {
		return "", false
	}
	if link == "" {
		return "", true
	}
	return from.ResolveReference(u).RequestURI(), true
}

// isHost: u is on the BMC's host. BMCs behind TLS write links with http, and links with the usual port.
func (b *bmc) isHost(u *url.URL) bool {
	usual := map[string]string{"https": "443", "http": "80"}[b.base.Scheme]
	return strings.EqualFold(u.Hostname(), b.base.Hostname()) && cmp.Or(u.Port(), usual) == cmp.Or(b.base.Port(), usual)
}

// transmit sends one request, once, for who has the turn.
func (b *bmc) transmit(ctx context.Context, r request) (answer, error) {
	timeout := r.Timeout
	if timeout == 0 {
		timeout = b.driver.timing.request
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it takes longer than %v", timeout))
	defer cancel()
	out, body, err := b.newRequest(ctx, r)
	if err != nil {
		return answer{}, err
	}
	maps.Copy(out.Header, b.header)
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	out = out.WithContext(httptrace.WithClientTrace(ctx, trace))
	err = b.pace.Wait(ctx)
	var in *http.Response
	if err == nil {
		in, err = b.http.Do(out)
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		whole := sent.Load() && (body == nil || body.left.Load() <= 0)
		return answer{}, &lost{Method: r.Method, Path: r.Path, Sent: whole, err: err}
	}
	text, err := io.ReadAll(io.LimitReader(in.Body, largestAnswer+1))
	if err := errors.Join(err, in.Body.Close()); err != nil {
		return answer{}, &lost{Method: r.Method, Path: r.Path, Sent: true, err: err}
	}
	if len(text) > largestAnswer {
		return answer{}, hardware.Refused(device.CodeToolOutputInvalid, "update the BMC's firmware",
			"the BMC's answer to %s %s is larger than %d bytes", r.Method, r.Path, largestAnswer)
	}
	got := answer{Status: in.StatusCode, Header: in.Header, Body: text, Method: r.Method, Path: r.Path, bmc: b}
	if in.TLS != nil && len(in.TLS.PeerCertificates) > 0 {
		got.certificate = digest(string(in.TLS.PeerCertificates[0].Raw))
	}
	if got.Status >= 300 {
		return got, &refusal{Method: r.Method, Path: r.Path, Status: got.Status, Messages: got.messages(),
			Redirect: got.Status < 400}
	}
	return got, nil
}

// newRequest makes the request, and gives its body where that is a content.
func (b *bmc) newRequest(ctx context.Context, r request) (*http.Request, *upload, error) {
	if !strings.HasPrefix(r.Path, "/") {
		return nil, nil, hardware.CallerError("%q is not a path of a BMC", r.Path)
	}
	var body io.Reader
	var large *upload
	length, kind := int64(0), ""
	switch {
	case r.Content != nil:
		large = &upload{from: r.Content.Open(), mayWrite: func() error { return hardware.MayWrite(ctx) }}
		large.left.Store(r.Content.Length)
		body, length, kind = large, r.Content.Length, r.Content.Type
	case r.Body != nil:
		text, err := json.Marshal(r.Body)
		if err != nil {
			return nil, nil, err
		}
		body, length, kind = bytes.NewReader(text), int64(len(text)), "application/json"
	case r.Method == http.MethodPost:
		// Some BMCs refuse an action without a body.
		body, length, kind = strings.NewReader("{}"), 2, "application/json"
	}
	out, err := http.NewRequestWithContext(ctx, r.Method, b.base.Scheme+"://"+b.base.Host+r.Path, body)
	if err != nil {
		return nil, nil, err
	}
	out.ContentLength = length
	out.Header.Set("Accept", "application/json")
	out.Header.Set("OData-Version", "4.0")
	out.Header.Set("User-Agent", "burnish")
	if kind != "" {
		out.Header.Set("Content-Type", kind)
	}
	if r.IfMatch != "" {
		out.Header.Set("If-Match", r.IfMatch)
	}
	return out, large, nil
}

// checkRedirect follows a redirect only to the same host and with the same method, such as
// the one that adds a slash. Go would send the token, and the body of a login, elsewhere.
func checkRedirect(next *http.Request, before []*http.Request) error {
	first := before[0]
	if len(before) > 3 || next.Method != first.Method || next.URL.Scheme != first.URL.Scheme ||
		next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}
