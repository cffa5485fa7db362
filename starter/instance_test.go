package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// has is an instance that has these devices.
func has(phase contract.InstancePhase, devices ...contract.HeldDevice) contract.InstanceStatus {
	s := contract.InstanceStatus{UUID: someInstance, Phase: phase, Devices: devices, CreatedAt: clock, UpdatedAt: clock}
	if len(devices) > 0 {
		s.Host = devices[0].Host
	}
	return s
}

// answering answers each request for an instance with the same.
func answering(r contract.InstanceResult) func(context.Context, string, string, any) (contract.InstanceResult, error) {
	return func(context.Context, string, string, any) (contract.InstanceResult, error) { return r, nil }
}

const requestFile = `
host: H1
project: 0123
addresses: [10.0.0.5, "2001:DB8::1"]
devices:
  - {name: "h1_0000:0A:00.0", tag: "data base"}
  - name: d1
    tag: "a=b \"c\"\nd"
    guest:
      - {bus: xen, address: 51712, path: /dev/xvda}
      - bus: ide
        address: 0:1
requests:
  - {type: nvme, count: 2, traits: [HW_NVME_CES, CUSTOM_X]}
  - {type: NIC, tag: uplink, vendor: "15b3", model: 0012, live_migratable: true}
`

// Order, tags and addresses arrive as they were given; names, host and addresses in their one
// spelling.
//
// S1.37
func TestInstanceRequestsAreSentAsContracted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "request.yaml")
	require.NoError(t, os.WriteFile(file, []byte(requestFile), 0o600))
	pci := contract.GuestAddress{Bus: "pci", Address: "0000:00:05.0"}
	xen := []contract.GuestAddress{{Bus: "xen", Address: "51712", Path: "/dev/xvda"}, {Bus: "ide", Address: "0:1"}}
	for _, tt := range []struct {
		args   []string
		update string
		input  any
	}{
		{[]string{"bind", strings.ToUpper(someInstance), "--device", "H1_0000:0A:00.0"}, "bind",
			contract.InstanceBindInput{Devices: []contract.DeviceChoice{{Name: "h1_0000:0a:00.0"}}, Caller: operator()}},
		{[]string{"bind", someInstance, "--device", "d1=a=b \"c\"\nd", "--guest", "bus=xen,address=51712,path=/dev/xvda",
			"--guest", "address=0:1,bus=ide",
			"--device", "d2", "--device", "d3=up", "--guest", "bus=pci,address=0000:00:05.0", "--request-id", "r", "--host",
			"H1", "--reason", " why ",
			"--project", "0123", "--address", "10.0.0.5", "--address", "2001:DB8::1"}, "bind",
			contract.InstanceBindInput{Request: "r", Host: "h1", Project: "0123", Addresses: []string{"10.0.0.5", "2001:db8::1"},
				Reason: "why", Caller: operator(),
				Devices: []contract.DeviceChoice{{Name: "d1", Tag: "a=b \"c\"\nd", Guest: xen}, {Name: "d2"}, {Name: "d3", Tag: "up", Guest: []contract.GuestAddress{pci}}}}},
		{[]string{"bind", someInstance, "--request", "type=nvme,count=2,trait=HW_NVME_CES,trait=CUSTOM_X", "--request",
			"type=NIC,model=MT2892, rev 1,vendor=15b3,live_migratable=true,tag=a=b"}, "bind",
			contract.InstanceBindInput{Caller: operator(), Requests: []contract.DeviceRequest{
				{Type: "NVME", Count: 2, Traits: []string{"HW_NVME_CES", "CUSTOM_X"}},
				{Type: "NIC", Count: 1, Vendor: "15b3", Model: "MT2892, rev 1", Tag: "a=b", LiveMigratable: true}}}},
		{[]string{"bind", someInstance, "--file", file, "--request-id", "r"}, "bind",
			contract.InstanceBindInput{Request: "r", Host: "h1", Project: "0123", Addresses: []string{"10.0.0.5", "2001:db8::1"},
				Caller:  operator(),
				Devices: []contract.DeviceChoice{{Name: "h1_0000:0a:00.0", Tag: "data base"}, {Name: "d1", Tag: "a=b \"c\"\nd", Guest: xen}},
				Requests: []contract.DeviceRequest{{Type: "NVME", Count: 2, Traits: []string{"HW_NVME_CES", "CUSTOM_X"}},
					{Type: "NIC", Count: 1, Tag: "uplink", Vendor: "15b3", Model: "0012", LiveMigratable: true}}}},
		{[]string{"attach", someInstance, "--device", "d1=t", "--reason", "R"}, "attach",
			contract.InstanceBindInput{Devices: []contract.DeviceChoice{{Name: "d1", Tag: "t"}}, Reason: "R", Caller: operator()}},
		{[]string{"detach", someInstance, "H1_0000:0A:00.0", "d2", "--reason", "R"}, "detach",
			contract.InstanceDetachInput{Devices: []string{"h1_0000:0a:00.0", "d2"}, Reason: "R", Caller: operator()}},
		{[]string{"release", someInstance, "--reason", "R"}, "release", contract.ReasonInput{Reason: "R", Caller: operator()}},
		{[]string{"rebuild", someInstance}, "rebuild", contract.ReasonInput{Caller: operator()}},
		{[]string{"confirm", someInstance}, "confirm", contract.ReasonInput{Caller: operator()}},
		{[]string{"revert", someInstance}, "revert", contract.ReasonInput{Caller: operator()}},
		{[]string{"migrate", someInstance, "--to", "H2", "--device", "d9", "--guest", "bus=pci,address=0000:00:05.0"},
			"migrate",
			contract.InstanceMoveInput{To: "h2", Devices: []contract.DeviceChoice{{Name: "d9", Guest: []contract.GuestAddress{pci}}}, Caller: operator()}},
		{[]string{"live-migrate", someInstance, "--to", "h2"}, "live_migrate", contract.InstanceMoveInput{To: "h2", Caller: operator()}},
		{[]string{"evacuate", someInstance, "--to", "h2", "--reason", "R"}, "evacuate", contract.InstanceMoveInput{To: "h2", Reason: "R", Caller: operator()}},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			answer := contract.InstanceResult{Instance: has(contract.InstanceActive,
				contract.HeldDevice{Name: "d1", Host: "h1", Binding: 3})}
			l := &fakeClient{onInstance: func(_ context.Context, instance, update string,
				input any) (contract.InstanceResult, error) {
				require.Equal(t, someInstance, instance)
				require.Equal(t, tt.update, update)
				require.Equal(t, tt.input, sentAs(t, input))
				return answer, nil
			}}
			got := burnish(t, l, "", append([]string{"instance"}, tt.args...)...)
			require.Equal(t, exitOK, got.code, got.errors)
			require.Regexp(t, `^`+someInstance+`: (.*, now )?active on h1: d1, binding 3\n$`, got.out)

			got = burnish(t, l, "", append([]string{"instance", "-o", "json"}, tt.args...)...)
			require.Equal(t, exitOK, got.code, got.errors)
			var body contract.InstanceResult
			require.NoError(t, json.Unmarshal([]byte(got.out), &body))
			require.Equal(t, answer, body)
		})
	}
}

// The one line of an answer says what the instance has now, and what ends a migration.
func TestInstanceAnswers(t *testing.T) {
	d1 := contract.HeldDevice{Name: "d1", Host: "h1", Tag: "data base\x1b[2J", Binding: 3}
	d2 := contract.HeldDevice{Name: "d2", Host: "h2", Tag: "up", Binding: 1}
	moving := has(contract.InstanceMigrating, d2)
	moving.Move = &contract.InstanceMove{Verb: "migrate", From: "h1", To: "h2", Source: []contract.HeldDevice{d1}}
	for _, tt := range []struct {
		args   []string
		answer contract.InstanceResult
		out    string
	}{
		{[]string{"bind", someInstance, "--device", "d1"}, contract.InstanceResult{Instance: has(contract.InstanceActive, d1, d2)},
			`: bound, now active on h1: d1 as "data base\x1b[2J", binding 3; d2 as up, binding 1`},
		{[]string{"bind", someInstance, "--device", "d2"}, contract.InstanceResult{Instance: has(contract.InstanceActive, d2), Already: true},
			`: already bound, now active on h2: d2 as up, binding 1`},
		{[]string{"detach", someInstance, "d1", "d3"}, contract.InstanceResult{Instance: has(contract.InstanceActive, d2)},
			`: detached d1, d3, now active on h2: d2 as up, binding 1`},
		{[]string{"detach", someInstance, "d1"}, contract.InstanceResult{Instance: has(contract.InstanceReleased)}, `: detached d1; it has no device`},
		{[]string{"release", someInstance}, contract.InstanceResult{Instance: has(contract.InstanceReleased)}, `: released; it has no device`},
		{[]string{"migrate", someInstance, "--to", "h2"}, contract.InstanceResult{Instance: moving},
			`: migrating from h1 to h2: d2 as up, binding 1; end it with burnish instance confirm or revert`},
		{[]string{"rebuild", someInstance}, contract.InstanceResult{Instance: moving},
			`: rebuilt, now migrating from h1 to h2: d2 as up, binding 1; end it with burnish instance confirm or revert`},
	} {
		l := &fakeClient{onInstance: answering(tt.answer)}
		got := burnish(t, l, "", append([]string{"instance"}, tt.args...)...)
		require.Equal(t, ran{exitOK, someInstance + tt.out + "\n", ""}, got, tt.args)
	}
}

// Every way in which a request for an instance can fail: one line that names the instance and
// the device that refused, and an exit code that says whether something may be carried out.
func TestInstanceFailures(t *testing.T) {
	dirty := device.Fault{Class: device.Permanent, Code: device.CodeRefused,
		Message: "d2: cannot bind a device in state cleaning", Remedy: "wait until it is clean"}
	for name, tt := range map[string]struct {
		err  func(context.Context) error
		exit int
		code device.Code
		says string
	}{
		"a device refuses": {func(context.Context) error { return refuse("d2", device.Cleaning, dirty) }, exitFailed, device.CodeRefused,
			someInstance + " d2: cannot bind a device in state cleaning; wait until it is clean"},
		"it has no device": {func(context.Context) error { return gone() }, exitFailed, device.CodeNotFound,
			someInstance + ": no such instance: it has no device; bind devices to it with burnish instance bind"},
		"no control worker": {func(ctx context.Context) error { return client.UnconfirmedError{Err: noAnswer(ctx)} }, exitTimeout, device.CodeTimeout,
			someInstance + ": no control worker answered on queue burnish within 50ms, and none polls it; the request may " +
				"still be carried out; start burnish-worker"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &fakeClient{onInstance: func(ctx context.Context, _, _ string, _ any) (contract.InstanceResult, error) {
				return contract.InstanceResult{}, tt.err(ctx)
			}}
			timeout := "30s"
			if tt.code == device.CodeTimeout {
				timeout = "50ms"
			}
			got := burnish(t, l, "", "instance", "--timeout", timeout, "release", someInstance)
			require.Equal(t, tt.exit, got.code, got.errors)
			require.Empty(t, got.out)
			require.Equal(t, 1, strings.Count(got.errors, "\n"), got.errors)
			require.True(t, strings.HasPrefix(got.errors, "burnish: instance release "+tt.says), got.errors)
			got = burnish(t, l, "", "instance", "release", someInstance, "-o", "json", "--timeout", timeout)
			require.Equal(t, tt.exit, got.code, got.errors)
			var body struct{ Error map[string]string }
			require.NoError(t, json.Unmarshal([]byte(got.errors), &body), got.errors)
			require.Equal(t, string(tt.code), body.Error["code"])
			require.Equal(t, someInstance, body.Error["instance"])
		})
	}
}

// exampleInstance is an instance with everything that can be shown.
func exampleInstance() contract.InstanceStatus {
	s := has(contract.InstanceMigrating,
		contract.HeldDevice{Name: "h2_0000:01:00.0", Host: "h2", Type: "NVME", Tag: "data  \"base\"\n\x1b[31m\u202e",
			Serial: "S\x1b[31m1", Binding: 2,
			Guest: []contract.GuestAddress{{Bus: "xen", Address: "51712", Path: "/dev/xvda"}, {Bus: "ide", Address: "0:1"}}},
		contract.HeldDevice{Name: "h2_0000:02:00.0", Host: "h2", Type: "NIC", Tag: "uplink", Binding: 11})
	s.Project, s.Addresses, s.Doing, s.LastError = "0123", []string{"10.0.0.5", "2001:db8::1"}, "confirm", "d9: refused"
	s.UpdatedAt = clock.Add(time.Minute)
	s.Move = &contract.InstanceMove{Verb: contract.VerbInstanceLiveMigrate.Update(), From: "h1", To: "h2", Since: clock,
		Source: []contract.HeldDevice{
			{Name: "h1_0000:01:00.0", Host: "h1", Type: "NVME", Tag: "data", Serial: "S2", Binding: 7},
			{Name: "h1_0000:02:00.0", Host: "h1", Type: "NIC", Tag: "uplink", MAC: "02:00:00:00:00:01", Binding: 1, Guest: []contract.GuestAddress{{Bus: "pci", Address: "0000:00:05.0"}}}}}
	s.Acts = []contract.Act{
		{At: clock, Verb: "bind", By: "op@h", From: "10.0.0.1", Reason: "a\nb\x1b[2J\u202e"},
		{At: clock.Add(time.Second), Verb: contract.VerbInstanceLiveMigrate.Update(), Detail: "to h2", By: "op@h", Fault: device.CodeRefused}}
	return s
}

func TestInstanceGolden(t *testing.T) {
	shown := map[string]contract.InstanceStatus{someInstance: exampleInstance(),
		contract.DeviceUUID("bare"): has(contract.InstanceReleased)}
	l := &fakeClient{onShowInstance: func(_ context.Context, instance string) (contract.InstanceStatus, error) {
		return shown[instance], nil
	}}
	for name, args := range map[string][]string{
		"instance.table":      {someInstance},
		"instance.json":       {someInstance, "-o", "json"},
		"instance.yaml":       {someInstance, "-o", "yaml"},
		"instance-bare.table": {contract.DeviceUUID("bare")},
	} {
		t.Run(name, func(t *testing.T) {
			got := burnish(t, l, "", append([]string{"instance", "show"}, args...)...)
			require.Equal(t, exitOK, got.code, got.errors)
			require.Empty(t, got.errors)
			if strings.HasSuffix(name, ".table") {
				require.NotContains(t, got.out, "\x1b")
				require.NotContains(t, got.out, "\u202e")
			}
			golden := filepath.Join("testdata", "golden", name)
			if *update && !throughAPI {
				require.NoError(t, os.WriteFile(golden, []byte(got.out), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got.out)
		})
	}
	l.onShowInstance = func(context.Context, string) (contract.InstanceStatus, error) {
		return contract.InstanceStatus{}, gone()
	}
	got := burnish(t, l, "", "instance", "show", someInstance)
	require.Equal(t, ran{exitFailed, "", "burnish: instance show " + someInstance +
		": no such instance: it has no device; bind devices to it with burnish instance bind\n"}, got)
}

// Two different texts never look alike, and none reaches the terminal as it is.
func TestQuoted(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{"", "-", "data", "a b", "a  b", "a   b", "a\nb", `a\nb`, `"a b"`, "a\tb", "\x1b[2J",
		"\u202ex", "x\u00a0y", "Größe", `a\x20 b`, "a \\x20b", "\xff"} {
		shown := quoted(text)
		require.NotContains(t, seen, shown, "%q and %q", text, seen[shown])
		seen[shown] = text
		require.Equal(t, shown, oneLine(shown), "a table changes it")
		require.Equal(t, text == "", (&app{}).columns([][]string{{shown}}) == "-\n", "in a table only no text is -: %q", text)
	}
	require.Equal(t, "Größe", quoted("Größe"))
}
