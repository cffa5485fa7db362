package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettings(t *testing.T) {
	for _, tt := range []struct {
		given []string
		want  map[string]string
		err   string
	}{
		{nil, map[string]string{}, ""},
		{[]string{"path=/dev/sdb"}, map[string]string{"path": "/dev/sdb"}, ""},
		{[]string{"size=64MiB,delay=200ms,serial=S,fault=fail:zero@40%x1;hang:sanitize"}, map[string]string{"size": "64MiB", "delay": "200ms", "serial": "S", "fault": "fail:zero@40%x1;hang:sanitize"}, ""},
		{[]string{"size=1", "delay=2"}, map[string]string{"size": "1", "delay": "2"}, ""},
		{[]string{"path=/dev/a,b"}, map[string]string{"path": "/dev/a,b"}, ""},
		{[]string{"a=b=c"}, map[string]string{"a": "b=c"}, ""},
		{[]string{"a="}, map[string]string{"a": ""}, ""},
		{[]string{"size"}, nil, `--set "size": must be key=value`},
		{[]string{"=x"}, nil, `--set "=x": must be key=value`},
		{[]string{"a=1", "a=2"}, nil, "--set a is given twice"},
	} {
		got, err := settings(tt.given)
		if tt.err != "" {
			require.EqualError(t, err, tt.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
}

func TestEnrollmentRefuses(t *testing.T) {
	good := enrollment{Name: "d1", Host: "h1", Driver: "fake"}
	_, err := good.input()
	require.NoError(t, err)
	for want, spoil := range map[string]func(*enrollment){
		"host is missing":                  func(e *enrollment) { e.Host = "" },
		`"h 1" is not a valid host name`:   func(e *enrollment) { e.Host = "h 1" },
		"driver is missing":                func(e *enrollment) { e.Driver = "" },
		`"f/x" is not a valid driver`:      func(e *enrollment) { e.Driver = "f/x" },
		`"a b" is not a valid type`:        func(e *enrollment) { e.Type = "a b" },
		"NAME is missing":                  func(e *enrollment) { e.Name = "" },
		`"d 1" is not a valid device name`: func(e *enrollment) { e.Name = "d 1" },
		`"01:00" is not a valid PCI`:       func(e *enrollment) { e.Address = "01:00" },
		"NAME d1 does not fit":             func(e *enrollment) { e.Address = "0000:01:00.0" },
		`owner "me"`:                       func(e *enrollment) { e.Set = map[string]string{"owner": "me"} },
		"must be one of self, nova":        func(e *enrollment) { e.Set = map[string]string{"owner": ""} },
		"h1_0000:01:00.0: leave":           func(e *enrollment) { e.Name, e.Address = "h2_0000:01:00.0", "0000:01:00.0" },
	} {
		e := good
		spoil(&e)
		_, err := e.input()
		require.ErrorContains(t, err, want)
	}
}

func TestParseFleet(t *testing.T) {
	entries, err := parseFleet([]byte(`# two racks
devices:
  - {name: D1, host: H1, driver: Fake, type: nvme, set: {size: 1024, quiet: true, owner: nova}, one_time_use: true,
     provide: true}
  - address: 0000:01:00.0
    host: h1
    driver: block
    set:
      path: /dev/sdb
    accept_signature: ext4
    clean: true
`))
	require.NoError(t, err)
	require.Len(t, entries, 2)
	require.NoError(t, entries[0].err)
	e := entries[0].input.Enrollment
	require.Equal(t, "D1 h1 fake NVME nova", e.Name+" "+e.Host+" "+e.Driver+" "+e.Type+" "+string(e.Owner))
	require.Equal(t, map[string]string{"size": "1024", "quiet": "true"}, e.Settings)
	require.True(t, e.OneTimeUse && entries[0].input.Provide)
	require.NoError(t, entries[1].err)
	require.Equal(t, "h1_0000:01:00.0", entries[1].input.Enrollment.Name)
	require.True(t, entries[1].input.Enrollment.OperatorAssertsClean)
}

func TestParseFleetRefusesTheFile(t *testing.T) {
	for want, text := range map[string]string{
		"must be a mapping with the key devices":                                "",
		"line 1: a fleet file must be a mapping, not a list":                    "- a",
		`line 2: unknown key "device" in a fleet file: the only key is devices`: "devices: [{name: a}]\ndevice: []",
		"it contains no device":                                                 "devices: []",
	} {
		_, err := parseFleet([]byte(text))
		require.ErrorContains(t, err, want, "%q", text)
	}
}

func TestParseFleetRefusesAnEntry(t *testing.T) {
	for text, want := range map[string]string{
		"{name: a, host: h1, driver: fake, size: 3}":        `line 2: unknown key "size"`,
		"{name: a, host: h1, driver: fake, provide: maybe}": "line 2: provide must be true or false",
		"{name: a, host: h1, driver: fake, set: {a: [b]}}":  "line 2: set: a must be text, not a list",
		"{name: a, driver: fake}":                           "line 2: host is missing",
		"{name: x, host: h1, driver: fake, address: 00.0}":  "line 2: ",
		"\n    name: a\n    host: h1\n    driver: f/x":      "line 3: \"f/x\" is not a valid driver",
	} {
		entries, err := parseFleet([]byte("devices:\n  - " + text + "\n  - {name: last, host: h1, driver: fake}\n"))
		require.NoError(t, err, text)
		require.Len(t, entries, 2, text)
		require.ErrorContains(t, entries[0].err, want, text)
		require.NoError(t, entries[1].err)
	}
}

func TestParseFleetRefusesANameTwice(t *testing.T) {
	entries, err := parseFleet([]byte(`devices:
  - {name: H1_0000:0A:00.0, host: h1, driver: fake}
  - {address: "0000:0a:00.0", host: h1, driver: fake}
`))
	require.NoError(t, err)
	require.NoError(t, entries[0].err)
	require.EqualError(t, entries[1].err, "line 3: h1_0000:0a:00.0 is a duplicate of line 2")
}
