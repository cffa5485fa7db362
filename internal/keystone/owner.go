package keystone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Owner says whose a token is.
type Owner struct {
	UserID, UserName string
	// ProjectID is "" for a token of a domain, of the system, or of nothing.
	ProjectID string
	Roles     []string
	// ExpiresAt is when the token ends by itself.
	ExpiresAt time.Time
}

// ErrNoToken says that a token is unknown, expired or revoked, or that its user, project or
// domain is disabled: Keystone does not say which.
var ErrNoToken = errors.New("keystone does not accept the token")

// Validator asks Keystone whose a token is, with credentials of its own, whose user needs the
// role service or admin.
type Validator struct {
	access Access
	web    http.Client

	mu     sync.Mutex
	client *gophercloud.ServiceClient
}

// validations is how many idle connections to Keystone are kept.
const validations = 16

// NewValidator does not connect yet.
func NewValidator(a Access) (*Validator, error) {
	if a.Token != "" {
		return nil, errNoKeystone
	}
	web, err := a.HTTP(validations)
	return &Validator{access: a, web: web}, err
}

// Owner asks Keystone. Its error is ErrNoToken, or says that Keystone cannot be asked.
func (v *Validator) Owner(ctx context.Context, token string) (Owner, error) {
	client, err := v.connected(ctx)
	if err != nil {
		return Owner{}, oneLine(err)
	}
	answer := tokens.Get(ctx, client, token)
	if isUnknownToken(answer.Err) {
		return Owner{}, ErrNoToken
	}
	if answer.Err != nil {
		return Owner{}, oneLine(answer.Err)
	}
	var found struct {
		ExpiresAt time.Time                 `json:"expires_at"`
		User      struct{ ID, Name string } `json:"user"`
		Project   struct{ ID string }       `json:"project"`
		Roles     []struct{ Name string }   `json:"roles"`
	}
	if err := answer.ExtractInto(&found); err != nil { // what is below "token"
		return Owner{}, oneLine(err)
	}
	if found.User.ID == "" || found.ExpiresAt.IsZero() {
		return Owner{}, errors.New("this is no answer of Keystone: it names no user")
	}
	o := Owner{UserID: found.User.ID, UserName: found.User.Name, ProjectID: found.Project.ID, ExpiresAt: found.ExpiresAt}
	for _, role := range found.Roles {
		o.Roles = append(o.Roles, role.Name)
	}
	return o, nil
}

// connected logs in at the first call, while others wait; later the client itself replaces its token.
func (v *Validator) connected(ctx context.Context) (*gophercloud.ServiceClient, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.client != nil {
		return v.client, nil
	}
	provider, err := v.access.Login(ctx, v.web)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	v.client = &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: provider.IdentityBase + "v3/",
		Type: "identity"}
	return v.client, nil
}

// isUnknownToken says that Keystone itself, and not a proxy before it, has answered that
// there is no such token.
func isUnknownToken(err error) bool {
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if !errors.As(err, &unexpected) || unexpected.Actual != http.StatusNotFound {
		return false
	}
	var body struct {
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	return json.Unmarshal(unexpected.Body, &body) == nil && body.Error.Code == http.StatusNotFound
}

// oneLine gives an error without line breaks.
func oneLine(err error) error {
	const longest = 300
	text := []rune(strings.Join(strings.Fields(err.Error()), " "))
	if len(text) > longest {
		text = append(text[:longest], '…')
	}
	return errors.New(string(text))
}
