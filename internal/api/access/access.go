// Package access decides who may use the HTTP API, and for what: it authenticates a
// request by a token file, by Keystone or by the peer of a unix socket, compares the
// principal's roles with the policy, and bounds what a caller may cost.
package access

import (
	"net/http"

	"burnish/internal/device"
)

// Principal is who sends a request.
type Principal struct {
	// ID is unique, and stays the same when the name changes: "keystone:<user id>",
	// "token:<user>" or "unix:<uid>".
	ID string
	// Name is what people read.
	Name string
	// Project is "" where there is none.
	Project string
	Roles   []string
}

// Authenticator finds who sends a request. Its error is a *device.Fault of one of the codes
// not_authenticated, authentication_unavailable and invalid.
type Authenticator interface {
	Authenticate(r *http.Request) (Principal, error)
}

// notAuthenticated is the fault of a request without a valid token. It never says why a
// token is not valid.
func notAuthenticated(message string) *device.Fault {
	return &device.Fault{
		Class: device.NeedsOperator, Code: device.CodeNotAuthenticated, Message: message,
		Remedy: "send a valid token in X-Auth-Token or as Authorization: Bearer",
	}
}
