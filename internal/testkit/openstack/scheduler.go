package openstack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/internal/inventory"
)

// Scheduler does to Placement what Nova does.
type Scheduler struct {
	t   testing.TB
	url string
	// Token is sent with each request.
	Token string
}

// schedulerAgent is how a Recorder tells Nova's requests from Burnish's.
const schedulerAgent = "nova-scheduler"

// NewScheduler gives a Scheduler on a Placement, or on a Recorder before one.
func NewScheduler(t testing.TB, url string) *Scheduler {
	return &Scheduler{t: t, url: url, Token: "admin"}
}

// errRefused is an answer that was not hoped for.
var errRefused = errors.New("refused by Placement")

// Do makes one request at microversion 1.39, or another that a header names, and
// gives the answer's status and body.
func (s *Scheduler) Do(ctx context.Context, method, path string, body, into any) (int, string, error) {
	return request(ctx, method, s.url+path, map[string]string{
		"X-Auth-Token": s.Token, "OpenStack-API-Version": "placement 1.39", "User-Agent": schedulerAgent,
	}, body, into)
}

// must is Do where only success will do.
func (s *Scheduler) require(method, path string, body, into any) {
	s.t.Helper()
	status, answer, err := s.Do(s.t.Context(), method, path, body, into)
	require.NoError(s.t, err)
	require.Less(s.t, status, 300, "%s %s: %d %s", method, path, status, answer)
}

// Host makes a compute node's provider.
func (s *Scheduler) Host(name string) (root string) {
	s.t.Helper()
	root = uuid.NewString()
	s.require(http.MethodPost, "/resource_providers", map[string]any{"name": name, "uuid": root}, nil)
	s.require(http.MethodPut, "/resource_providers/"+root+"/inventories", map[string]any{
		"resource_provider_generation": 0,
		"inventories":                  map[string]any{"VCPU": map[string]any{"total": 64}},
	}, nil)
	return root
}

// Device makes the provider of a one-time-use device below a host's, free, named
// `{host}_{ADDRESS}` as Nova does, with the traits that Nova sets and more.
func (s *Scheduler) Device(root, host, address, class string, more ...string) (device string) {
	s.t.Helper()
	device = uuid.NewString()
	s.Provider(device, host+"_"+strings.ToUpper(address), root, class, 0,
		append([]string{"HW_PCI_ONE_TIME_USE", "COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"}, more...)...)
	return device
}

// Provider makes any provider, total 1, with what makes it somebody's. Without a
// class it has no inventory.
func (s *Scheduler) Provider(id, name, root, class string, reserved int, traits ...string) {
	s.t.Helper()
	body := map[string]any{"name": name, "uuid": id}
	if root != "" {
		body["parent_provider_uuid"] = root
	}
	s.require(http.MethodPost, "/resource_providers", body, nil)
	generation := 0
	if len(traits) > 0 {
		for _, trait := range traits {
			if strings.HasPrefix(trait, "CUSTOM_") {
				s.require(http.MethodPut, "/traits/"+trait, nil, nil)
			}
		}
		s.require(http.MethodPut, "/resource_providers/"+id+"/traits", map[string]any{"resource_provider_generation": 0, "traits": traits}, nil)
		generation++
	}
	if class == "" {
		return
	}
	if strings.HasPrefix(class, "CUSTOM_") {
		s.require(http.MethodPut, "/resource_classes/"+class, nil, nil)
	}
	s.require(http.MethodPut, "/resource_providers/"+id+"/inventories", map[string]any{
		"resource_provider_generation": generation,
		"inventories":                  map[string]any{class: map[string]any{"total": 1, "reserved": reserved, "max_unit": 1}},
	}, nil)
}

// Class makes a resource class.
func (s *Scheduler) Class(name string) {
	s.t.Helper()
	s.require(http.MethodPut, "/resource_classes/"+name, nil, nil)
}

// Inventory is a provider's inventory of one class.
type Inventory struct {
	Class      string
	Generation int64
	Fields     map[string]any
}

// Inventory reads a provider's inventory, of which there must be one.
func (s *Scheduler) Inventory(ctx context.Context, provider string) (Inventory, error) {
	var answer struct {
		Generation  int64                     `json:"resource_provider_generation"`
		Inventories map[string]map[string]any `json:"inventories"`
	}
	status, text, err := s.Do(ctx, http.MethodGet, "/resource_providers/"+provider+"/inventories", nil, &answer)
	if err != nil {
		return Inventory{}, err
	}
	if status != http.StatusOK || len(answer.Inventories) != 1 {
		return Inventory{}, fmt.Errorf("%w: %d %s", errRefused, status, text)
	}
	found := Inventory{Generation: answer.Generation}
	for found.Class, found.Fields = range answer.Inventories {
	}
	return found, nil
}

// Allocate gives one unit of the provider to a consumer. What there is no room for is
// inventory's conflict.
func (s *Scheduler) Allocate(ctx context.Context, provider, consumer string) error {
	has, err := s.Inventory(ctx, provider)
	if err != nil {
		return err
	}
	status, text, err := s.Do(ctx, http.MethodPut, "/allocations/"+consumer, map[string]any{
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
func (s *Scheduler) Deallocate(ctx context.Context, _, consumer string) error {
	status, text, err := s.Do(ctx, http.MethodDelete, "/allocations/"+consumer, nil, nil)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("%w: %d %s", errRefused, status, text)
	}
	return err
}

// Burn sets reserved = total, as Nova does once the device has an instance.
func (s *Scheduler) Burn(provider string) {
	s.t.Helper()
	s.SetReserved(provider, 1)
}

// SetReserved writes reserved, whatever the generation is. As Nova does, it reads again
// where somebody else wrote meanwhile.
func (s *Scheduler) SetReserved(provider string, reserved int) {
	s.t.Helper()
	for try := 1; ; try++ {
		has, err := s.Inventory(s.t.Context(), provider)
		require.NoError(s.t, err)
		has.Fields["reserved"], has.Fields["resource_provider_generation"] = reserved, has.Generation
		status, text, err := s.Do(s.t.Context(), http.MethodPut, "/resource_providers/"+provider+"/inventories/"+has.Class, has.Fields, nil)
		require.NoError(s.t, err)
		if status != http.StatusConflict || try == 10 {
			require.Equal(s.t, http.StatusOK, status, text)
			return
		}
	}
}

// Delete removes a provider.
func (s *Scheduler) Delete(provider string) {
	s.t.Helper()
	s.require(http.MethodDelete, "/resource_providers/"+provider, nil, nil)
}

// Recreate is what Nova does where a provider of its own is gone: another UUID, and
// reserved = 0.
func (s *Scheduler) Recreate(provider, root, host, address, class string, more ...string) (again string) {
	s.t.Helper()
	s.Delete(provider)
	return s.Device(root, host, address, class, more...)
}

// request makes one request with a JSON body, and reads a JSON answer.
func request(ctx context.Context, method, url string, headers map[string]string, body, into any) (int, string, error) {
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
	answer, err := http.DefaultClient.Do(r)
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
	status, text, err := request(t.Context(), method, url, headers, body, into)
	require.NoError(t, err)
	return status, text
}

func encode(t testing.TB, body any) io.Reader {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	return bytes.NewReader(text)
}
