package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// Placement's codes for the reasons of a 409, since 1.23.
const (
	codeConcurrent     = "placement.concurrent_update"
	codeProviderInUse  = "placement.resource_provider.inuse"
	codeInventoryInUse = "placement.inventory.inuse"
	codeDuplicateName  = "placement.duplicate_name"
)

// requestInfo is what a fault says of the request.
type requestInfo struct {
	uuid       string // "" unless it concerns one provider
	generation int64
	// configured: it carries names, classes or traits that an operator set, so that a 400 is
	// an answer to those and will not pass.
	configured bool
}

// errDuplicate means that another provider has the name or the UUID. It never leaves
// this package.
var errDuplicate = errors.New("another provider has this name or UUID")

// placementError is an answer with an error status.
type placementError struct {
	status int
	code   string
	detail string
	// fromPlacement: the body has Placement's form, so the answer is not a proxy's.
	fromPlacement bool
	// fromKeystone: the body has Keystone's form.
	fromKeystone bool
}

// fault converts the error of a request into a fault of the port.
func (s *Store) fault(ctx context.Context, what requestInfo, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := device.AsFault(err); ok {
		return err
	}
	var reauth *gophercloud.ErrUnableToReauthenticate
	if errors.As(err, &reauth) {
		err = reauth.ErrReauth
	}
	said, ok := refused(err)
	if !ok {
		return unavailable(ctx, err)
	}
	switch {
	case said.status == http.StatusUnauthorized, said.status == http.StatusForbidden,
		said.status == http.StatusNotFound && said.fromKeystone: // the answer to an invalid token
		return refusedCredentials(said)
	case said.status == http.StatusNotFound && said.fromPlacement && what.uuid != "" &&
		strings.Contains(said.detail, what.uuid):
		s.cache.forget(what.uuid)
		return inventory.NoProvider(what.uuid)
	case said.status == http.StatusNotFound, said.status == http.StatusTooManyRequests,
		said.status == http.StatusBadRequest && !(what.configured && said.fromPlacement),
		said.status == http.StatusRequestTimeout, said.status >= http.StatusInternalServerError:
		// A 404 that does not name the provider comes from a proxy without its Placement. A
		// 400 to a request that holds nothing but UUIDs, and what Placement itself gave, is not
		// for what it holds.
		return unavailable(ctx, fmt.Errorf("it answers %d: %s", said.status, said.detail))
	case said.status == http.StatusConflict && said.code == codeConcurrent:
		return inventory.Conflict(what.uuid, what.generation)
	case said.status == http.StatusConflict && (said.code == codeProviderInUse || said.code == codeInventoryInUse):
		return inventory.InUse(what.uuid, nil)
	case said.status == http.StatusConflict && said.code == codeDuplicateName:
		return errDuplicate
	default:
		return inventory.Invalid(fmt.Sprintf("Placement answers %d: %s", said.status, said.detail),
			"correct what the answer says; Placement's log has more")
	}
}

// refusal is the cause of a fault for credentials that OpenStack refused. Tokens, roles and
// policies are changed while Burnish runs, so it tries again; only the start ends with it.
type refusal struct{ said string }

func (r *refusal) Error() string { return r.said }

const (
	refusedCredentialsText   = "OpenStack refuses Burnish's credentials"
	refusedCredentialsRemedy = "correct the OS_* variables or clouds.yaml, or give the user the role that Placement " +
		"requires (admin)"
)

func refusedCredentials(said placementError) error {
	return inventory.Unavailable(refusedCredentialsText, refusedCredentialsRemedy+"; Burnish tries again",
		&refusal{fmt.Sprintf("it answers %d: %s", said.status, said.detail)})
}

// unavailable is the fault of a missing answer. The end of another caller's context,
// such as the one that requested the new token, is not given as the cause, because this
// caller's own context has not ended.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.Canceled) {
		err = errors.New(err.Error())
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return inventory.Unavailable("Placement", "make Placement and Keystone reachable; Burnish tries again", oneLine{err})
}

// oneLine is an error whose text has no line breaks.
type oneLine struct{ error }

func (e oneLine) Error() string { return flat(e.error.Error()) }
func (e oneLine) Unwrap() error { return e.error }

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// refused gives the answer with an error status that err holds.
func refused(err error) (placementError, bool) {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &unexpected) {
		return placementError{}, false
	}
	said := placementError{status: unexpected.Actual, detail: flat(string(unexpected.Body))}
	var body struct {
		Errors []struct {
			Status int    `json:"status"`
			Code   string `json:"code"`
			Detail string `json:"detail"`
		} `json:"errors"`
		Error struct { // Keystone's form
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(unexpected.Body, &body) == nil {
		if len(body.Errors) > 0 {
			said.fromPlacement = body.Errors[0].Status == said.status
			said.code, said.detail = body.Errors[0].Code, flat(body.Errors[0].Detail)
		} else if body.Error.Message != "" {
			said.detail, said.fromKeystone = flat(body.Error.Message), body.Error.Code == said.status
		}
	}
	const longest = 500
	if len(said.detail) > longest {
		said.detail = strings.ToValidUTF8(said.detail[:longest], "") + "…"
	}
	return said, true
}

var noSuchTrait = regexp.MustCompile(`(?i)no such trait`)

// unknownTrait says that err means that Placement does not know the trait of a list.
func unknownTrait(err error, trait string) bool {
	f, ok := device.AsFault(err)
	return ok && f.Code == device.CodeInventoryInvalid && noSuchTrait.MatchString(f.Message) &&
		regexp.MustCompile(`\b`+regexp.QuoteMeta(trait)+`\b`).MatchString(f.Message)
}

// isUnknownClass says that err means that Placement does not know a class of the record.
func isUnknownClass(err error) bool {
	f, ok := device.AsFault(err)
	return ok && (strings.Contains(f.Message, "No such resource class "+TenantClass) ||
		strings.Contains(f.Message, "No such resource class "+RecordClass))
}

func isCode(err error, code device.Code) bool {
	f, ok := device.AsFault(err)
	return ok && f.Code == code
}
