package remote

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// errorOf is the error that an answer is. Only the API's own bodies show their words: those of a
// proxy may be anything.
// ended: the caller's time is over.
func (c *Client) errorOf(r *request, ended bool, status int, header http.Header, text []byte) error {
	var body client.ErrorBody
	if json.Unmarshal(text, &body) != nil || body.Error.Code == "" {
		return c.foreign(r, status, header)
	}
	e := body.Error
	fault := device.Fault{Class: device.Permanent, Code: e.Code, Message: e.Message, Remedy: e.Remedy}
	switch {
	case e.Outcome == client.OutcomeAccepted:
		return client.AcceptedError{Err: context.DeadlineExceeded}
	case e.Outcome == client.OutcomeUnconfirmed && ended:
		return client.UnconfirmedError{Err: context.DeadlineExceeded}
	case e.Outcome == client.OutcomeUnconfirmed:
		return client.UnconfirmedError{Err: errors.New("no answer from Temporal")}
	case status == http.StatusUnauthorized:
		fault.Remedy = "set " + config.VarAPIToken + " or OS_TOKEN to a valid token, or OS_CLOUD to a cloud of clouds.yaml"
	case e.Code == device.CodeNoSuchPath:
		fault.Remedy = "upgrade the control worker that serves the API: it is older than this program"
	case status == http.StatusNotFound && e.State == "":
		return client.NotFoundError{Message: e.Message}
	case status == http.StatusServiceUnavailable:
		fault.Class = device.Transient
	}
	return client.RefusedError{Refusal: contract.Refusal{Fault: fault, Device: e.Device, State: e.State}}
}

// foreign is the error of an answer that is not the API's.
func (c *Client) foreign(r *request, status int, header http.Header) error {
	if status >= 300 && status < 400 {
		// Without a query, which may hold a secret.
		to := "another address"
		if u, err := url.Parse(header.Get("Location")); err == nil && u.Host != "" && u.User == nil {
			to = u.Scheme + "://" + u.Host + u.EscapedPath()
		}
		return c.unreachable("redirects to "+to, "set --api or "+config.VarAPI+" to the API's own address")
	}
	what := fmt.Sprintf("answered %d %s, and not as Burnish does", status, http.StatusText(status))
	if status >= 500 && r.key != "" {
		return client.UnconfirmedError{Err: errors.New("it " + what)}
	}
	return c.unreachable(what, "see that --api or "+config.VarAPI+" is right, and what stands before the API")
}

func (c *Client) notTheAPI(what string) error {
	return c.unreachable("gave "+what, "see that --api or "+config.VarAPI+" is the address of a Burnish of this version")
}

func (c *Client) unreachable(what, remedy string) error {
	return &device.Fault{Class: device.Transient, Code: device.CodeUnreachable, Message: "the API at " + c.address + " " +
		what, Remedy: remedy}
}

// lost is the error of a request without an answer.
func (c *Client) lost(ctx context.Context, r *request, err error) error {
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err // without the address
	}
	var fault *device.Fault
	if errors.As(err, &fault) {
		return err
	}
	ended := ctx.Err()
	if ended == nil && errors.Is(err, context.DeadlineExceeded) {
		ended = context.DeadlineExceeded
	}
	if ended != nil {
		err = ended
	}
	if r.key != "" && r.sent {
		return client.UnconfirmedError{Err: err}
	}
	if ended != nil {
		return err
	}
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &certificate):
		return c.unreachable("has a certificate that is not trusted: "+certificate.Err.Error(),
			"set OS_CACERT or SSL_CERT_FILE to the file of its authority")
	case errors.As(err, &record):
		return c.unreachable("does not speak TLS", "set --api or "+config.VarAPI+" to http://…, or to the right port")
	}
	return c.unreachable("does not answer: "+err.Error(), "start it, or set --api or "+config.VarAPI)
}
