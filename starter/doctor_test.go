package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/internal/doctor"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// healthy is a server with everything that Burnish needs.
func healthy() *fakeClient {
	return &fakeClient{
		onPolled:     func(string) (time.Time, error) { return clock.Add(-time.Second), nil },
		onAttributes: func() (map[string]string, error) { return attributes(), nil },
	}
}

// withoutWorker hides every BURNISH_ variable.
func withoutWorker(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "BURNISH_") {
			t.Setenv(name, "")
		}
	}
}

func TestDoctorOfTheServer(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*fakeClient)
		dial   error
		host   bool // the machine is a host
		level  doctor.Level
		says   string
	}{
		"in order":         {level: doctor.OK, says: "temporal: temporal:7233 answers, namespace burnish exists"},
		"polled":           {level: doctor.OK, says: "worker: queue burnish is polled"},
		"all attributes":   {level: doctor.OK, says: "search attributes: all 11 exist"},
		"the host's queue": {host: true, level: doctor.OK, says: "worker: queue burnish-host.h7 is polled"},
		"no server": {
			dial:  &device.Fault{Code: device.CodeUnreachable, Message: "Temporal at x does not answer", Remedy: "start it"},
			level: doctor.Fail, says: "temporal: Temporal at x does not answer; start it",
		},
		"no control worker": {
			change: func(l *fakeClient) { l.onPolled = func(string) (time.Time, error) { return time.Time{}, nil } },
			level:  doctor.Fail, says: "worker: no worker polls queue burnish; start burnish-worker with " +
				"BURNISH_ROLE=control or all",
		},
		"a worker that died": {
			change: func(l *fakeClient) {
				l.onPolled = func(string) (time.Time, error) { return clock.Add(-2 * time.Minute), nil }
			},
			level: doctor.Fail, says: "worker: no worker has polled queue burnish for 2m0s",
		},
		"no host worker": {
			change: func(l *fakeClient) {
				l.onPolled = func(queue string) (time.Time, error) {
					if queue == contract.Queue {
						return clock, nil
					}
					return time.Time{}, nil
				}
			},
			host: true, level: doctor.Fail, says: "worker: no worker polls queue burnish-host.h7; start burnish-worker on h7",
		},
		"pollers that cannot be listed": {
			change: func(l *fakeClient) {
				l.onPolled = func(string) (time.Time, error) { return time.Time{}, serviceerror.NewUnavailable("closing") }
			},
			level: doctor.Fail, says: "worker: the server does not list the pollers of queue burnish: Temporal does not " +
				"answer: closing",
		},
		"attributes are missing": {
			change: func(l *fakeClient) {
				l.onAttributes = func() (map[string]string, error) {
					some := attributes()
					delete(some, "DeviceState")
					delete(some, "DeviceDirty")
					return some, nil
				}
			},
			level: doctor.Fail, says: "search attributes: 2 of 11 are missing; temporal operator search-attribute create " +
				"--name DeviceDirty --type Bool --name DeviceState --type Keyword",
		},
		"one of another type": {
			change: func(l *fakeClient) {
				l.onAttributes = func() (map[string]string, error) {
					some := attributes()
					some["DeviceHost"] = "Text"
					return some, nil
				}
			},
			level: doctor.Fail, says: "search attributes: DeviceHost is Text and must be Keyword",
		},
		"a host with its worker's last poll": {
			change: installation(client.HostDiagnosis{Host: "h1", LastPoll: clock.Add(-7 * time.Second), Devices: 12, Waiting: 2,
				Names: []string{"d1", "d2"}}),
			level: doctor.OK, says: "host: h1: its worker polled 7s ago, 12 devices",
		},
		"two machines with a host's name": {
			change: installation(client.HostDiagnosis{Host: "h1", LastPoll: clock, Machines: []string{"m1", "m2"}, Devices: 1}),
			level:  doctor.Warn, says: "host: h1: workers of 2 machines poll for it: m1, m2; stop the worker on the one that " +
				"is not h1",
		},
		"a host without a worker": {
			change: installation(client.HostDiagnosis{Host: "h2", Devices: 1}),
			level:  doctor.Warn, says: "host: h2: no worker polls, 1 device; start burnish-worker on h2 with " +
				"BURNISH_ROLE=host or all",
		},
		"a host whose worker died": {
			change: installation(client.HostDiagnosis{Host: "h2", LastPoll: clock.Add(-3 * time.Minute), Devices: 4}),
			level:  doctor.Warn, says: "host: h2: no worker has polled for 3m0s, 4 devices",
		},
		"a device waits for a host without a worker": {
			change: installation(client.HostDiagnosis{Host: "h2", LastPoll: clock.Add(-3 * time.Minute), Devices: 14,
				Waiting: 12, Names: []string{"d1", "d2"}}),
			level: doctor.Fail, says: "host: h2: no worker has polled for 3m0s, and 12 of 14 devices wait for it: d1, d2 " +
				"and 10 more; start burnish-worker on h2",
		},
		"a workflow that was terminated": {
			change: func(l *fakeClient) {
				l.onDiagnosis = func() (client.Diagnosis, error) {
					return client.Diagnosis{MoreLost: true,
							Lost: []client.LostWorkflow{{Device: "d7", HowEnded: "terminated at 2026-03-01T11:00:00Z by ann@\x1b[2Jops"}}},
						nil
				}
			},
			level: doctor.Warn,
			says:  `workflow: no workflow runs for d7: terminated at 2026-03-01T11:00:00Z by ann@\?\[2Jops; check that its host's worker runs`,
		},
		"hosts that cannot be listed": {
			change: func(l *fakeClient) {
				l.onDiagnosis = func() (client.Diagnosis, error) {
					return client.Diagnosis{}, serviceerror.NewUnavailable("closing")
				}
			},
			level: doctor.Fail, says: "hosts: the server does not list the devices and the workers of their hosts: Temporal " +
				"does not answer: closing",
		},
		"attributes that cannot be listed": {
			change: func(l *fakeClient) {
				l.onAttributes = func() (map[string]string, error) { return nil, errors.New("no") }
			},
			level: doctor.Warn, says: "search attributes: the server does not list its search attributes: no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			withoutWorker(t)
			l := healthy()
			if tt.change != nil {
				tt.change(l)
			}
			if tt.host {
				t.Setenv("BURNISH_HOST", "h7")
				t.Setenv("BURNISH_STATE_DIR", t.TempDir())
			}
			var used *app
			got := burnishWith(t, l, func(a *app, _ func()) {
				used, a.dial = a, func(context.Context) (deviceClient, error) { return l, tt.dial }
			}, "doctor")
			require.Equal(t, doctorTimeout, used.timeout.limit)
			bad := tt.level == doctor.Fail
			if !tt.host {
				require.Equal(t, bad, got.code == exitFailed, got.out)
				require.Equal(t, bad, strings.Contains(got.errors, " checks failed; "))
			}
			require.Regexp(t, `(?m)^`+strings.ToUpper(string(tt.level))+` +`+strings.NewReplacer(".", `\.`, "(", `\(`).
				Replace(tt.says), got.out)
		})
	}
}

func TestDoctorForPrograms(t *testing.T) {
	withoutWorker(t)
	got := burnish(t, healthy(), "", "doctor", "-o", "json")
	require.Equal(t, exitOK, got.code, got.errors)
	var h struct{ Findings doctor.Findings }
	require.NoError(t, json.Unmarshal([]byte(got.out), &h))
	require.Len(t, h.Findings, 4)
	for _, f := range h.Findings {
		require.Equal(t, doctor.OK, f.Level)
	}
	got = burnish(t, healthy(), "", "doctor", "--placement")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.out, "FAIL  moves of instances: there is no Placement to try it on; ")
}

// The walk over all devices and hosts is many requests: it has more time than one, unless the
// operator says how long.
func TestDoctorHasTimeForALargeFleet(t *testing.T) {
	withoutWorker(t)
	for limit, args := range map[time.Duration][]string{walkTimeout: {"doctor"},
		7 * time.Second: {"doctor", "--timeout", "7s"}} {
		l, began := healthy(), time.Now()
		require.Equal(t, exitOK, burnish(t, l, "", args...).code)
		require.WithinRange(t, l.diagnosisEnd, began.Add(limit), time.Now().Add(limit))
	}
}

// A control worker's machine has no host's queue.
func TestDoctorOfAControlWorker(t *testing.T) {
	withoutWorker(t)
	t.Setenv("BURNISH_ROLE", "control")
	t.Setenv("BURNISH_STATE_DIR", t.TempDir())
	got := burnish(t, healthy(), "", "doctor")
	require.Contains(t, got.out, "queue burnish is polled")
	require.NotContains(t, got.out, "burnish-host")
	require.NotContains(t, got.out, "openat2")
}

// installation is a server with devices on these hosts.
func installation(hosts ...client.HostDiagnosis) func(*fakeClient) {
	return func(l *fakeClient) {
		l.onDiagnosis = func() (client.Diagnosis, error) { return client.Diagnosis{Hosts: hosts}, nil }
	}
}

// withClock is a server whose clock can be read.
type withClock struct {
	*fakeClient
	read func() (time.Time, error)
}

func (c withClock) ServerTime(context.Context) (time.Time, error) { return c.read() }

// The server's clock is read where that is possible, and the ages of polls are by it: a machine
// whose clock is wrong does not find that no worker polls.
func TestDoctorReadsTheServersClock(t *testing.T) {
	for name, tt := range map[string]struct {
		server  time.Time
		err     error
		polled  time.Time
		exit    int
		says    string
		saysNot string
	}{
		"the same":                {server: clock.Add(time.Second), polled: clock.Add(-50 * time.Second), says: "OK    clock: within 5s of the server's\n"},
		"behind":                  {server: clock.Add(-3 * time.Minute), polled: clock.Add(-3*time.Minute - 40*time.Second), says: "WARN  clock: the server's clock is 3m0s behind this machine's; set this machine's clock"},
		"ahead":                   {server: clock.Add(time.Hour), polled: clock.Add(time.Hour - 40*time.Second), says: "WARN  clock: the server's clock is 1h0m0s ahead of this machine's"},
		"ahead, a worker is dead": {server: clock.Add(time.Hour), polled: clock.Add(50 * time.Minute), exit: exitFailed, says: "FAIL  worker: no worker has polled queue burnish for 10m0s"},
		"it cannot be read":       {err: errors.New("no"), polled: clock.Add(-time.Second), says: "OK    worker: queue burnish is polled", saysNot: "clock"},
	} {
		t.Run(name, func(t *testing.T) {
			withoutWorker(t)
			l := healthy()
			l.onPolled = func(string) (time.Time, error) { return tt.polled, nil }
			l.onDiagnosis = func() (client.Diagnosis, error) {
				return client.Diagnosis{Hosts: []client.HostDiagnosis{{Host: "h1", LastPoll: tt.polled, Devices: 2}}}, nil
			}
			got := burnish(t, withClock{l, func() (time.Time, error) { return tt.server, tt.err }}, "", "doctor")
			require.Equal(t, tt.exit, got.code, got.out)
			require.Contains(t, got.out, tt.says)
			if tt.saysNot != "" {
				require.NotContains(t, got.out, tt.saysNot)
			}
		})
	}
}

// Over the API doctor finds the same of the installation, and says what it did not check.
func TestDoctorOfTheInstallationOverTheAPI(t *testing.T) {
	withoutWorker(t)
	l := healthy()
	l.onDiagnosis = func() (client.Diagnosis, error) {
		return client.Diagnosis{
			Hosts: []client.HostDiagnosis{{Host: "h1", LastPoll: time.Now(), Devices: 2}, {Host: "h2", Devices: 1, Waiting: 1, Names: []string{"d3"}}},
			Lost:  []client.LostWorkflow{{Device: "d7", HowEnded: "failed at 2026-03-01T11:00:00Z: x"}},
		}, nil
	}
	l.onPolled = func(string) (time.Time, error) { return time.Now(), nil }
	got := overAPI(t, apiBefore(t, l), "doctor")
	require.Equal(t, exitFailed, got.code, got.errors)
	for _, line := range []string{
		`OK    api: .* answers; Temporal and the workers are checked through it`,
		`OK    temporal: temporal:7233 answers, namespace burnish exists`,
		`OK    host: h1: its worker polled .* ago, 2 devices`,
		`FAIL  host: h2: no worker polls, and 1 of 1 device waits for it: d3; start burnish-worker on h2`,
		`WARN  workflow: no workflow runs for d7: failed at 2026-03-01T11:00:00Z: x`,
	} {
		require.Regexp(t, "(?m)^"+line, got.out)
	}
	require.Contains(t, got.errors, "1 of 8 checks failed")
}

// attributes are those of a server that has all of them.
func attributes() map[string]string {
	types := map[string]string{}
	for name, kind := range contract.Attributes() {
		types[name] = kind.String()
	}
	return types
}
