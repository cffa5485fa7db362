package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware/drivers"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// completed gives what a shell is offered for the line, and the directive.
func completed(t *testing.T, l deviceClient, env map[string]string, line ...string) ([]string, string) {
	t.Helper()
	got := burnishWith(t, l, func(a *app, _ func()) { a.getenv = func(name string) string { return env[name] } },
		append([]string{cobra.ShellCompNoDescRequestCmd}, line...)...)
	require.Equal(t, exitOK, got.code)
	lines := strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	return lines[:len(lines)-1], lines[len(lines)-1]
}

// fleetOfThree has devices in three states, and one whose name and model are hostile.
func fleetOfThree(t *testing.T) *fakeClient {
	d1, d2, d3, d4 := in("h1_0000:01:00.0", device.Available), in("d2", device.Error), in("d3", device.Retired),
		in("$(reboot)", device.Error)
	d1.Hostname, d1.Type, d1.Model = "h1", "NVME", "P4510"
	d2.Hostname, d2.Type, d2.Model, d2.Fault = "h2", "DISK", "a\x1b[2J`b", "verify_failed"
	bound := someInstance
	d1.InstanceUUID = &bound
	planned := in("d2", device.Error)
	planned.Steps = []contract.CleanStep{{Step: "zero"}, {Step: "verify"}, {Step: "x;y"}}
	return &fakeClient{
		onList: func(string) ([]client.Execution, error) {
			return []client.Execution{running(d1), running(d2), running(d3), running(d4)}, nil
		},
		onDescribe: func(string) (client.Execution, error) { return running(planned), nil },
		onQuery: func(_ context.Context, name string) (contract.DeviceStatus, error) {
			require.Equal(t, "d2", name)
			return planned, nil
		},
	}
}

func TestCompletion(t *testing.T) {
	for name, tt := range map[string]struct {
		line []string
		want []string
	}{
		"commands":                 {[]string{"rel"}, []string{"release-hold"}},
		"names":                    {[]string{"clean", ""}, []string{"d2", "h1_0000:01:00.0"}},
		"names with a colon":       {[]string{"clean", "h1_0000:0"}, []string{"h1_0000:01:00.0"}},
		"a name is given once":     {[]string{"clean", "d2", ""}, []string{"h1_0000:01:00.0"}},
		"one name is enough":       {[]string{"bind", "d2", ""}, []string{}},
		"only retired ones":        {[]string{"forget", ""}, []string{"d3"}},
		"all of them":              {[]string{"show", ""}, []string{"d2", "d3", "h1_0000:01:00.0"}},
		"a word of the command":    {[]string{"power", "d2", ""}, []string{"on", "off", "reset"}},
		"shells":                   {[]string{"completion", ""}, []string{"bash", "fish", "zsh"}},
		"states":                   {[]string{"list", "--state", "pen"}, []string{"pending_cleaning"}},
		"a second state":           {[]string{"list", "--state", "error,pending_"}, []string{"error,pending_cleaning"}},
		"hosts":                    {[]string{"list", "--host", ""}, []string{"h1", "h2"}},
		"types":                    {[]string{"list", "--type="}, []string{"DISK", "NVME"}},
		"models, no hostile one":   {[]string{"list", "--model", ""}, []string{"P4510"}},
		"faults that there are":    {[]string{"list", "--fault", ""}, []string{"verify_failed"}},
		"steps of the device":      {[]string{"clean", "d2", "--steps", ""}, []string{"zero", "verify"}},
		"a second step":            {[]string{"clean", "d2", "--steps", "zero,"}, []string{"zero,verify"}},
		"instances":                {[]string{"instance", "show", ""}, []string{someInstance}},
		"instances that have some": {[]string{"unbind", "d2", "--instance", ""}, []string{someInstance}},
		"formats":                  {[]string{"list", "-o", "j"}, []string{"json"}},
		"nothing for a reason":     {[]string{"clean", "--reason", ""}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, directive := completed(t, fleetOfThree(t), nil, tt.line...)
			require.Equal(t, tt.want, got)
			require.Equal(t, ":4", directive, "no files")
		})
	}
	t.Run("a file is completed by the shell", func(t *testing.T) {
		got, directive := completed(t, fleetOfThree(t), nil, "enroll", "-f", "")
		require.Empty(t, got)
		require.Equal(t, ":0", directive)
	})
	t.Run("runbooks of the policy", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		require.NoError(t,
			os.WriteFile(file, []byte("runbooks:\n  wipe:\n    steps: [{step: zero}, {step: verify}]\n"), 0o600))
		got, _ := completed(t, fleetOfThree(t), map[string]string{"BURNISH_POLICY": file}, "clean", "d2", "--runbook", "")
		require.Equal(t, []string{"wipe"}, got)
	})
}

// A server that fails, or takes too long, offers nothing, and is no error.
func TestCompletionWithoutAnAnswer(t *testing.T) {
	forever := make(chan struct{})
	defer close(forever)
	for _, list := range []func(string) ([]client.Execution, error){
		func(string) ([]client.Execution, error) { return nil, errors.New("down") },
		func(string) ([]client.Execution, error) { <-forever; return nil, nil }, // costs a second
	} {
		got, directive := completed(t, &fakeClient{onList: list}, nil, "show", "")
		require.Empty(t, got)
		require.Equal(t, ":4", directive)
	}
}

// bash completes names with colons at a terminal.
func TestBashCompletesOnATerminal(t *testing.T) {
	bash, err := exec.LookPath("bash")
	require.NoError(t, err, "the tests need bash")
	dir := t.TempDir()
	script, err := completionScript(newTree(), "bash")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "burnish.bash"), []byte(script), 0o600))
	// A program that answers as burnish does: what it is asked stands in asked.
	fake := "#!/bin/bash\nprintf '%s\\n' \"$*\" >>" + dir + "/asked\n" +
		"case \"$*\" in\n'__complete clean h1'*) printf 'h1_0000:01:00.0\\tavailable on h1\\n:4\\n';;\n*) printf " +
		"':4\\n';;\nesac\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "burnish"), []byte(fake), 0o700))

	rc := "/usr/share/bash-completion/bash_completion"
	if _, err := os.Stat(rc); err != nil {
		t.Skipf("the package bash-completion is not installed: %s", err)
	}
	file := filepath.Join(dir, "rc")
	require.NoError(t, os.WriteFile(file, []byte("source "+rc+"\nsource "+dir+"/burnish.bash\nPS1='ready> '\n"), 0o600))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("HISTFILE", "")
	p := onTerminal(t, 120, 24, bash, "--noprofile", "--rcfile", file, "-i")
	p.after(0, "ready> ")
	p.types("burnish clean h1_00\t")
	p.after(0, "burnish clean h1_0000:01:00.0 ")
	p.types("\x15exit\n")
}

// Each shell that is installed reads its script.
func TestShellsReadTheirScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			got := burnish(t, nil, "", "completion", shell)
			require.Equal(t, exitOK, got.code, got.errors)
			require.Contains(t, got.out, "__complete")
			file := filepath.Join(t.TempDir(), "script")
			require.NoError(t, os.WriteFile(file, []byte(got.out), 0o600))
			program, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("%s is not installed", shell)
			}
			output, err := exec.CommandContext(t.Context(), program, "-n", file).CombinedOutput()
			require.NoError(t, err, "%s", output)
			require.Empty(t, string(output))
		})
	}
}

// The command line knows no driver's code: its list is the workers' list.
func TestEveryDriverIsCompleted(t *testing.T) {
	require.Equal(t, drivers.Names(), driverNames)
}
