package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// fleetFile writes a fleet file with these entries.
func fleetFile(t *testing.T, entries ...string) string {
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(path, []byte("devices:\n  - "+strings.Join(entries, "\n  - ")+"\n"), 0o600))
	return path
}

// The lines have the order of the file, though the answers come in another one, and requests
// run side by side.
func TestEnrollFilePrintsInOrder(t *testing.T) {
	var entries []string
	for i := range 20 {
		entries = append(entries, fmt.Sprintf("{name: d%02d, host: h1, driver: fake}", i))
	}
	entries[7] = "{name: d07, driver: fake}" // no host
	var (
		mu       sync.Mutex
		answered int
		release  = make(chan struct{})
	)
	l := &fakeClient{onEnroll: func(asked contract.EnrollInput) (contract.Result, error) {
		// The first is answered after six others that were asked beside it.
		mu.Lock()
		if asked.Enrollment.Name != "d00" {
			if answered++; answered == 6 {
				close(release)
			}
		}
		mu.Unlock()
		if asked.Enrollment.Name == "d00" {
			select {
			case <-release:
			case <-time.After(time.Minute):
				return contract.Result{}, fmt.Errorf("the others wait for the first")
			}
		}
		if asked.Enrollment.Name == "d03" {
			return contract.Result{},
				refuse("d03", device.Manageable, device.Fault{Class: device.Permanent, Code: device.CodeRefused, Message: "no"})
		}
		return contract.Result{Device: in(asked.Enrollment.Name, device.Manageable)}, nil
	}}
	var out bytes.Buffer // the app writes one line at a time
	got := burnishWith(t, l, func(a *app, _ func()) { a.stdout, a.stderr = &out, &out },
		"enroll", "-f", fleetFile(t, entries...))
	require.Equal(t, exitPartly, got.code)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, 21)
	for i, line := range lines[:20] {
		require.Contains(t, line, fmt.Sprintf("d%02d", i))
	}
	require.Contains(t, lines[3], "burnish: enroll d03: no")
	require.Contains(t, lines[7], "line 9: host is missing")
	require.Contains(t, lines[20], "2 of 20 devices failed")
}

// A dry run asks the server, enrolls nothing, and says for each entry what would happen.
func TestEnrollDryRun(t *testing.T) {
	same, other, waiting := in("same", device.Available), in("other", device.Available), in("waiting", device.Manageable)
	for _, v := range []*contract.DeviceStatus{&same, &other, &waiting} {
		v.Hostname, v.Driver, v.Owner = "h1", "fake", device.OwnerSelf
	}
	other.Hostname = "h2\x1b[2J"
	l := &fakeClient{
		onList: func(string) ([]client.Execution, error) {
			return []client.Execution{running(same), running(other), running(waiting)}, nil
		},
		onPolled: func(queue string) (time.Time, error) {
			if queue == contract.HostQueue("h1") {
				return clock, nil
			}
			return time.Time{}, nil
		},
	}
	file := fleetFile(t,
		"{name: new, host: h1, driver: fake, provide: true}",
		"{name: same, host: H1, driver: fake}",
		"{name: other, host: h1, driver: fake}",
		"{name: waiting, host: h1, driver: fake, provide: true}",
		"{name: nowhere, host: h9, driver: fake}",
		"{name: wrong, driver: fake}",
	)
	got := burnish(t, l, "", "enroll", "-f", file, "--dry-run")
	require.Equal(t, exitPartly, got.code)
	require.Equal(t,
		`new: would be enrolled on host h1 with driver fake, and provided; if its host finds the device, and allows it
same: is already enrolled (state: available)
waiting: is already enrolled (state: manageable); would be provided
`, got.out)
	lines := strings.Split(got.errors, "\n")
	require.Regexp(t,
		`^burnish: enroll other: would be refused: the device is already enrolled with another host: h2.*; retire other and forget it first$`, lines[0])
	require.NotContains(t, got.errors, "\x1b")
	require.Equal(t, "burnish: enroll nowhere: no worker of host h9 polls; start burnish-worker there, or correct the "+
		"host", lines[1])
	require.Contains(t, lines[2], "line 7: host is missing")
	require.Contains(t, lines[3], "3 of 6 devices failed")

	got = burnish(t, l, "", "enroll", "alone", "--host", "h1", "--driver", "fake", "--dry-run")
	require.Equal(t,
		ran{exitOK, "alone: would be enrolled on host h1 with driver fake; if its host finds the device, and allows it\n",
			""}, got)
	require.Empty(t, l.sent)
}
