package guest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.temporal.io/api/serviceerror"

	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	instance = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"
	other    = "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a91"
	secret   = "the proxy's secret"
)

// fleet are instances and devices without workflows.
type fleet struct {
	mu        sync.Mutex
	instances map[string]contract.InstanceStatus
	devices   map[string]contract.DeviceStatus
	// errs are the answers of devices and instances that cannot be asked, each for one time.
	errs  map[string][]error
	asked int
}

func newFleet() *fleet {
	held := contract.HeldDevice{Name: "h1_d1", Type: "NVME", Serial: "S1", Tag: "database", Binding: 3}
	f := &fleet{
		instances: map[string]contract.InstanceStatus{
			instance: {UUID: instance, Phase: contract.InstanceActive, Project: "p1", Addresses: []string{"192.0.2.7",
				"2001:db8::7"}, Devices: []contract.HeldDevice{held}},
			other: {UUID: other, Phase: contract.InstanceActive, Addresses: []string{"192.0.2.8"}},
		},
		devices: map[string]contract.DeviceStatus{}, errs: map[string][]error{},
	}
	f.devices["h1_d1"] = boundTo(instance)
	return f
}

func boundTo(instance string) contract.DeviceStatus {
	return contract.DeviceStatus{InstanceUUID: &instance}
}

func (f *fleet) fail(name string) error {
	f.asked++
	if errs := f.errs[name]; len(errs) > 0 {
		f.errs[name] = errs[1:]
		return errs[0]
	}
	return nil
}

func (f *fleet) Instance(_ context.Context, uuid string) (contract.InstanceStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status, ok := f.instances[uuid]
	if err := f.fail(uuid); err != nil {
		return contract.InstanceStatus{}, err
	}
	if !ok {
		return contract.InstanceStatus{}, serviceerror.NewNotFound("none")
	}
	return status, nil
}

func (f *fleet) InstanceByAddress(ctx context.Context, address string) (contract.InstanceStatus, error) {
	f.mu.Lock()
	all := maps.Clone(f.instances)
	f.mu.Unlock()
	for id, status := range all {
		if slices.Contains(status.Addresses, address) {
			return f.Instance(ctx, id)
		}
	}
	return contract.InstanceStatus{}, serviceerror.NewNotFound("none")
}

func (f *fleet) Describe(_ context.Context, name string) (client.Execution, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.devices[name]
	if err := f.fail(name); err != nil {
		return client.Execution{}, err
	}
	if !ok {
		return client.Execution{}, serviceerror.NewNotFound("none")
	}
	return client.Execution{Name: name, Running: true, Status: v}, nil
}

// serviceOf gives a service of the fleet, and what it logs.
func serviceOf(f *fleet) (*service, *strings.Builder) {
	lines := &strings.Builder{}
	return newService(Options{Instances: f, Secret: func() ([]byte, error) { return []byte(secret), nil },
		Log: slog.New(slog.NewTextHandler(lines, nil))}), lines
}

func sign(instance string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(instance))
	return hex.EncodeToString(mac.Sum(nil))
}

// signed are the headers of the proxy for an instance.
func signed(instance, project string) []string {
	return []string{"X-Instance-ID: " + instance, "X-Tenant-ID: " + project, "X-Instance-ID-Signature: " + sign(instance)}
}

const latest = "/openstack/latest/meta_data.json"

// get sends a request from a peer, and gives the answer.
func get(t *testing.T, s *service, method, path, peer string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.RemoteAddr = peer
	for _, each := range headers {
		name, value, _ := strings.Cut(each, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const proxy = "192.0.2.200:4000"
