package remote

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/keystone"
)

// tokenSource has the token of each request. Neither its text nor that of a password is ever
// in an error.
type tokenSource struct {
	// login gets a new token; nil: the token was given, and there is no other.
	login func(ctx context.Context) (string, error)

	mu    sync.Mutex
	token string
}

// findToken gives the token of the environment: BURNISH_API_TOKEN, OS_TOKEN, or Keystone's for the
// credentials of OS_… and clouds.yaml; nil if there is none. A unix socket needs none, because its
// server sees who connects: there only BURNISH_API_TOKEN is sent.
func findToken(getenv func(string) string, isUnix bool) (*tokenSource, error) {
	for _, name := range []string{config.VarAPIToken, "OS_TOKEN"} {
		token := strings.TrimSpace(getenv(name))
		switch {
		case token == "", name != config.VarAPIToken && isUnix:
			continue
		case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, &device.Fault{Class: device.Permanent, Code: device.CodeInvalidSetting,
				Message: fmt.Sprintf("the token in %s has characters that no token has", name), Remedy: "set it to the token alone"}
		}
		return &tokenSource{token: token}, nil
	}
	if isUnix || !keystone.Given(getenv) {
		return nil, nil
	}
	login, err := keystoneLogin(getenv)
	if err != nil {
		return nil, err
	}
	return &tokenSource{login: login}, nil
}

// current is the token to send; a nil source has none.
func (t *tokenSource) current() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token
}

// renewable says whether another token can be had.
func (t *tokenSource) renewable() bool { return t != nil && t.login != nil }

// renew gets another token than the one that was refused, unless another request has got one
// meanwhile.
func (t *tokenSource) renew(ctx context.Context, refused string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != refused {
		return nil
	}
	token, err := t.login(ctx)
	if err != nil {
		return err
	}
	t.token = token
	return nil
}
