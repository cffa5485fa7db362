package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/inventory"
)

// Client does to Placement what Nova does.
type Client struct {
	url string
	// Token is sent with each request.
	Token string
}

// Scheduler is a Client for a test, which fails where Placement refuses.
type Scheduler struct {
	Client
	t testing.TB
}

// schedulerAgent distinguishes Nova's requests from Burnish's in a Recorder.
const schedulerAgent = "nova-scheduler"

// DefaultToken is what a Placement without Keystone takes.
const DefaultToken = "admin"

// NewClient is a Client of a Placement without Keystone, or of a Recorder before one.
func NewClient(url string) Client { return Client{url: url, Token: DefaultToken} }

// NewScheduler is a Scheduler on a Placement, or on a Recorder before one.
func NewScheduler(t testing.TB, url string) *Scheduler {
	return &Scheduler{Client: NewClient(url), t: t}
}

// errRefused is an answer that means failure.
var errRefused = errors.New("refused by Placement")

// Do sends one request at microversion 1.39 and returns the answer's status and body.
func (c Client) Do(ctx context.Context, method, path string, body, into any) (int, string, error) {
	return request(ctx, http.DefaultClient, method, c.url+path, map[string]string{
		"X-Auth-Token": c.Token, "OpenStack-API-Version": "placement 1.39", "User-Agent": schedulerAgent,
	}, body, into)
}

// succeed is Do where a status of 300 or above is an error.
func (c Client) succeed(ctx context.Context, method, path string, body any) error {
	status, answer, err := c.Do(ctx, method, path, body, nil)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%w: %s %s: %d %s", errRefused, method, path, status, answer)
	}
	return err
}

func (s *Scheduler) require(method, path string, body any) {
	s.t.Helper()
	require.NoError(s.t, s.succeed(s.t.Context(), method, path, body))
}

// Host creates a compute node's provider.
func (s *Scheduler) Host(name string) (root string) {
	s.t.Helper()
	root = uuid.NewString()
	s.require(http.MethodPost, "/resource_providers", map[string]any{"name": name, "uuid": root})
	s.require(http.MethodPut, "/resource_providers/"+root+"/inventories", map[string]any{
		"resource_provider_generation": 0,
		"inventories":                  map[string]any{"VCPU": map[string]any{"total": 64}},
	})
	return root
}

// Device creates the provider of a free one-time-use device below a host's provider. It is
// named `{host}_{ADDRESS}`, as by Nova, and has the traits that Nova sets and these.
func (s *Scheduler) Device(root, host, address, class string, more ...string) (device string) {
	s.t.Helper()
	device = uuid.NewString()
	s.Provider(device, host+"_"+strings.ToUpper(address), root, class, 0,
		append([]string{"HW_PCI_ONE_TIME_USE", "COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"}, more...)...)
	return device
}

// Provider creates any provider, total 1. Without a class it has no inventory.
func (s *Scheduler) Provider(id, name, root, class string, reserved int, traits ...string) {
	s.t.Helper()
	body := map[string]any{"name": name, "uuid": id}
	if root != "" {
		body["parent_provider_uuid"] = root
	}
	s.require(http.MethodPost, "/resource_providers", body)
	generation := 0
	if len(traits) > 0 {
		for _, trait := range traits {
			if strings.HasPrefix(trait, "CUSTOM_") {
				s.require(http.MethodPut, "/traits/"+trait, nil)
			}
		}
		s.require(http.MethodPut, "/resource_providers/"+id+"/traits",
			map[string]any{"resource_provider_generation": 0, "traits": traits})
		generation++
	}
	if class == "" {
		return
	}
	if strings.HasPrefix(class, "CUSTOM_") {
		s.require(http.MethodPut, "/resource_classes/"+class, nil)
	}
	s.require(http.MethodPut, "/resource_providers/"+id+"/inventories", map[string]any{
		"resource_provider_generation": generation,
		"inventories":                  map[string]any{class: map[string]any{"total": 1, "reserved": reserved, "max_unit": 1}},
	})
}

// Class creates a resource class.
func (s *Scheduler) Class(name string) {
	s.t.Helper()
	require.NoError(s.t, s.CreateClass(s.t.Context(), name))
}

// Inventory is a provider's inventory of one class.
type Inventory struct {
	Class      string
	Generation int64
	Fields     map[string]any
}

// Inventory reads a provider's inventory. There must be exactly one, beside those of Burnish's
// record.
func (c Client) Inventory(ctx context.Context, provider string) (Inventory, error) {
	var answer struct {
		Generation  int64                     `json:"resource_provider_generation"`
		Inventories map[string]map[string]any `json:"inventories"`
	}
	status, text, err := c.Do(ctx, http.MethodGet, "/resource_providers/"+provider+"/inventories", nil, &answer)
	if err != nil {
		return Inventory{}, err
	}
	maps.DeleteFunc(answer.Inventories, func(class string, _ map[string]any) bool { return isRecord(class) })
	if status != http.StatusOK || len(answer.Inventories) != 1 {
		return Inventory{}, fmt.Errorf("%w: %d %s", errRefused, status, text)
	}
	found := Inventory{Generation: answer.Generation}
	for found.Class, found.Fields = range answer.Inventories {
	}
	return found, nil
}

// Allocate gives one unit of the provider to a consumer. Where none is free it returns
// inventory.Conflict.
func (c Client) Allocate(ctx context.Context, provider, consumer string) error {
	has, err := c.Inventory(ctx, provider)
	if err != nil {
		return err
	}
	status, text, err := c.Do(ctx, http.MethodPut, "/allocations/"+consumer, map[string]any{
		"allocations": map[string]any{provider: map[string]any{"resources": map[string]any{has.Class: 1}}},
		"project_id":  "burnish-test", "user_id": "burnish-test", "consumer_generation": nil, "consumer_type": "INSTANCE",
	}, nil)
	switch {
	case err != nil:
		return err
	case status == http.StatusNoContent:
		return nil
	case status == http.StatusConflict:
		return inventory.Conflict(provider, has.Generation)
	default:
		return fmt.Errorf("%w: %d %s", errRefused, status, text)
	}
}

// Deallocate ends a consumer's allocations; the provider need not be named.
func (c Client) Deallocate(ctx context.Context, _, consumer string) error {
	return c.succeed(ctx, http.MethodDelete, "/allocations/"+consumer, nil)
}

// WriteReserved writes reserved, whatever the generation is. As Nova does, it reads the
// generation again after a conflict.
func (c Client) WriteReserved(ctx context.Context, provider string, reserved int) error {
	for try := 1; ; try++ {
		has, err := c.Inventory(ctx, provider)
		if err != nil {
			return err
		}
		has.Fields["reserved"], has.Fields["resource_provider_generation"] = reserved, has.Generation
		status, text, err := c.Do(ctx, http.MethodPut, "/resource_providers/"+provider+"/inventories/"+has.Class,
			has.Fields, nil)
		switch {
		case err != nil || status == http.StatusOK:
			return err
		case status != http.StatusConflict || try == 10:
			return fmt.Errorf("%w: %d %s", errRefused, status, text)
		}
	}
}

// CreateClass creates a resource class.
func (c Client) CreateClass(ctx context.Context, name string) error {
	return c.succeed(ctx, http.MethodPut, "/resource_classes/"+name, nil)
}

// Burn sets reserved = total, as Nova does once an instance has the device.
func (s *Scheduler) Burn(provider string) {
	s.t.Helper()
	s.SetReserved(provider, 1)
}

// SetReserved writes reserved, whatever the generation is.
func (s *Scheduler) SetReserved(provider string, reserved int) {
	s.t.Helper()
	require.NoError(s.t, s.WriteReserved(s.t.Context(), provider, reserved))
}

// Delete removes a provider.
func (s *Scheduler) Delete(provider string) {
	s.t.Helper()
	s.require(http.MethodDelete, "/resource_providers/"+provider, nil)
}

// Recreate deletes a provider and creates it again as Nova does: with another UUID and
// reserved = 0.
func (s *Scheduler) Recreate(provider, root, host, address, class string, more ...string) (again string) {
	s.t.Helper()
	s.Delete(provider)
	return s.Device(root, host, address, class, more...)
}

// request makes one request with a JSON body, and reads a JSON answer.
func request(ctx context.Context, client *http.Client, method, url string, headers map[string]string,
	body, into any) (int, string, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, "", err
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		return 0, "", err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	answer, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return 0, "", err
	}
	if into != nil && answer.StatusCode < 300 {
		if err := json.Unmarshal(text, into); err != nil {
			return 0, "", fmt.Errorf("%s: %w", text, err)
		}
	}
	return answer.StatusCode, string(text), nil
}

func ask(t testing.TB, method, url string, headers map[string]string, body, into any) (int, string) {
	t.Helper()
	status, text, err := request(t.Context(), http.DefaultClient, method, url, headers, body, into)
	require.NoError(t, err)
	return status, text
}

func encode(t testing.TB, body any) io.Reader {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	return bytes.NewReader(text)
}
