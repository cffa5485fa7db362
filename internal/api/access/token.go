package access

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"

	"burnish/internal/device"
)

// largestToken bounds a token; Keystone's have at most some hundred characters.
const largestToken = 4096

// hashed is a token's SHA-256. Tokens themselves are not kept.
type hashed [sha256.Size]byte

// tokenOf gives the token of a request, "" where it has none. It is taken from X-Auth-Token
// and from Authorization: Bearer, and from nowhere else: a query is logged on its way, and a
// cookie is sent by pages of other sites.
func tokenOf(r *http.Request) (string, error) {
	tokens := slices.Clone(r.Header.Values("X-Auth-Token"))
	for _, value := range r.Header.Values("Authorization") {
		if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
			tokens = append(tokens, strings.TrimSpace(token))
		}
	}
	tokens = slices.DeleteFunc(tokens, func(token string) bool { return token == "" })
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	switch {
	case len(tokens) == 0:
		return "", nil
	case len(tokens) > 1:
		return "", &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
			Message: "the request has several different tokens", Remedy: "send one, in X-Auth-Token or as Authorization: Bearer"}
	case !validToken(tokens[0]):
		return "", notAuthenticated("the token is not valid")
	}
	return tokens[0], nil
}

// validToken says whether a text may be a token: printable ASCII without spaces.
func validToken(token string) bool {
	return token != "" && len(token) <= largestToken &&
		!strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' })
}
