package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/device"
	"burnish/starter/internal/terminal"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// inWindow runs one command line on a terminal of this width, without colors; 0 is no terminal.
func inWindow(t *testing.T, l deviceClient, width int, args ...string) ran {
	t.Helper()
	return inColor(t, l, width, map[string]string{"NO_COLOR": "1"}, args...)
}

func inColor(t *testing.T, l deviceClient, width int, env map[string]string, args ...string) ran {
	t.Helper()
	return burnishWith(t, l, func(a *app, _ func()) {
		a.getenv = func(key string) string { return env[key] }
		if width > 0 {
			a.window = func() int { return width }
		}
	}, args...)
}

// listed is a client with the example devices and a few more.
func listed() *fakeClient {
	views := exampleDevices()
	long := in("rack-12-unit-07-of-the-second-row_0000:c1:00.0", device.Error)
	long.Fault, long.NeedsOperator, long.Hostname, long.Type, long.Model = "filesystem_signature", true, "rack-12-unit-07",
		"DISK", "電源 Ultra\x1b]0;owned\x07 Star"
	long.SizeBytes, long.Vendor = 3<<40, "Acme"
	small := in("d2", device.Available)
	small.SizeBytes, small.Model, small.UpdatedAt = 512<<30, "X 99", clock.Add(-49*time.Hour)
	views = append(views, long, small)
	return &fakeClient{onList: func(string) (all []client.Execution, err error) {
		for _, v := range views {
			v.Progress = nil
			all = append(all, running(v))
		}
		return all, nil
	}}
}

// Whatever its width, no line of a listing leaves the terminal, and the name and the state are
// in each. Into a pipe it is whole.
func TestListFitsTheTerminal(t *testing.T) {
	for width := 20; width <= 220; width++ {
		for _, args := range [][]string{{"list"}, {"list", "-o", "wide"},
			{"list", "--columns", "name,fault,model,serial,uuid"}} {
			got := inWindow(t, listed(), width, args...)
			require.Equal(t, exitOK, got.code, got.errors)
			all := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
			require.Len(t, all, 5)
			for _, line := range all {
				require.LessOrEqual(t, terminal.Width(line), width, "%q", line)
				require.NotContains(t, line, "\x1b")
			}
			require.True(t, strings.HasPrefix(all[0], "NAME"))
			if width >= 40 && len(args) < 3 {
				require.Contains(t, all[0], "STATE")
			}
		}
	}
	whole := inWindow(t, listed(), 0, "list", "-o", "wide").out
	require.Equal(t, whole, inWindow(t, listed(), 1000, "list", "-o", "wide").out)
	require.Contains(t, whole, "rack-12-unit-07-of-the-second-row_0000:c1:00.0")
	for _, width := range []int{40, 80, 200} {
		got := inWindow(t, listed(), width, "list").out
		file := filepath.Join("testdata", "golden", fmt.Sprintf("list-%d.table", width))
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), got)
	}
}

func TestListForms(t *testing.T) {
	names := func(args ...string) string {
		got := burnish(t, listed(), "", append([]string{"list", "-o", "name"}, args...)...)
		require.Equal(t, exitOK, got.code, got.errors)
		return strings.Join(strings.Fields(got.out), " ")
	}
	const long = "rack-12-unit-07-of-the-second-row_0000:c1:00.0"
	for sort, want := range map[string]string{
		"name":  "d1 d2 h1_0000:01:00.0 " + long,
		"-NAME": long + " h1_0000:01:00.0 d2 d1",
		"state": "d2 h1_0000:01:00.0 " + long + " d1",
		"age":   long + " d1 h1_0000:01:00.0 d2",
		"-age":  "d2 h1_0000:01:00.0 d1 " + long,
		"size":  "d2 " + long + " d1 h1_0000:01:00.0",
		"-size": long + " d2 d1 h1_0000:01:00.0", // what has none stays last
		"model": "h1_0000:01:00.0 d2 " + long + " d1",
	} {
		require.Equal(t, want, names("--sort-by", sort), sort)
	}
	for name, tt := range map[string]struct {
		args []string
		out  string
	}{
		"columns":       {[]string{"--columns", "Size,NAME", "--sort-by", "size"}, "SIZE       NAME\n512.0 GiB  d2\n3.0 TiB    " + long + "\n-          d1\n-          h1_0000:01:00.0\n"},
		"jsonpath":      {[]string{"-o", `jsonpath={range .devices[?(@.device_state=="error")]}{.name}: {.model}{"\n"}{end}`}, long + ": 電源 Ultra?]0;owned? Star\n"},
		"relaxed":       {[]string{"-o", "jsonpath=.devices[*].device_state"}, "manageable available cleaning error\n"},
		"sorted object": {[]string{"-o", "jsonpath={.devices[*].size_bytes}", "--sort-by=-size"}, "3298534883328 549755813888\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := burnish(t, listed(), "", append([]string{"list"}, tt.args...)...)
			require.Equal(t, exitOK, got.code, got.errors)
			require.Equal(t, tt.out, got.out)
		})
	}
	wide := burnish(t, listed(), "", "list", "-o", "wide").out
	for _, name := range columnNames() {
		require.Contains(t, strings.SplitN(wide, "\n", 2)[0], name)
	}
}

func TestListWatch(t *testing.T) {
	round := 0
	away := serviceerror.NewUnavailable("closing")
	l := &fakeClient{onList: func(string) ([]client.Execution, error) {
		d1, d2 := in("d1", device.Cleaning), in("d2", device.Available)
		switch round {
		case 1:
			return nil, away
		case 2:
			d1.DeviceState = device.Error
			d1.Fault = "io_error"
		case 3, 5:
			return []client.Execution{running(d2)}, nil // a listing lags
		}
		if round > 2 {
			d1.DeviceState = device.Error
			d1.Fault = "io_error"
		}
		return []client.Execution{running(d1), running(d2)}, nil
	}}
	watch := func(args ...string) ran {
		round = 0
		return burnishWith(t, l, func(a *app, ctrlC func()) {
			a.pause = func(ctx context.Context, _ time.Duration) error {
				if round++; round == 6 {
					ctrlC()
				}
				return ctx.Err()
			}
		}, append([]string{"list", "--watch"}, args...)...)
	}
	got := watch("--columns", "name,state,fault")
	require.Equal(t, exitInterrupted, got.code)
	require.Equal(t, "NAME  STATE      FAULT\nd1    cleaning   -\nd2    available  -\nd1    error      io_error\n",
		got.out)
	require.Equal(t, 1, strings.Count(got.errors, "trying again"), got.errors)
	require.Equal(t, "d1\nd2\nd1\n", watch("-o", "name").out)
	require.Equal(t, "d1 cleaning\nd2 available\nd1 error\n", watch("-o", `jsonpath={.name} {.device_state}`).out)
	states := ""
	for line := range strings.Lines(watch("-o", "json").out) {
		var v contract.DeviceStatus
		require.NoError(t, json.Unmarshal([]byte(line), &v))
		states += v.Name + " " + string(v.DeviceState) + ";"
	}
	require.Equal(t, "d1 cleaning;d2 available;d1 error;", states)
	require.Equal(t, 3, strings.Count(watch("-o", "yaml").out, "---\n"))
}

// No command's table leaves a narrow terminal, and none of its words is missing then.
func TestTablesNeverWrap(t *testing.T) {
	views := map[string]contract.DeviceStatus{"p1": withHistory()}
	for _, v := range exampleDevices() {
		views[v.Name] = v
	}
	l := listed()
	l.onDescribe = func(name string) (client.Execution, error) { return running(views[name]), nil }
	l.onQuery = func(_ context.Context, name string) (contract.DeviceStatus, error) { return views[name], nil }
	for _, args := range [][]string{
		{"show", "h1_0000:01:00.0"}, {"show", "d1"}, {"steps", "h1_0000:01:00.0"}, {"history", "p1"},
	} {
		whole := inWindow(t, l, 0, args...)
		require.Equal(t, exitOK, whole.code, whole.errors)
		for _, width := range []int{20, 40, 60, 80} {
			got := inWindow(t, l, width, args...)
			require.Equal(t, exitOK, got.code, got.errors)
			for line := range strings.Lines(got.out) {
				isText := strings.HasPrefix(line, "clean ") || strings.Contains(line, ", now ") // which the terminal wraps
				require.True(t, isText || terminal.Width(strings.TrimSuffix(line, "\n")) <= width, "%s: %q", args, line)
			}
			if width >= 40 {
				narrow := strings.Join(strings.Fields(got.out), "")
				for _, word := range strings.Fields(whole.out) {
					require.True(t, len(word) > 12 || strings.Contains(narrow, word), "%s at %d: %q is missing", args, width, word)
				}
			}
		}
	}
}

// Colors are for terminals that know them, and for those who want them.
func TestColors(t *testing.T) {
	const red = "\x1b[31mio_error\x1b[0m"
	l := &fakeClient{
		onList: func(string) ([]client.Execution, error) { return []client.Execution{failedWith("d1")}, nil },
	}
	for name, tt := range map[string]struct {
		width   int
		env     map[string]string
		args    []string
		colored bool
	}{
		"terminal":            {width: 100, env: map[string]string{"TERM": "xterm"}, colored: true},
		"pipe":                {env: map[string]string{"TERM": "xterm"}},
		"NO_COLOR":            {width: 100, env: map[string]string{"TERM": "xterm", "NO_COLOR": "1"}},
		"empty NO_COLOR":      {width: 100, env: map[string]string{"TERM": "xterm", "NO_COLOR": ""}, colored: true},
		"dumb":                {width: 100, env: map[string]string{"TERM": "dumb"}},
		"always into a pipe":  {args: []string{"--color=always"}, colored: true},
		"always over no":      {width: 100, env: map[string]string{"NO_COLOR": "1"}, args: []string{"--color", "always"}, colored: true},
		"never on a terminal": {width: 100, env: map[string]string{"TERM": "xterm"}, args: []string{"--color", "never"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := inColor(t, l, tt.width, tt.env, append([]string{"list"}, tt.args...)...)
			require.Equal(t, exitOK, got.code, got.errors)
			require.Equal(t, tt.colored, strings.Contains(got.out, red), "%q", got.out)
			require.Equal(t, tt.colored, strings.Contains(got.out, "\x1b["))
			plain := inWindow(t, l, tt.width, "list")
			require.Equal(t, plain.out, uncolored(got.out))
		})
	}
	json := inColor(t, l, 100, nil, "list", "-o", "json", "--color", "always")
	require.NotContains(t, json.out, "\x1b")
}
