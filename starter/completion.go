package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"burnish/internal/clean/steps"
	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// completionCommand prints a shell's completion script.
func (a *app) completionCommand() *cobra.Command {
	shells := []string{"bash", "fish", "zsh"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "print a script by which a shell completes commands, names and values",
		Long: `SHELL is bash, zsh or fish. Names of devices, their hosts, models and faults, and the
steps of one device come from the server; one that takes longer than a second is not
waited for. bash needs the package bash-completion.

  bash  burnish completion bash > ~/.local/share/bash-completion/completions/burnish
  zsh   burnish completion zsh > "${fpath[1]}/_burnish"
  fish  burnish completion fish > ~/.config/fish/completions/burnish.fish`,
		Example:   "  burnish completion bash > ~/.local/share/bash-completion/completions/burnish",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("takes one SHELL: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			script, err := completionScript(cmd.Root(), args[0])
			if err != nil {
				return err
			}
			return a.print(script)
		},
	}
}

// completionScript gives the script of one shell.
func completionScript(root *cobra.Command, shell string) (string, error) {
	var b bytes.Buffer
	var err error
	switch shell {
	case "zsh":
		err = root.GenZshCompletion(&b)
	case "fish":
		err = root.GenFishCompletion(&b, true)
	default:
		err = root.GenBashCompletionV2(&b, true)
	}
	return b.String(), err
}

// completer gives the values of arguments and flags.
type completer struct {
	*app
	ctx context.Context
}

// driverNames are the drivers of workers.
var driverNames = []string{"block", "fake", "nvme", "pci", "redfish", "script"}

// addCompletion gives each command below root the values of its arguments and flags.
func (a *app) addCompletion(root *cobra.Command) {
	eachCommand(root, func(cmd *cobra.Command) {
		if cmd.ValidArgsFunction == nil && len(cmd.ValidArgs) == 0 && !cmd.HasSubCommands() {
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				return offered(completer{a, cmd.Context()}.arguments(cmd, args), typed), cobra.ShellCompDirectiveNoFileComp
			}
		}
		complete := func(f *pflag.Flag) {
			if value, _ := pflag.UnquoteUsage(f); value == "FILE" {
				return // the shell's own completion of files
			}
			// It fails only for a flag that has one already, which then counts.
			_ = cmd.RegisterFlagCompletionFunc(f.Name,
				func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
					return completer{a, cmd.Context()}.flag(cmd, f, args, typed)
				})
		}
		cmd.LocalFlags().VisitAll(complete)
	})
}

// arguments gives the values of a command's next argument, by its usage line.
func (c completer) arguments(cmd *cobra.Command, given []string) []string {
	form := strings.Fields(cmd.Use)[1:]
	if len(form) == 0 {
		return nil
	}
	next := form[min(len(given), len(form)-1)]
	repeated := strings.HasSuffix(next, "…") || strings.HasSuffix(next, "…]")
	switch next = strings.Trim(next, "[]…"); {
	case len(given) >= len(form) && !repeated:
		return nil
	case strings.HasPrefix(next, "NAME"), next == "OLD":
		return c.names(cmd.Name(), given)
	case next == "UUID":
		return c.values(func(d contract.DeviceStatus) string { return deref(d.InstanceUUID) })
	case strings.Contains(next, "|") && strings.ToLower(next) == next:
		return strings.Split(next, "|")
	}
	return nil
}

// names are the devices that a command can be meant for, each with its state and host.
func (c completer) names(command string, given []string) []string {
	var names []string
	for _, d := range c.fleet() {
		retired := d.DeviceState == device.Retired
		switch {
		case slices.Contains(given, d.Name):
		case command == "forget" && !retired:
		case retired && !slices.Contains([]string{"forget", "show", "history", "replace", "events"}, command):
		default:
			names = append(names, described(d.Name, string(d.DeviceState)+" on "+d.Hostname))
		}
	}
	return names
}

// flag gives the values of a flag. Where it takes several, they may stand behind commas.
func (c completer) flag(cmd *cobra.Command, f *pflag.Flag, args []string,
	typed string) ([]string, cobra.ShellCompDirective) {
	values := c.flagValues(cmd, f.Name, args)
	kind := f.Value.Type()
	if cut := strings.LastIndexByte(typed, ',') + 1; cut > 0 && strings.HasSuffix(kind, "Slice") {
		before := strings.Split(typed[:cut-1], ",")
		values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return slices.Contains(before, plain(v)) })
		for i, v := range values {
			values[i] = typed[:cut] + v
		}
	}
	return offered(values, typed), cobra.ShellCompDirectiveNoFileComp
}

// offered are the values that begin as typed.
func offered(values []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(values), func(v string) bool { return !strings.HasPrefix(v, typed) })
}

// flagValues gives the values of the flag with this name.
func (c completer) flagValues(cmd *cobra.Command, name string, args []string) []string {
	switch name {
	case "state":
		return words(device.States())
	case "host", "to":
		return c.values(func(d contract.DeviceStatus) string { return d.Hostname })
	case "type":
		return c.values(func(d contract.DeviceStatus) string { return d.Type })
	case "model":
		return c.values(func(d contract.DeviceStatus) string { return d.Model })
	case "fault":
		return c.values(func(d contract.DeviceStatus) string { return d.Fault })
	case "instance":
		return c.values(func(d contract.DeviceStatus) string { return deref(d.InstanceUUID) })
	case "device":
		return c.names(cmd.Name(), nil)
	case "step", "steps":
		return c.steps(args)
	case "runbook":
		return c.runbooks()
	case "driver":
		return driverNames
	case "output":
		return []string{"table", "json", "yaml"}
	case "color":
		return []string{"auto", "always", "never"}
	case "action":
		return []string{"auto", "sanitize", "zero"}
	case "strategy":
		return []string{"auto", "crypto", "block"}
	case "from":
		value, _ := pflag.UnquoteUsage(cmd.Flag(name))
		return []string{value}
	}
	return nil
}

// values are the different values that the fleet's devices have.
func (c completer) values(of func(contract.DeviceStatus) string) []string {
	all := mapped(c.fleet(), of)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(v string) bool { return !completable(v) })
}

// steps are the steps of the named devices' full cleans; without a name, all there are.
func (c completer) steps(names []string) []string {
	var all []string
	for _, name := range names {
		name, err := canonical(name)
		if err != nil {
			continue
		}
		for _, step := range asked(c, func(ctx context.Context, l deviceClient) ([]string, error) {
			v, err := l.Query(ctx, name)
			return mapped(v.Steps, func(s contract.CleanStep) string { return s.Step }), err
		}) {
			if completable(step) && !slices.Contains(all, step) {
				all = append(all, step)
			}
		}
	}
	if len(names) == 0 {
		for _, s := range steps.All() {
			all = append(all, s.Name)
		}
	}
	return all
}

// runbooks are those of the policy, where this machine has the file.
func (c completer) runbooks() []string {
	var names []string
	if file := c.getenv("BURNISH_POLICY"); file != "" {
		policy, err := config.LoadPolicy(file)
		if err != nil {
			return nil
		}
		for _, r := range policy.Runbooks {
			names = append(names, r.Name)
		}
	}
	return names
}

// fleet is what is known of all devices.
func (c completer) fleet() []contract.DeviceStatus {
	return asked(c, func(ctx context.Context, l deviceClient) ([]contract.DeviceStatus, error) {
		f := filter{all: true}
		found, err := l.List(ctx, f.query())
		// What does not have the form of a name is not one, and a shell would read it.
		return slices.DeleteFunc(f.keep(found), func(v contract.DeviceStatus) bool {
			name, err := device.CanonicalName(v.Name)
			return err != nil || name != v.Name
		}), err
	})
}

// completionLimit is how long a shell waits for an answer.
const completionLimit = time.Second

// asked gives the answer to a question; nothing where there is none in time.
func asked[T any](c completer, question func(context.Context, deviceClient) ([]T, error)) []T {
	ctx, cancel := context.WithTimeout(c.ctx, completionLimit)
	defer cancel()
	answer, err := unlessEnded(ctx, func() (answer []T, err error) {
		l, err := c.dial(ctx)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		return question(ctx, l)
	})
	if err != nil { // which a shell has no place for
		return nil
	}
	return answer
}

// described is a value with what a shell shows beside it.
func described(value, text string) string {
	return value + "\t" + oneLine(text)
}

// plain is a value without its description.
func plain(value string) string {
	value, _, _ = strings.Cut(value, "\t")
	return value
}

// completable says whether a shell may be given a value: what devices say of themselves may
// hold anything.
func completable(value string) bool {
	return value != "" && !strings.ContainsFunc(value, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" ._:@/+-()", r)
	})
}
