package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

func choices(names ...string) (all []contract.DeviceChoice) {
	for _, name := range names {
		all = append(all, contract.DeviceChoice{Name: name})
	}
	return all
}

func TestInstanceInputsHaveOneSpelling(t *testing.T) {
	given := contract.InstanceBindInput{
		Devices:   choices("H1_0000:0A:00.0", "d1"),
		Requests:  []contract.DeviceRequest{{Type: "nvme", Count: 2, Traits: []string{"HW_NVME_CES", "CUSTOM_X"}}, {Type: "NIC", Tag: "up=link\n"}},
		Host:      "H1",
		Project:   "9c1f0ab2",
		Addresses: []string{"10.0.0.5", "2001:DB8::0:1", "::ffff:10.0.0.6"},
	}
	want := given
	want.Devices = choices("h1_0000:0a:00.0", "d1")
	want.Requests = []contract.DeviceRequest{{Type: "NVME", Count: 2, Traits: []string{"HW_NVME_CES", "CUSTOM_X"}},
		{Type: "NIC", Tag: "up=link\n"}}
	want.Host, want.Addresses = "h1", []string{"10.0.0.5", "2001:db8::1", "10.0.0.6"}
	got, err := given.Normalize()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, "H1_0000:0A:00.0", given.Devices[0].Name, "the caller's own list does not change")
	require.Equal(t, "nvme", given.Requests[0].Type)

	move, err := contract.InstanceMoveInput{To: "H2", Devices: choices("H2_0000:0A:00.0")}.Normalize()
	require.NoError(t, err)
	require.Equal(t, contract.InstanceMoveInput{To: "h2", Devices: choices("h2_0000:0a:00.0")}, move)

	detach, err := contract.InstanceDetachInput{Devices: []string{"H2_0000:0A:00.0", "d1"}}.Normalize()
	require.NoError(t, err)
	require.Equal(t, []string{"h2_0000:0a:00.0", "d1"}, detach.Devices)
}

// S1.7
func TestInstanceInputsThatAreInvalid(t *testing.T) {
	request := func(r contract.DeviceRequest) contract.InstanceBindInput {
		return contract.InstanceBindInput{Requests: []contract.DeviceRequest{r}}
	}
	with := func(change func(*contract.InstanceBindInput)) contract.InstanceBindInput {
		in := contract.InstanceBindInput{Devices: choices("d1")}
		change(&in)
		return in
	}
	for says, in := range map[string]contract.InstanceBindInput{
		"no device: name devices":                     {},
		`"a b" is not a valid device name`:            {Devices: choices("a b")},
		"h1_0000:0a:00.0 is named twice":              {Devices: choices("h1_0000:0a:00.0", "H1_0000:0A:00.0")},
		"needs their type":                            request(contract.DeviceRequest{Count: 1}),
		`"NV ME" is not a valid type`:                 request(contract.DeviceRequest{Type: "NV ME"}),
		"a request for -1 devices":                    request(contract.DeviceRequest{Type: "NVME", Count: -1}),
		"65 devices are more":                         request(contract.DeviceRequest{Type: "NVME", Count: 65}),
		`the tag "data" is for one device, not for 2`: request(contract.DeviceRequest{Type: "NVME", Count: 2, Tag: "data"}),
		`"hw_x" is not a valid trait`:                 request(contract.DeviceRequest{Type: "NVME", Traits: []string{"hw_x"}}),
		"the trait HW_X is requested twice":           request(contract.DeviceRequest{Type: "NVME", Traits: []string{"HW_X", "HW_X"}}),
		`"h/1" is not a valid host name`:              with(func(in *contract.InstanceBindInput) { in.Host = "h/1" }),
		`"a\r\nb" is not a valid project ID`:          with(func(in *contract.InstanceBindInput) { in.Project = "a\r\nb" }),
		`"10.0.0.0/24" is not a valid IP address`:     with(func(in *contract.InstanceBindInput) { in.Addresses = []string{"10.0.0.0/24"} }),
		`"fe80::1%eth0" is not a valid IP address`:    with(func(in *contract.InstanceBindInput) { in.Addresses = []string{"fe80::1%eth0"} }),
		`"0.0.0.0" is not a valid IP address`:         with(func(in *contract.InstanceBindInput) { in.Addresses = []string{"0.0.0.0"} }),
		"the address 10.0.0.5 is given twice":         with(func(in *contract.InstanceBindInput) { in.Addresses = []string{"10.0.0.5", "::ffff:10.0.0.5"} }),
	} {
		t.Run(says, func(t *testing.T) {
			_, err := in.Normalize()
			require.ErrorContains(t, err, says)
		})
	}
	_, err := contract.InstanceMoveInput{}.Normalize()
	require.ErrorContains(t, err, "the host to move to is missing")
	_, err = contract.InstanceMoveInput{To: "h2", Devices: choices("d1", "d1")}.Normalize()
	require.ErrorContains(t, err, "d1 is named twice")
	_, err = contract.InstanceDetachInput{}.Normalize()
	require.ErrorContains(t, err, "no device")
	_, err = contract.InstanceDetachInput{Devices: []string{"d1", "d1"}}.Normalize()
	require.ErrorContains(t, err, "d1 is named twice")
}
