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
			level:  doctor.Fail, says: "worker: no worker polls queue burnish; start burnish-worker with BURNISH_ROLE=control or all",
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
			level: doctor.Fail, says: "worker: the server does not list the pollers of queue burnish: Temporal does not answer: closing",
		},
		"the server's clock is ahead": {
			change: func(l *fakeClient) {
				l.onPolled = func(string) (time.Time, error) { return clock.Add(time.Minute), nil }
			},
			level: doctor.Warn, says: "clock: the server's clock is 1m0s ahead",
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
			level: doctor.Fail, says: "search attributes: 2 of 11 are missing; temporal operator search-attribute create --name DeviceDirty --type Bool --name DeviceState --type Keyword",
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
			var out, errs strings.Builder
			a := &app{
				stdin: strings.NewReader(""), stdout: &out, stderr: &errs, now: func() time.Time { return clock },
				dial: func(context.Context) (deviceClient, error) { return l, tt.dial },
			}
			if tt.host {
				t.Setenv("BURNISH_HOST", "h7")
				t.Setenv("BURNISH_STATE_DIR", t.TempDir())
			}
			code := a.run(t.Context(), []string{"doctor"})
			require.Equal(t, doctorTimeout, a.timeout.limit)
			bad := tt.level == doctor.Fail
			if !tt.host {
				require.Equal(t, bad, code == exitFailed, out.String())
				require.Equal(t, bad, strings.Contains(errs.String(), " checks failed; "))
			}
			require.Regexp(t, `(?m)^`+strings.ToUpper(string(tt.level))+` +`+strings.NewReplacer(".", `\.`, "(", `\(`).Replace(tt.says), out.String())
		})
	}
}

func TestDoctorForPrograms(t *testing.T) {
	withoutWorker(t)
	got := burnish(t, healthy(), "", "doctor", "-o", "json")
	require.Equal(t, exitOK, got.code, got.errors)
	var h health
	require.NoError(t, json.Unmarshal([]byte(got.out), &h))
	require.Len(t, h.Findings, 4)
	for _, f := range h.Findings {
		require.Equal(t, doctor.OK, f.Level)
	}
	require.Equal(t, exitUsage, burnish(t, nil, "", "doctor", "d1").code)
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

// attributes are those of a server that has all of them.
func attributes() map[string]string {
	types := map[string]string{}
	for name, kind := range contract.Attributes() {
		types[name] = kind.String()
	}
	return types
}
