package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// pages answers as a cloud with n devices on h1, one page at a time.
func pages(n, page int) func(string, contract.CandidatesInput) (contract.Candidates, error) {
	return func(_ string, in contract.CandidatesInput) (contract.Candidates, error) {
		var found contract.Candidates
		for i := range n {
			address := fmt.Sprintf("0000:%02x:00.0", i)
			name := "h1_" + address
			if name <= in.After {
				continue
			}
			if len(found.Devices) == page {
				found.More = true
				break
			}
			found.Devices = append(found.Devices,
				contract.Candidate{Name: name, Host: "h1", Address: address, Total: 1, Reserved: 1, Provider: "of " + name})
		}
		return found, nil
	}
}

// S2.84
func TestImportEnrollsEveryCandidateOnce(t *testing.T) {
	var mu sync.Mutex
	got := map[string]contract.EnrollInput{}
	l := &fakeClient{served: []string{"default"}, importable: pages(25, 10),
		onEnroll: func(asked contract.EnrollInput) (contract.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			require.NotContains(t, got, asked.Enrollment.Name)
			got[asked.Enrollment.Name] = asked
			return contract.Result{Device: in(asked.Enrollment.Name, device.Unknown)}, nil
		}}
	r := burnish(t, l, "", "import", "--from", "placement")
	require.Equal(t, exitOK, r.code, r.errors)
	require.Len(t, got, 25)
	require.Equal(t, 25, strings.Count(r.out, ": imported, now unknown\n"))
	one := got["h1_0000:03:00.0"]
	require.True(t, one.Import)
	require.False(t, one.Provide)
	require.Equal(t, "of h1_0000:03:00.0", one.Provider, "D8: what is believed is what was listed")
	require.Equal(t, contract.Enrollment{
		Name: "h1_0000:03:00.0", Host: "h1", Address: "0000:03:00.0", Driver: "nvme", Type: "NVME", Owner: device.OwnerNova,
		OneTimeUse: true,
	}, one.Enrollment)
}

// A provider that cannot be read, and a device that is enrolled as ours, are refused; one whose
// name does not have Nova's form is skipped; the others are imported. A dry run says the same, and
// imports none.
func TestImportNamesWhatCannotBeImported(t *testing.T) {
	fault := &device.Fault{Class: device.Transient, Code: device.CodeInventoryUnavailable, Message: "it answers 500",
		Remedy: "wait"}
	enrolled := 0
	l := &fakeClient{served: []string{"default"},
		importable: func(string, contract.CandidatesInput) (contract.Candidates, error) {
			return contract.Candidates{Devices: []contract.Candidate{
				{Name: "h1_0000:01:00.0", Host: "h1", Address: "0000:01:00.0", Total: 1, Reserved: 1},
				{Name: "h1_0000:02:00.0", Host: "h1", Address: "0000:02:00.0", Provider: "p", Fault: fault},
				{Name: "h1_0000:03:00.0", Host: "h1", Address: "0000:03:00.0", Total: 1, Enrolled: device.OwnerSelf},
				{Name: "weird", Total: 1},
			}}, nil
		},
		onEnroll: func(asked contract.EnrollInput) (contract.Result, error) {
			enrolled++
			return contract.Result{Device: in(asked.Enrollment.Name, device.Unknown)}, nil
		}}
	for i, out := range []string{"would be imported: reserved=1 of 1, used=0", "imported, now unknown"} {
		r := burnish(t, l, "", append([]string{"import", "--from", "placement"}, []string{"--dry-run"}[i:]...)...)
		require.Equal(t, exitPartly, r.code)
		require.Contains(t, r.out, "h1_0000:01:00.0: "+out+"\n")
		require.Contains(t, r.out, "weird: skipped")
		require.Contains(t, r.errors, "its provider p cannot be read: it answers 500")
		require.Contains(t, r.errors, "it is enrolled with owner self, and Nova has a provider for it too")
		require.Contains(t, r.errors, "burnish retire h1_0000:03:00.0 && burnish forget h1_0000:03:00.0")
		require.Equal(t, i, enrolled)
	}
}

func TestImportWrongUse(t *testing.T) {
	r := burnish(t, &fakeClient{served: []string{"a", "b"}}, "", "import", "--from", "placement", "--cloud=")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.errors, "several clouds are served: name one of a, b by --cloud")
	r = burnish(t, &fakeClient{}, "", "import", "--from", "placement")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errors, "no control worker serves a Placement; start one with BURNISH_INVENTORY=placement")
}

// S2.86
func TestImportCheck(t *testing.T) {
	var found []client.Execution
	l := &fakeClient{onList: func(query string) ([]client.Execution, error) {
		if !throughAPI {
			require.Contains(t, query, "DeviceState = 'unknown'")
		}
		return found, nil
	}}
	r := burnish(t, l, "", "import", "check")
	require.Equal(t, exitOK, r.code)
	require.Equal(t, "no device is in state unknown\n", r.out)

	found = []client.Execution{running(in("h1_0000:01:00.0", device.Unknown))}
	r = burnish(t, l, "", "import", "check")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, "h1_0000:01:00.0")
	require.Contains(t, r.errors, "1 devices are in state unknown")

	r = burnish(t, l, "", "import", "check", "-o", "json")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.out, `"device_state": "unknown"`)

	// What the last reconciliation could not read is named.
	found, l.served = nil, []string{"default"}
	l.reconciled.Unreadable = []contract.Mismatch{{Name: "h1_0000:02:00.0", What: "provider p: Placement: it answers 500"}}
	r = burnish(t, l, "", "import", "check")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errors, "could not read: h1_0000:02:00.0 (provider p: Placement: it answers 500)")
}

func TestImportFromAnUnservedCloud(t *testing.T) {
	l := &fakeClient{importable: func(string, contract.CandidatesInput) (contract.Candidates, error) {
		return contract.Candidates{}, serviceerror.NewNotFound("workflow not found")
	}}
	r := burnish(t, l, "", "import", "--from", "placement", "--cloud", "mars")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.errors, `no control worker serves a cloud named "mars"; `)
}
