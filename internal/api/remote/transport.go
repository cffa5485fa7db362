package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"burnish/workflows/client"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 10 * time.Second
	idlePerHost      = 16
	maxHeader        = 1 << 16
	// maxAnswer bounds the bytes of one answer that are read.
	maxAnswer = 32 << 20
	// retryPause is the pause before the outcome of an accepted change is asked for again.
	retryPause = 200 * time.Millisecond
	// waitGrace is how much longer than the API itself this client waits for its answer.
	waitGrace = 2 * time.Second
	// version is the microversion of every request.
	version = "accelerator 2.1"
)

// pause waits, or returns the error of ctx.
type pause func(ctx context.Context, d time.Duration) error

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// request is one request, with all its repetitions.
type request struct {
	method string
	path   []string // its segments below /v2
	query  url.Values
	body   []byte
	// key is the Idempotency-Key of a change: however often it arrives, it is carried out once.
	key string
	// sent says that the change may have arrived at the API.
	sent bool
}

// get reads.
func get[R any](ctx context.Context, c *Client, query url.Values, path ...string) (R, error) {
	return answerOf[R](ctx, c, &request{method: http.MethodGet, path: path, query: query})
}

// ask reads by a POST, because the question has a body.
func ask[R any](ctx context.Context, c *Client, in any, path ...string) (R, error) {
	return post[R](ctx, c, in, "", path...)
}

// change sends a change. A key of its own makes it one, however often it is repeated here.
func change[R any](ctx context.Context, c *Client, in any, path ...string) (R, error) {
	return post[R](ctx, c, in, uuid.NewString(), path...)
}

func post[R any](ctx context.Context, c *Client, in any, key string, path ...string) (R, error) {
	body, err := json.Marshal(in)
	if err != nil {
		var none R
		return none, fmt.Errorf("encode the request: %w", err)
	}
	return answerOf[R](ctx, c, &request{method: http.MethodPost, path: path, body: body, key: key})
}

func answerOf[R any](ctx context.Context, c *Client, r *request) (R, error) {
	text, _, err := c.send(ctx, r)
	return decoded[R](c, text, err)
}

// decoded reads the body of an answer.
func decoded[R any](c *Client, text []byte, err error) (result R, _ error) {
	if err == nil && json.Unmarshal(text, &result) != nil {
		err = c.notTheAPI("an answer that this program does not understand")
	}
	return result, err
}

// send sends a request until it has an answer: once more if the token has expired, and for as long
// as ctx lasts while the API is busy or a change that it accepted is not finished. A request on a
// connection that was lost meanwhile net/http sends once more: a change has its Idempotency-Key.
func (c *Client) send(ctx context.Context, r *request) ([]byte, http.Header, error) {
	for renewed := false; ; {
		token := c.token.current()
		status, header, text, err := c.once(ctx, r, token)
		switch {
		case err != nil:
			return nil, nil, c.lost(ctx, r, err)
		case status < 300:
			return text, header, nil
		case status == http.StatusUnauthorized && !renewed && c.token.renewable():
			renewed = true
			if err := c.token.renew(ctx, token); err != nil {
				return nil, nil, err
			}
		default:
			err = c.errorOf(r, !lasts(ctx, waitGrace/2), status, header, text)
			again, ok := repeatAfter(status, header, err, r)
			if !ok || !lasts(ctx, again) || c.pause(ctx, again) != nil {
				return nil, nil, err
			}
		}
	}
}

// lasts says whether ctx ends later than after d.
func lasts(ctx context.Context, d time.Duration) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() == nil && (!bounded || time.Until(deadline) > d)
}

// repeatAfter says when a request that the API did not carry out, or not finish, may be
// repeated.
func repeatAfter(status int, header http.Header, err error, r *request) (time.Duration, bool) {
	switch {
	case status == http.StatusTooManyRequests:
		seconds, atoi := strconv.Atoi(header.Get("Retry-After"))
		if atoi != nil || seconds < 1 {
			seconds = 1
		}
		return time.Duration(seconds) * time.Second, true
	case status == http.StatusGatewayTimeout && r.key != "":
		return retryPause, client.Accepted(err)
	}
	return 0, false
}

// once sends a request once.
func (c *Client) once(ctx context.Context, r *request,
	token string) (status int, header http.Header, text []byte, err error) {
	ctx, cancel, limit := r.bound(ctx)
	defer cancel()
	var wrote atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }}
	q, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), r.method, c.urlOf(r),
		bytes.NewReader(r.body))
	if err != nil {
		return 0, nil, nil, err
	}
	q.Header.Set("Accept", "application/json")
	q.Header.Set("OpenStack-API-Version", version)
	if r.method == http.MethodPost {
		q.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		q.Header.Set("Idempotency-Key", r.key)
	}
	if limit > 0 {
		q.Header.Set("Prefer", "wait="+strconv.Itoa(limit))
	}
	if token != "" {
		q.Header.Set("X-Auth-Token", token)
	}
	answer, err := c.web.Do(q)
	r.sent = r.sent || wrote.Load()
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read, or the error is already known
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		return 0, nil, nil, c.notTheAPI("an answer of more than 32 MiB")
	}
	if kind, _, parse := mime.ParseMediaType(answer.Header.Get("Content-Type")); parse != nil ||
		kind != "application/json" {
		text = nil
	}
	return answer.StatusCode, answer.Header, text, err
}

// urlOf is the request's address. A NAME may contain any character.
func (c *Client) urlOf(r *request) string {
	u := *c.base
	u.Path, u.RawPath = "", ""
	text := u.String() + c.base.EscapedPath() + "/v2"
	for _, segment := range r.path {
		text += "/" + url.PathEscape(segment)
	}
	if len(r.query) > 0 {
		text += "?" + r.query.Encode()
	}
	return text
}

// bound gives the context of one sending of a request. A change gets more time than its caller has, because
// the API's answer at the end of limit seconds says what became of it; but it ends at once if
// the caller is interrupted.
func (r *request) bound(ctx context.Context) (bounded context.Context, cancel func(), limit int) {
	deadline, has := ctx.Deadline()
	if left := time.Until(deadline); r.key != "" && has && ctx.Err() == nil {
		limit = int(left.Round(time.Second) / time.Second)
	}
	if limit == 0 {
		return ctx, func() {}, 0
	}
	bounded, end := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(limit)*time.Second+waitGrace)
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			end()
		}
	})
	return bounded, func() { stop(); end() }, limit
}
