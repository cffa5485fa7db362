package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/device"
)

// app is one invocation: what it was given to talk to, and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	dial           func(context.Context) (deviceClient, error)
	terminal       func() bool // may a person be asked?
	live           func() bool // is the output a terminal that can be drawn on?
	now            func() time.Time
	pause          func(context.Context, time.Duration) error

	format  format
	timeout timeout

	writing sync.Mutex // one line at a time, from whichever device it comes
}

const rootUsage = `burnish: passthrough devices from one tenant to the next, burned, cleaned, returned

usage: burnish COMMAND [flags]

devices
  enroll    take devices into service, one by flags or many from a file
  list      all devices, or those that a filter names
  show      one device, with the running step's progress
  steps     the steps of a device's clean, in order
  history   a device's past: its tenancies and its cleans
  watch     the devices that are being cleaned, as it goes on
tenants
  bind      burn a device and give it to an instance
  unbind    end an instance's tenancy; the clean begins by itself
  rebuild   the instance keeps its device; nothing is cleaned
operators
  provide   hand a manageable device to the pool, by way of a clean
  clean     clean a device now: again after a failure, or by named steps
  abort     end the running clean
  manage    take a device out of the pool
  maintain  hold a device back, or let it go again
  retire    out of service, permanently reserved
  forget    end a retired device's record
  replace   another piece of hardware took the device's place
  move      the device's piece of hardware has another place now
  import    take over devices that another service gives out
about
  plan      how devices would be erased: one from its id-ctrl, or the fleet
  doctor    what is missing or wrong on this machine
  machine   the states of a device, and what leads from one to the next
  spec      whether a device_spec matches a PCI device
  version   this program's version

global flags
  -o, --output table|json|yaml   form of the output (table)
      --timeout DURATION         limit of a single request, and of all of --wait
                                 (30s; without --timeout, --wait has no limit)
  -h, --help                     the usage of a command

environment
  TEMPORAL_ADDRESS (localhost:7233), TEMPORAL_NAMESPACE (default), TEMPORAL_TLS_…,
  TEMPORAL_API_KEY: as Temporal's own command line reads them

exit codes
  0 done, also when it was so already   1 refused or failed   2 wrong usage
  3 some of many failed                 4 --wait or --timeout ran out

example:
  burnish enroll h1_0000:01:00.0 --host h1 --driver fake --provide
  burnish list --needs-operator
`

// run carries out one command line and returns the exit code. Whatever fails is
// told once, here.
func (a *app) run(ctx context.Context, args []string) int {
	a.timeout = timeout{limit: defaultTimeout}
	a.format = formatTable
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	f := asFailure(err)
	if f.command == "" {
		f.command = strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), root.Name()), " ")
	}
	if f.exit == exitUsage && f.remedy == "" {
		f.remedy = "see " + strings.TrimSpace(root.Name()+" "+f.command) + " --help"
	}
	if f.exit == exitUsage {
		// A flag that cannot be read hides the ones after it.
		a.format = formatOf(args, a.format)
	}
	a.report(f)
	return f.exit
}

// root builds the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "burnish",
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("a command is needed")
			}
			f := usagef("unknown command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				f.remedy = fmt.Sprintf("did you mean %s? see burnish --help", strings.Join(near, " or "))
			}
			return f
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usagef("%s", err) })
	usage := func(cmd *cobra.Command) string {
		if cmd == root || cmd.Long == "" { // help has no usage of its own
			return rootUsage
		}
		return cmd.Long
	}
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(a.stdout, usage(cmd)) })
	root.PersistentFlags().VarP(&a.format, "output", "o", "")
	root.PersistentFlags().Var(&a.timeout, "timeout", "")
	root.AddCommand(
		a.enrollCommand(), a.listCommand(), a.showCommand(), a.stepsCommand(),
		a.historyCommand(), a.watchCommand(),
		a.bindCommand(), a.unbindCommand(), a.rebuildCommand(),
		a.provideCommand(), a.cleanCommand(), a.abortCommand(), a.manageCommand(),
		a.maintainCommand(), a.retireCommand(), a.forgetCommand(),
		a.replaceCommand(), a.moveCommand(), a.importCommand(),
		a.planCommand(), a.specCommand(), a.doctorCommand(), a.machineCommand(), a.versionCommand(),
	)
	root.SetHelpCommand(a.helpCommand(root, usage))
	return root
}

// helpCommand is `burnish help COMMAND`.
func (a *app) helpCommand(root *cobra.Command, usage func(*cobra.Command) string) *cobra.Command {
	return &cobra.Command{
		Use:    "help",
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("unknown command %q", strings.Join(args, " "))
			}
			return a.print(usage(cmd))
		},
	}
}

// devices is a connection for the time of f.
func (a *app) devices(ctx context.Context, f func(deviceClient) error) error {
	l, err := a.dial(ctx)
	if err != nil {
		return a.explain(ctx, nil, "", err)
	}
	defer l.close()
	return f(l)
}

// request bounds one request.
func (a *app) requestContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.timeout.limit)
}

// noArgs refuses arguments.
func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("takes no argument, not %q", args[0])
	}
	return nil
}

// oneName wants exactly one argument, called what.
func oneName(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return usagef("%s is missing", what)
		case len(args) > 1:
			return usagef("takes one %s, not %d", what, len(args))
		}
		return nil
	}
}

// canonical gives the one spelling of a NAME that was typed.
func canonical(name string) (string, error) {
	c, err := device.CanonicalName(name)
	if err != nil {
		return "", usagef("%s", err)
	}
	return c, nil
}

// asFailure gives err as what is told to the operator.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if fault, ok := device.AsFault(err); ok {
		return &failure{exit: exitFailed, code: fault.Code, message: fault.Message, remedy: fault.Remedy}
	}
	return &failure{exit: exitFailed, code: device.CodeInternal, message: err.Error()}
}

// print writes text to stdout.
func (a *app) print(text string) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return &failure{exit: exitFailed, code: device.CodeIO, message: "the output cannot be written: " + err.Error()}
	}
	return nil
}

// readFile reads a file that the operator named; "-" is the standard input.
func (a *app) readFile(path string) ([]byte, error) {
	var (
		data []byte
		err  error
	)
	if path == "-" {
		data, err = io.ReadAll(a.stdin)
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, usagef("the file cannot be read: %s", err)
	}
	return data, nil
}
