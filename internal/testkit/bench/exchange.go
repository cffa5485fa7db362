package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"burnish/internal/testkit/must"
)

// exchange is one request to a BMC and its answer.
type exchange struct {
	method, uri string
	header      http.Header
	body        []byte
	status      int
	location    string
	answer      []byte
}

// recorded gives each exchange of a handler to record.
func recorded(h http.Handler, record func(exchange)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		got := httptest.NewRecorder()
		h.ServeHTTP(got, r)
		for name, values := range got.Header() {
			w.Header()[name] = values
		}
		record(exchange{
			method: r.Method, uri: r.URL.RequestURI(), header: r.Header.Clone(), body: body,
			status: got.Code, location: got.Header().Get("Location"), answer: got.Body.Bytes(),
		})
		w.WriteHeader(got.Code)
		_, _ = w.Write(got.Body.Bytes()) // a client that has gone needs no answer
	})
}

// replayer repeats recorded requests on another BMC, with nothing between them but the driver's pace and
// waits for the hardware.
type replayer struct {
	base  string
	http  *http.Client
	pace  *rate.Limiter
	token string
	// moved are URIs of the first BMC, and what they are here: sessions.
	moved map[string]string
	etags map[string]string // by URI
}

func newReplayer(bmc *simulated) *replayer {
	return &replayer{base: bmc.server.URL, http: bmc.server.Client(), pace: rate.NewLimiter(rate.Every(bmcPace), 1),
		moved: map[string]string{}, etags: map[string]string{}}
}

// bmcPace is the least time between two requests to a BMC, as the driver has it: a BMC takes no more.
const bmcPace = 100 * time.Millisecond

// step repeats the requests of one step.
func (p *replayer) step(ctx context.Context, all []neededExchange) {
	for _, e := range all {
		p.until(ctx, e.exchange, func(got exchange) bool {
			return got.status == e.status && (!e.waited || sameState(got.answer, e.answer))
		})
	}
}

// neededExchange is one that a step takes, however long the hardware works.
type neededExchange struct {
	exchange
	waited bool // for this answer
}

// needed are the exchanges that a step takes. What was refused is left out, and so is a look at a URI whose
// answer changed before the next other request: it only waited, for the first that is as the last one.
func needed(log []exchange) (all []neededExchange) {
	var reads []exchange
	take := func() {
		for i, e := range reads {
			changed := func(other exchange) bool {
				return other.uri == e.uri && (other.status != e.status || !sameState(other.answer, e.answer))
			}
			if !slices.ContainsFunc(reads[i+1:], changed) {
				all = append(all, neededExchange{e, slices.ContainsFunc(reads[:i], changed)})
			}
		}
		reads = nil
	}
	for _, e := range log {
		if e.method == http.MethodGet {
			reads = append(reads, e)
		} else if e.status < http.StatusBadRequest {
			take()
			all = append(all, neededExchange{exchange: e})
		}
	}
	take()
	return all
}

// until repeats a request until it is answered as awaited.
func (p *replayer) until(ctx context.Context, e exchange, awaited func(exchange) bool) {
	what := fmt.Sprintf("%s %s to answer %d %s", e.method, e.uri, e.status, e.answer)
	must.Do(awaitNoError(ctx, 0, what, func() (bool, string, error) {
		got := p.send(ctx, e)
		return awaited(got), fmt.Sprintf("%d %s", got.status, got.answer), nil
	}))
}

func (p *replayer) send(ctx context.Context, e exchange) exchange {
	uri := e.uri
	if moved, is := p.moved[uri]; is {
		uri = moved
	}
	r := must.Get(http.NewRequestWithContext(ctx, e.method, p.base+uri, bytes.NewReader(e.body)))
	for _, name := range []string{"Content-Type", "Accept", "Odata-Version"} {
		r.Header[name] = e.header[name]
	}
	if e.header.Get("If-Match") != "" {
		r.Header.Set("If-Match", p.etags[uri])
	}
	if e.header.Get("X-Auth-Token") != "" {
		r.Header.Set("X-Auth-Token", p.token)
	}
	must.Do(p.pace.Wait(ctx))
	response := must.Get(p.http.Do(r))
	defer response.Body.Close()
	answer := must.Get(io.ReadAll(response.Body))
	if token := response.Header.Get("X-Auth-Token"); token != "" {
		p.token = token
	}
	if etag := response.Header.Get("ETag"); etag != "" {
		p.etags[uri] = etag
	}
	location := response.Header.Get("Location")
	if e.location != "" && location != "" {
		p.moved[pathOf(e.location)] = pathOf(location)
	}
	return exchange{status: response.StatusCode, answer: answer}
}

// pathOf is the path of a URI with or without a host.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return uri
	}
	return u.RequestURI()
}

// changing are the properties of an answer that differ from look to look, and say nothing about the
// state: times, percentages and versions of the resource.
var changing = regexp.MustCompile(`(?i)"[^"]*(time|percent|etag)[^"]*":\s*("(?:\\.|[^"\\])*"|[^,}\]]*),?\s*`)

// sameState: two answers say the same but for what changes.
func sameState(a, b []byte) bool {
	return bytes.Equal(changing.ReplaceAll(a, nil), changing.ReplaceAll(b, nil))
}
