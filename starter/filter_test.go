package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const base = "WorkflowType = 'DeviceLifecycle' AND ExecutionStatus = 'Running'"

func TestQuery(t *testing.T) {
	const living = " AND DeviceState != 'retired'"
	for name, tt := range map[string]struct {
		filter filter
		want   string
	}{
		"retired are hidden":       {filter{}, base + living},
		"unless all are requested": {filter{all: true}, base},
		"or their state is named":  {filter{by: client.Filter{client.ByState: {"retired"}}}, base + " AND DeviceState = 'retired'"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.filter.query().Query())
		})
	}
}

// An empty listing is a list, not null.
func TestAnEmptyListingIsAList(t *testing.T) {
	require.NotNil(t, (&filter{}).keep(nil))
}

// mixedFleet are devices that each filter tells apart. It answers a listing as the server does,
// and counts the listings.
func mixedFleet() (*fakeClient, *int) {
	labeled := func(name, host, kind, model string, s device.State, labels map[string]string) contract.DeviceStatus {
		v := in(name, s)
		v.Hostname, v.Type, v.Model, v.Labels = host, kind, model, labels
		v.CreatedAt, v.UpdatedAt = clock.Add(-1000*time.Hour), clock.Add(-time.Minute)
		return v
	}
	a := labeled("h1_0000:01:00.0", "h1", "NVME", "X 1", device.Error, map[string]string{"rack": "a", "tier": "gold"})
	a.Fault, a.NeedsOperator, a.UpdatedAt = "verify_failed", true, clock.Add(-50*time.Hour)
	b := labeled("h1_0000:02:00.0", "h1", "NVME", "Y, new", device.Available, map[string]string{"rack": "b"})
	b.Status = device.Maintaining
	c := labeled("h2_0000:01:00.0", "h2", "NVME", "X 1", device.Cleaning, map[string]string{"rack": "a"})
	c.Waiting = &contract.StatusWait{For: contract.WaitHold}
	c.Waiting.Since = clock
	d := labeled("disk1", "h3", "DISK", "Z", device.Available, nil)
	e := labeled("old", "h4", "GPU", "W", device.Retired, nil)
	all := []contract.DeviceStatus{a, b, c, d, e}
	var mu sync.Mutex
	listings := 0
	l := &fakeClient{onList: func(query string) ([]client.Execution, error) {
		mu.Lock()
		defer mu.Unlock()
		listings++
		var found []client.Execution
		for _, v := range all {
			alive := v.DeviceState != device.Retired || !strings.Contains(query, "DeviceState") ||
				strings.Contains(query, "'retired'")
			if alive {
				found = append(found, running(v))
			}
		}
		return found, nil
	}, onUpdate: func(_ context.Context, name, _ string, _ any) (contract.Result, error) {
		return contract.Result{Device: in(name, device.Manageable)}, nil
	}, onDescribe: func(name string) (client.Execution, error) {
		return running(in(name, device.Available)), nil
	}, onQuery: func(_ context.Context, name string) (contract.DeviceStatus, error) {
		for _, v := range all {
			if v.Name == name {
				if v.StateSince = clock.Add(-time.Hour); name == "disk1" {
					v.StateSince = clock.Add(-72 * time.Hour)
				}
				return v, nil
			}
		}
		return contract.DeviceStatus{}, gone()
	}}
	return l, &listings
}

// Filters select the devices that match all of them; the values of one are alternatives. The
// commands that act select as list does.
func TestFiltersSelect(t *testing.T) {
	for line, want := range map[string]string{
		"'h1_*'":                       "h1_0000:01:00.0 h1_0000:02:00.0",
		"'H1_*'":                       "h1_0000:01:00.0 h1_0000:02:00.0",
		"'*_0000:0[12]:00.?'":          "h1_0000:01:00.0 h1_0000:02:00.0 h2_0000:01:00.0",
		"'h1_*' 'disk?'":               "disk1 h1_0000:01:00.0 h1_0000:02:00.0",
		"'h*' --label rack=a":          "h1_0000:01:00.0 h2_0000:01:00.0",
		"--label rack=a":               "h1_0000:01:00.0 h2_0000:01:00.0",
		"--label rack=a,tier":          "h1_0000:01:00.0",
		"--label rack=a --label !tier": "h2_0000:01:00.0",
		"--label rack!=a":              "disk1 h1_0000:02:00.0",
		"--label !rack":                "disk1",
		"--on-hold":                    "h1_0000:02:00.0 h2_0000:01:00.0",
		"--older-than 2d":              "disk1 h1_0000:01:00.0",
		"--older-than 30m":             "disk1 h1_0000:01:00.0 h1_0000:02:00.0 h2_0000:01:00.0",
		"--older-than 100h":            "",
		"--model 'X 1','Z'":            "disk1 h1_0000:01:00.0 h2_0000:01:00.0",
		"--model '\"Y, new\"'":         "h1_0000:02:00.0",
	} {
		t.Run(line, func(t *testing.T) {
			for _, command := range []string{"list", "provide"} {
				l, _ := mixedFleet()
				args := append([]string{command}, shellWords(t, line)...)
				if command == "list" {
					args = append(args, "-o", "json")
				} else {
					args = append(args, "--yes")
				}
				got := burnish(t, l, "", args...)
				require.Equal(t, exitOK, got.code, got.errors)
				for _, name := range []string{"h1_0000:01:00.0", "h1_0000:02:00.0", "h2_0000:01:00.0", "disk1", "old"} {
					selected := strings.Contains(" "+want+" ", " "+name+" ")
					if command == "list" {
						require.Equal(t, selected, strings.Contains(got.out, fmt.Sprintf("%q", name)), "%s: %s", name, got.out)
					} else {
						require.Equal(t, selected, strings.Contains(strings.Join(l.sent, "\n")+"\n", "provide "+name+"\n"), "%s: %s",
							name, l.sent)
					}
				}
			}
		})
	}
}

// The server compares what it can.
func TestFiltersAreSentToTheServer(t *testing.T) {
	asked := ""
	l := &fakeClient{onList: func(query string) ([]client.Execution, error) {
		asked = cmp.Or(asked, query)
		return nil, nil
	}}
	burnish(t, l, "", "list", "--all", "--type", "nvme,Gpu", "--host", "H1,h2", "--fault", "io_error",
		"--fault", "aborted", "--needs-operator")
	require.Equal(t, base+" AND DeviceType IN ('NVME', 'GPU') AND DeviceHost IN ('h1', 'h2') AND DeviceFault IN "+
		"('io_error', 'aborted') AND NeedsOperator = true", asked)
}

// One-time-use devices, and those that wait for a clean, can be listed.
//
// S0.11
func TestListsOfOneTimeUse(t *testing.T) {
	once, often := in("d1", device.Available), in("d2", device.Available)
	once.OneTimeUse = true
	asked := ""
	l := &fakeClient{onList: func(query string) ([]client.Execution, error) {
		asked = query
		return []client.Execution{running(once), running(often)}, nil
	}}
	require.Equal(t, "d1\n", burnish(t, l, "", "list", "--one-time-use", "-o", "name").out)
	burnish(t, l, "", "list", "--awaiting-cleaning", "-o", "name")
	require.Contains(t, asked, "(DeviceState = 'pending_cleaning' OR (DeviceState = 'error' AND DeviceDirty = true))")
}

// A value that no device has is an error of the command line, and says what was probably meant;
// nothing is sent. Where every value is known, one listing is enough.
func TestUnknownValuesAreUsageErrors(t *testing.T) {
	for line, says := range map[string]string{
		"--fault nosuch":                `--fault "nosuch": is not a fault; see burnish`,
		"--fault verify_faild":          `--fault "verify_faild": is not a fault; did you mean verify_failed?`,
		"--fault io_error,verfy_failed": `did you mean verify_failed?`,
		"--host h1,compute9":            `--host "compute9": no device has this host; see burnish`,
		"--host h33":                    `--host "h33": no device has this host; did you mean h3?`,
		"--type NVM":                    `--type "NVM": no device has this type; did you mean NVME?`,
		"--model x":                     `--model "x": no device has this model`,
		"--state eror":                  `--state "eror": must be one of unknown, manageable`,
		"'h9_*'":                        `no device matches "h9_*"`,
		"'h1_*' 'x?'":                   `no device matches "x?"`,
		"'old*'":                        `no device matches "old*"`, // it is retired
		"'h1_['":                        `"h1_[" is not a valid pattern`,
		"--label a/b/c=d":               `--label "a/b/c=d": label`,
		"--label ''":                    "--label",
		"--older-than 5":                `must be a duration such as 90m, 36h or 2d`,
		"--older-than -1h":              `must be a duration`,
		"--older-than 0s":               `must be a duration`,
		"--older-than 1.d5":             `must be a duration`,
	} {
		t.Run(line, func(t *testing.T) {
			for _, command := range []string{"list", "retire --reason old --yes", "label --yes"} {
				l, _ := mixedFleet()
				args := append(strings.Fields(command), shellWords(t, line)...)
				if command == "label --yes" {
					args = append(args, "rack=a")
				}
				got := burnish(t, l, "", args...)
				require.Equal(t, exitUsage, got.code, got.errors)
				require.Contains(t, got.errors, says)
				require.Equal(t, 1, strings.Count(got.errors, "\n"), got.errors)
				require.Empty(t, got.out)
				require.Empty(t, l.sent)
			}
		})
	}
	for line, want := range map[string]int{"--host H1,h2 --type nvme": 1, "--host h4": 2, "--state retired --host h1": 2} {
		l, listings := mixedFleet()
		got := burnish(t, l, "", append([]string{"list"}, strings.Fields(line)...)...)
		require.Equal(t, exitOK, got.code, got.errors)
		require.Equal(t, want, *listings, line)
	}
}

// Whether a device is old enough is asked where the listing cannot tell; without an answer the
// command fails, and does not take fewer devices for all.
func TestOlderThanNeedsAnAnswer(t *testing.T) {
	l, _ := mixedFleet()
	var mu sync.Mutex
	asked := map[string]int{}
	answer := l.onQuery
	l.onQuery = func(ctx context.Context, name string) (contract.DeviceStatus, error) {
		mu.Lock()
		asked[name]++
		mu.Unlock()
		if name == "disk1" {
			return contract.DeviceStatus{}, errors.New("boom")
		}
		return answer(ctx, name)
	}
	got := burnish(t, l, "", "retire", "--older-than", "2d", "--reason", "old", "--yes")
	require.Equal(t, exitFailed, got.code)
	require.Empty(t, l.sent)
	require.Equal(t, map[string]int{"disk1": 1, "h1_0000:02:00.0": 1, "h2_0000:01:00.0": 1}, asked,
		"the listing shows that the fourth is old")
}
