package redfish

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// change sends a request that changes something, and is the only way to send one, but for
// login and logout. Before each time that it sends, it asks the host's rules and the lease
// (F13, F32), and reads who the system is (F11): a BMC may have got another system, a chassis
// may have been swapped. A request that was sent and not answered is never repeated here: the
// error is *lost, and the caller finds out by reading what has come of it.
//
// A refusal is a *refusal. Where the BMC wants an ETag, it is read and the request sent again.
func (h *handle) change(ctx context.Context, r request) (answer, error) {
	intent := r.Intent
	// Last, because what comes before it may have waited for minutes.
	r.Intent = func() error {
		if err := hardware.MayWrite(ctx); err != nil || intent == nil {
			return err
		}
		return intent()
	}
	waiting := h.driver.timing.wait(h.patience)
	defer waiting.stop()
	for tagged := 0; ; {
		if err := h.verify(ctx); err != nil {
			return answer{}, err
		}
		got, err := h.exchange(ctx, r)
		switch {
		case hasStatus(err, http.StatusUnauthorized) && tagged < maxTries:
			tagged++ // it was not carried out; the read of the identity logs in again
		case (hasStatus(err, http.StatusPreconditionRequired) || hasStatus(err, http.StatusPreconditionFailed)) &&
			tagged < maxTries:
			if r.IfMatch, err = h.tag(ctx, r.Path, tagged); err != nil {
				return answer{}, err
			}
			tagged++
		case isUnanswered(err) && !isLost(err):
			if again, stop := waiting.next(ctx); stop != nil {
				return answer{}, errors.Join(stop, err)
			} else if !again {
				return answer{}, unreachable(err)
			}
		default:
			return got, err
		}
	}
}

// tag reads the ETag of the resource at path. BMCs differ in which of their tags they compare, and
// how: after so many failures it is that of the header or of the body, then each without its W/.
func (h *handle) tag(ctx context.Context, path string, failures int) (string, error) {
	got, err := h.Get(ctx, path)
	if err != nil {
		return "", err
	}
	var body struct {
		Tag string `json:"@odata.etag"`
	}
	if err := got.decode(&body); err != nil {
		return "", err
	}
	var tags []string
	for _, tag := range []string{got.Header.Get("ETag"), body.Tag} {
		if tag != "" && !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	for _, tag := range tags {
		if strong, weak := strings.CutPrefix(tag, "W/"); weak {
			tags = append(tags, strong)
		}
	}
	if len(tags) == 0 {
		return "", nil
	}
	return tags[failures%len(tags)], nil
}

// verify proves that the host's rules allow this system, and that it is the enrolled one.
func (h *handle) verify(ctx context.Context) error {
	_, _, err := h.recognize(ctx, &h.enrolled)
	return err
}

// recognize reads who the system is: one that the host's rules allow, and the enrolled one; nil: none is yet.
func (h *handle) recognize(ctx context.Context, enrolled *device.Identity) (*system, device.Identity, error) {
	s, err := h.readSystem(ctx)
	if err != nil {
		return nil, device.Identity{}, err
	}
	identity, err := h.identify(ctx, s)
	if err != nil {
		return nil, device.Identity{}, err
	}
	if enrolled != nil {
		if field := enrolled.Differs(identity); field != "" {
			return nil, device.Identity{}, hardware.Changed(field, "the BMC manages "+describe(identity))
		}
	}
	return s, identity, h.driver.checkAllowed(identity.Serial)
}
