package oneview

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// writeFile writes oneview.yaml into a directory of its own.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "private")
	require.NoError(t, os.Mkdir(dir, 0o700))
	file := filepath.Join(dir, "oneview.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// requireFault gives the fault's message.
func requireFault(t *testing.T, err error, class device.Class, code device.Code) string {
	t.Helper()
	f, ok := device.AsFault(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, f.Code, f.Message)
	require.Equal(t, class, f.Class, f.Message)
	require.NotContains(t, f.Error(), "\n")
	require.NotContains(t, f.Error(), "hunter2")
	return f.Message
}

// S4.14, S4.15, S4.30, S4.31
func TestTheFileNamesAppliancesAndTheirSettings(t *testing.T) {
	all, err := readFile(writeFile(t, `
appliances:
  rack1: {url: "https://ONE.example:8443/", username: burnish, password: "0123"}
  rack2:
    url: https://two.example
    username: b
    password: p
    domain: LOCAL
    insecure: true
    periodic_check_interval: 0
    apply_timeout: 90m
    page_size: 1000
  rack3: {url: "http://127.0.0.1:1", username: b, password: p, insecure: true, periodic_check_interval: 60, apply_timeout: 7200}
`))
	require.NoError(t, err)
	require.Len(t, all, 3)
	require.Equal(t, "https://one.example:8443", func() string { u := all["rack1"].Base; return u.String() }())
	require.Equal(t, "burnish 0123", all["rack1"].Username+" "+all["rack1"].Password)
	require.Equal(t, Settings{Interval: 300 * time.Second, ApplyTimeout: time.Hour, PageSize: 100}, all["rack1"].Settings)
	require.Equal(t, Settings{ApplyTimeout: 90 * time.Minute, PageSize: 1000}, all["rack2"].Settings)
	require.Equal(t, "LOCAL", all["rack2"].Domain)
	require.Equal(t, Settings{Interval: time.Minute, ApplyTimeout: 2 * time.Hour, PageSize: 100}, all["rack3"].Settings)
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, all), "0123", format)
	}
	empty, err := readFile(writeFile(t, ""))
	require.NoError(t, err)
	require.Empty(t, empty)
}

// F13
func TestAFileThatOthersMayReadIsRefused(t *testing.T) {
	file := writeFile(t, "appliances: {rack1: {url: https://a, username: u, password: hunter2}}\n")
	names, err := CheckFile(file)
	require.NoError(t, err)
	require.Equal(t, []string{"rack1"}, names)
	require.NoError(t, os.Chmod(file, 0o640))
	_, err = CheckFile(file)
	require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused), file)
	require.NoError(t, os.Chmod(file, 0o600))
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o777))
	_, err = CheckFile(file)
	requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)
	_, err = CheckFile(filepath.Join(t.TempDir(), "none.yaml"))
	requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)

	for _, ca := range []string{"/nowhere/ca.pem", "\"-----BEGIN hunter2\""} {
		_, err =
			CheckFile(writeFile(t, "appliances: {rack1: {url: https://a, username: u, password: hunter2, ca: "+ca+"}}\n"))
		require.Contains(t, requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused), "rack1")
	}
}

func TestMistakesInTheFileHaveTheirLineAndNoValue(t *testing.T) {
	entry := func(more string) string {
		return "appliances:\n  a:\n    url: https://a\n    username: u\n    password: hunter2\n    " + more + "\n"
	}
	for name, tt := range map[string]struct{ text, want string }{
		"no mapping":         {"- hunter2\n", "line 1: oneview.yaml must be a mapping"},
		"no YAML":            {"appliances:\n\tpassword: hunter2\n", "line 2: this is not valid YAML"},
		"unknown at the top": {"hunter2: {}\n", "line 1: unknown key in oneview.yaml: the only key is appliances"},
		"bad name":           {"appliances:\n  \"hunter2/x\": {}\n", "line 2: an appliance's name must be"},
		"no password":        {"appliances:\n  a: {url: https://a, username: hunter2}\n", "line 2: appliance a has no password"},
		"no url":             {"appliances:\n  a: {username: u, password: hunter2}\n", "line 2: appliance a has no url"},
		"nothing":            {"appliances:\n  a:\n", "appliance a has no username"},
		"unknown key":        {entry("hunter2: 1"), "line 6: unknown key in appliance a: must be one of username, password, ca, insecure, apply_timeout, domain, ignore_etags, page_size, periodic_check_interval, url"},
		"unencrypted":        {strings.Replace(entry(""), "https", "http", 1), "line 3: url of appliance a must begin with https://"},
		"password in url":    {strings.Replace(entry(""), "https://a", "https://u:hunter2@a", 1), "line 3: url of appliance a must have the form"},
		"url with a path":    {strings.Replace(entry(""), "https://a", "https://a/hunter2", 1), "line 3: url of appliance a must have the form"},
		"no host":            {strings.Replace(entry(""), "https://a", "https://:80", 1), "line 3: url of appliance a must have the form"},
		"interval":           {entry("periodic_check_interval: hunter2"), "line 6: periodic_check_interval of appliance a must be seconds"},
		"negative interval":  {entry("periodic_check_interval: -5m"), "line 6: periodic_check_interval of appliance a must be within"},
		"no apply time":      {entry("apply_timeout: 0"), "line 6: apply_timeout of appliance a must be within"},
		"no page":            {entry("page_size: 0"), "line 6: page_size of appliance a must be within 1 to 1000"},
		"large page":         {entry("page_size: 1001"), "line 6: page_size of appliance a must be within 1 to 1000"},
		"page as text":       {entry("page_size: hunter2"), "line 6: page_size of appliance a must be a plain number"},
		"empty domain":       {entry("domain: \"\""), "line 6: domain of appliance a is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, tt.text)
			_, err := CheckFile(file)
			message := requireFault(t, err, device.NeedsOperator, device.CodeApplianceRefused)
			require.Contains(t, message, file)
			require.Contains(t, message, tt.want)
		})
	}
}
