package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// versions is a site with control workers of two versions.
type versions struct {
	*Site
	workers map[string]*Worker
}

// upgradeFrom is a commit of which the older version is built. Without it both are of these sources.
const upgradeFrom = "BURNISH_UPGRADE_FROM"

// newVersions builds a control worker of each version, the oldest first. None runs yet.
func newVersions(t *testing.T, names ...string) *versions {
	t.Helper()
	v := &versions{Site: newSite(t), workers: map[string]*Worker{}}
	for i, name := range names {
		program, sources := filepath.Join(v.Dir, "burnish-worker-"+name), root
		if commit := os.Getenv(upgradeFrom); i == 0 && commit != "" {
			sources = sourcesOf(t, commit)
		}
		require.NoError(t, proc.Compile(sources, "./worker", program, "-tags=shortsettle",
			"-ldflags=-s -w -X main.version="+name))
		w := v.Worker(t, "control", "BURNISH_VERSIONED=true")
		w.Program = program
		v.workers[name] = w
	}
	return v
}

// sourcesOf are the sources of a commit.
func sourcesOf(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	packed := filepath.Join(dir, "sources.tar")
	for _, command := range [][]string{
		{"git", "-C", root, "archive", "-o", packed, commit}, {"tar", "-xf", packed, "-C", dir},
	} {
		_, err := proc.Succeed(exec.Command(command[0], command[1:]...))
		require.NoError(t, err)
	}
	return dir
}

// status is `upgrade status` by version.
func (v *versions) status(t *testing.T) map[string]client.Version {
	t.Helper()
	var answer struct{ Versions []client.Version }
	require.NoError(t, json.Unmarshal([]byte(v.Must(t, "upgrade", "status", "-o", "json")), &answer))
	all := map[string]client.Version{}
	for _, one := range answer.Versions {
		all[one.Version] = one
	}
	return all
}

// awaitVersions waits until `upgrade status` is as wanted.
func (v *versions) awaitVersions(t *testing.T, what string, ok func(map[string]client.Version) bool) {
	t.Helper()
	Await(t, 30*time.Second, what, func() (bool, string) {
		all := v.status(t)
		return ok(all), fmt.Sprintf("%+v", all)
	})
}

// promote makes a version current, as soon as the server knows its workers.
func (v *versions) promote(t *testing.T, name string) {
	t.Helper()
	Await(t, 30*time.Second, name+" to be promoted", func() (bool, string) {
		r := v.Burnish(t, "upgrade", "promote", name)
		return r.Code == 0, r.String()
	})
	require.True(t, v.status(t)[name].Current)
}

// awaitVersionOf waits until a device's workflow is a version's.
func (v *versions) awaitVersionOf(t *testing.T, name, version string) {
	t.Helper()
	Await(t, 20*time.Second, name+" to be with "+version, func() (bool, string) {
		d, err := v.Client.DescribeWorkflowExecution(t.Context(), contract.WorkflowID(name), "")
		has := d.GetWorkflowExecutionInfo().GetVersioningInfo().GetDeploymentVersion().GetBuildId()
		return err == nil && has == version, fmt.Sprint(has, err)
	})
}

// Control workers of a new version run beside the old ones, become current, take over devices in the middle of
// their clean, and give them back: nothing is lost, and no clean begins again.
func TestUpgradeAndRollBackInMidClean(t *testing.T) {
	t.Parallel()
	const before, after = "1.0", "1.1"
	v := newVersions(t, before, after)
	// Hosts are upgraded one by one, in any order.
	host, older := v.Worker(t, "host", "BURNISH_MAX_CLEANS_PER_HOST=10"), v.Worker(t, "host")
	older.Program = v.workers[before].Program
	older.Host, older.StateDir = site.NewHost(), filepath.Join(v.Dir, "older")
	host.Start(t)
	older.Start(t)
	unversioned := v.Run(t, "control")
	d0 := v.Device(t, "fake", "d0", 2*MiB, 0)
	v.Enroll(t, d0, "--provide")
	v.AwaitReturned(t, d0, time.Minute)
	v.workers[before].Start(t)
	v.awaitVersions(t, "the first version to be current",
		func(all map[string]client.Version) bool { return all[before].Current })
	v.Must(t, "label", "d0", "rack=0")
	v.awaitVersionOf(t, "d0", before) // what had no version goes on with it
	unversioned.Kill(t)
	var devices []Device
	begin := func(name string, on *Worker) {
		d := Device(on.FakeDevice(name, 128*MiB, "delay=1m"))
		require.NoError(t, os.MkdirAll(filepath.Dir(d.Path), 0o700))
		d.Stamp(t, 1)
		v.Enroll(t, d, "--provide", "--host", on.Host)
		Await(t, time.Minute, name+" to be in mid-wipe", func() (bool, string) {
			stamped, zero, _ := d.Count(t, 1)
			return stamped > 0 && zero > 0, fmt.Sprint(stamped, zero)
		})
		devices = append(devices, d)
	}
	begin("d1", host)
	begin("d2", older)

	v.workers[after].Start(t)
	v.awaitVersions(t, "workers of both versions", func(all map[string]client.Version) bool {
		return all[before].Workers == 1 && all[after].Workers == 1
	})
	require.True(t, v.status(t)[before].Current, "a later version does not make itself current")
	require.Zero(t, v.status(t)[after].Workflows)
	v.promote(t, after)
	begin("d3", host)
	begin("d4", older)
	v.awaitVersionOf(t, "d3", after)
	v.awaitVersionOf(t, "d1", before) // they stay
	v.awaitVersionOf(t, "d2", before)

	v.Must(t, "upgrade", "drain")
	v.workers[before].Kill(t)
	v.awaitVersions(t, "the old version to have none", func(all map[string]client.Version) bool {
		return all[before].Workflows == 0 && all[after].Workflows >= 4
	})
	for _, d := range devices {
		require.Equal(t, device.Cleaning, v.Show(t, d.Name).DeviceState, "the clean of %s goes on", d.Name)
	}

	// It was no good: back, without the workers that have the devices.
	v.workers[after].Kill(t)
	v.workers[before].Start(t)
	v.promote(t, before)
	v.Must(t, "upgrade", "drain")
	for _, d := range devices {
		status := v.AwaitReturned(t, d, 2*time.Minute)
		require.Len(t, status.Cleans, 1, d.Name)
		require.Equal(t, "cleaned", status.Cleans[0].Outcome)
		require.Equal(t, []string{"zero", "verify"}, stepNames(status.Cleans[0]))
	}
	// No step was begun again, nor interrupted.
	for message, times := range map[string]int{logs.CleanStarted: 1, logs.StepDone: 2, logs.StepResumed: 0} {
		require.Equal(t, times*(1+len(devices)), strings.Count(host.Log()+older.Log(), message), message)
	}

	// A device with nothing under way follows with the next thing that happens to it.
	v.workers[after].Start(t)
	v.promote(t, after)
	v.awaitVersionOf(t, "d1", before)
	v.Must(t, "label", "d1", "rack=1")
	v.awaitVersionOf(t, "d1", after)
}
