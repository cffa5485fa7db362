package activities_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// shelfDevice is a device of a listing.
type shelfDevice struct {
	name, kind, host, vendor, model string
	traits                          device.Capabilities
	maintenance                     bool
}

// listingServer lists devices, and answers their queries.
func listingServer(t *testing.T, all []shelfDevice) *mocks.Client {
	t.Helper()
	server := &mocks.Client{}
	lists(server, func(query string, _ []byte) (runs []*workflowpb.WorkflowExecutionInfo, _ []byte, _ error) {
		for _, d := range all {
			if strings.Contains(query, "'"+d.kind+"'") && strings.Contains(query, "'available'") {
				runs =
					append(runs,
						deviceRun(d.name, attributes(t, contract.AttrState, device.Available, contract.AttrType, d.kind,
							contract.AttrHost, d.host),
							statusMemo(t, contract.StatusMemo{Name: d.name, Vendor: d.vendor, Model: d.model, Maintenance: d.maintenance})))
			}
		}
		return runs, nil, nil
	})
	server.On("QueryWorkflow", mock.Anything, mock.Anything, "", mock.Anything).
		Return(func(_ context.Context, id, _, query string, _ ...any) (converter.EncodedValue, error) {
			i := slices.IndexFunc(all, func(d shelfDevice) bool { return contract.WorkflowID(d.name) == id })
			if i < 0 {
				return nil, serviceerror.NewNotFound("no such workflow")
			}
			if query == contract.QueryDiscovery {
				return answered(t, contract.DiscoveryResult{Capabilities: &all[i].traits}), nil
			}
			return answered(t, contract.DeviceStatus{Name: all[i].name, Type: all[i].kind, Hostname: all[i].host}), nil
		})
	return server
}

// queried is the answer to a query.
type queried struct{ *commonpb.Payloads }

func (q queried) HasValue() bool { return true }
func (q queried) Get(into any) error {
	return converter.GetDefaultDataConverter().FromPayloads(q.Payloads, into)
}

func answered(t *testing.T, v any) converter.EncodedValue {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayloads(v)
	require.NoError(t, err)
	return queried{p}
}

func pick(t *testing.T, all []shelfDevice, in contract.PickInput) ([]string, contract.PickAnswer, error) {
	t.Helper()
	s := &activities.Instances{Client: client.New(listingServer(t, all))}
	answer, err := execute[contract.PickAnswer](first(t), contract.ActivityPickDevices, s.PickDevices, in)
	var names []string
	for i, d := range answer.Devices {
		require.Equal(t, d.Name, answer.Known[i].Name)
		names = append(names, d.Name)
	}
	return names, answer, err
}

// twoHosts is two drives and a NIC on h1, three drives on h2, one of which can crypto-erase, and
// two servers.
func twoHosts() []shelfDevice {
	return []shelfDevice{
		{name: "a1", kind: "NVME", host: "h1", vendor: "v1", model: "m1"},
		{name: "a2", kind: "NVME", host: "h1", vendor: "v1", model: "m2"},
		{name: "an", kind: "NIC", host: "h1"},
		{name: "b1", kind: "NVME", host: "h2", vendor: "v1", model: "m1", traits: device.Capabilities{CryptoErase: true}},
		{name: "b2", kind: "NVME", host: "h2", vendor: "v2", model: "m1"},
		{name: "b3", kind: "NVME", host: "h2", vendor: "v1", model: "m1"},
		{name: "held", kind: "NVME", host: "h1", vendor: "v1", model: "m1", maintenance: true},
		{name: "n1", kind: contract.TypeNode, host: "c1"}, {name: "n2", kind: contract.TypeNode, host: "c2"},
	}
}

// All devices are on one host, and each fits its request.
func TestPickedDevicesFit(t *testing.T) {
	nvme := func(count int) contract.DeviceRequest { return contract.DeviceRequest{Type: "NVME", Count: count} }
	for name, c := range map[string]struct {
		in   contract.PickInput
		want []string // sorted; the choice may be larger
	}{
		"three on one host":           {contract.PickInput{Requests: []contract.DeviceRequest{nvme(3)}}, []string{"b1", "b2", "b3"}},
		"the host that has both":      {contract.PickInput{Requests: []contract.DeviceRequest{nvme(2), {Type: "NIC"}}}, []string{"a1", "a2", "an"}},
		"the host of a named one":     {contract.PickInput{Named: []contract.DeviceChoice{{Name: "an"}}, Requests: []contract.DeviceRequest{nvme(2)}}, []string{"a1", "a2", "an"}},
		"the host that is given":      {contract.PickInput{Host: "h1", Requests: []contract.DeviceRequest{nvme(2)}}, []string{"a1", "a2"}},
		"a trait":                     {contract.PickInput{Requests: []contract.DeviceRequest{{Type: "NVME", Traits: []string{"HW_NVME_CES"}}}}, []string{"b1"}},
		"a trait and another":         {contract.PickInput{Requests: []contract.DeviceRequest{nvme(2), {Type: "NVME", Traits: []string{"HW_NVME_CES"}}}}, []string{"b1", "b2", "b3"}},
		"vendor":                      {contract.PickInput{Requests: []contract.DeviceRequest{{Type: "NVME", Vendor: "v2"}}}, []string{"b2"}},
		"model":                       {contract.PickInput{Requests: []contract.DeviceRequest{{Type: "NVME", Model: "m2"}}}, []string{"a2"}},
		"those that were lost":        {contract.PickInput{Host: "h2", Except: []string{"b1", "b2"}, Requests: []contract.DeviceRequest{nvme(1)}}, []string{"b3"}},
		"servers are not on one host": {contract.PickInput{Requests: []contract.DeviceRequest{{Type: contract.TypeNode, Count: 2}, nvme(3)}}, []string{"b1", "b2", "b3", "n1", "n2"}},
		"named only":                  {contract.PickInput{Named: []contract.DeviceChoice{{Name: "held"}}}, []string{"held"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // each time in another order
				names, _, err := pick(t, twoHosts(), c.in)
				require.NoError(t, err)
				slices.Sort(names)
				require.Equal(t, c.want, names)
			}
		})
	}
}

// The answer has the named devices first, then those of each request in turn, with its tag.
func TestPickedDevicesAreInTheOrderOfTheRequests(t *testing.T) {
	_, answer, err := pick(t, twoHosts(), contract.PickInput{
		Named:    []contract.DeviceChoice{{Name: "an", Tag: "lan"}},
		Requests: []contract.DeviceRequest{{Type: "NVME", Model: "m2", Tag: "db"}, {Type: "NVME", Model: "m1"}},
	})
	require.NoError(t, err)
	require.Equal(t, []contract.DeviceChoice{{Name: "an", Tag: "lan"}, {Name: "a2", Tag: "db"}, {Name: "a1"}},
		answer.Devices)
	require.Equal(t, "h1", answer.Known[0].Host)
}

// Instances that ask at the same time rarely get the same device.
func TestPickedDevicesAreRandom(t *testing.T) {
	var all []shelfDevice
	for i := range 20 {
		all = append(all, shelfDevice{name: fmt.Sprintf("d%02d", i), kind: "NVME", host: fmt.Sprint("h", i%4)})
	}
	hosts, names := map[string]bool{}, map[string]bool{}
	for range 40 {
		found, answer, err := pick(t, all, contract.PickInput{Requests: []contract.DeviceRequest{{Type: "NVME"}}})
		require.NoError(t, err)
		names[found[0]], hosts[answer.Known[0].Host] = true, true
	}
	require.Greater(t, len(names), 5)
	require.Greater(t, len(hosts), 1)
}

// Too few free devices, or a named one that does not exist, is refused and not tried again.
func TestTooFewDevicesAreFree(t *testing.T) {
	for name, c := range map[string]struct {
		in   contract.PickInput
		code device.Code
		says string
	}{
		"too few on one host":   {contract.PickInput{Requests: []contract.DeviceRequest{{Type: "NVME", Count: 4}}}, device.CodeConflict, "3 of 4 requested devices are free on one host (h2): 4 NVME"},
		"too few on that host":  {contract.PickInput{Host: "h1", Requests: []contract.DeviceRequest{{Type: "NVME", Count: 3}}}, device.CodeConflict, "2 of 3 requested devices are free on host h1"},
		"no device of the type": {contract.PickInput{Requests: []contract.DeviceRequest{{Type: "GPU"}}}, device.CodeConflict, "0 of 1 requested devices are free"},
		"no such device":        {contract.PickInput{Named: []contract.DeviceChoice{{Name: "x"}}}, device.CodeNotFound, "x: no such device"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := pick(t, twoHosts(), c.in)
			refusal, ok := contract.RefusalOf(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.code, refusal.Fault.Code)
			require.Equal(t, device.Permanent, refusal.Fault.Class)
			require.Contains(t, refusal.Fault.Message, c.says)
		})
	}
}
