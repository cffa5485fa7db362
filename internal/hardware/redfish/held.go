package redfish

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
)

// heldBody is the body of a request whose last byte is held back until it is journaled that the
// request may have been carried out.
type heldBody struct {
	text   []byte
	intent func() error

	mu     sync.Mutex
	given  bool // the last byte
	ended  bool
	failed error
}

// hold holds back the end of the request's body, where that is to be journaled and is not an image,
// which does so itself. nil: it is not. A request without a body is journaled at once.
func hold(out *http.Request, r request) (*heldBody, error) {
	if r.Intent == nil || r.Content != nil {
		return nil, nil
	}
	if out.GetBody == nil {
		return nil, r.Intent()
	}
	body, err := out.GetBody()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	b := &heldBody{text: text, intent: r.Intent}
	out.GetBody = func() (io.ReadCloser, error) { return &heldReader{b, bytes.NewReader(b.text)}, nil }
	out.Body, err = out.GetBody()
	return b, err
}

// stop ends the readers. It reports whether the last byte was given; the error is why not.
func (b *heldBody) stop() (given bool, failed error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return b.given, b.failed
}

// heldReader reads the body once.
type heldReader struct {
	body *heldBody
	from *bytes.Reader
}

func (r *heldReader) Close() error { return nil }

func (r *heldReader) Read(p []byte) (int, error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	switch {
	case r.body.ended:
		return 0, errors.New("the request has ended")
	case len(p) == 0 || r.from.Len() == 0:
		return r.from.Read(p)
	case r.from.Len() > 1:
		return r.from.Read(p[:min(len(p), r.from.Len()-1)])
	}
	if err := r.body.intent(); err != nil {
		r.body.failed = err
		return 0, err
	}
	r.body.given = true
	return r.from.Read(p)
}
