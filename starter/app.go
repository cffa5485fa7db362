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

// app is one invocation: its input, output and connection, and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// api is the address of the HTTP API; "": the requests go to Temporal. getenv reads its
	// token and certificates.
	api      string
	getenv   func(string) string
	dial     func(context.Context) (deviceClient, error)
	terminal func() bool // may a person be asked?
	// window gives the width of the terminal that the output goes to; nil if it goes elsewhere.
	// screen is that terminal, if it can be drawn on.
	window func() int
	screen *os.File
	now    func() time.Time
	pause  func(context.Context, time.Duration) error

	format  format
	timeout timeout
	color   colorMode

	writing sync.Mutex // one line at a time, from whichever device it comes
}

const rootUsage = `burnish: cleans passthrough devices between tenants

usage: burnish COMMAND [flags]

devices
  enroll    take devices into service: one by flags, or many from a file
  list      list devices
  show      show one device and the progress of its running step
  steps     list the steps of a device's full clean, in order
  history   list a device's bindings, cleans and acts
  watch     follow the running cleans
tenants
  bind      reserve a device and bind it to an instance
  unbind    end an instance's binding; the clean then starts by itself
  rebuild   rebuild an instance; it keeps its device, and nothing is cleaned
  instance  several devices of one instance, with their roles; its moves
operators
  provide   clean a manageable device and make it available
  clean     clean a device now: again after a failure, with named steps or a runbook
  abort     stop the running clean
  release-hold  go on with a clean that its runbook holds
  manage    take a device out of the pool
  maintain  put a device on hold, or release it
  retire    take a device out of service; it stays permanently reserved
  forget    delete a retired device's record
  power     switch a device on or off, or reset it
  override  return a device in state error without a clean, as two people decide (--api)
  resume    let the cleans of a model go on that wait for one step
  replace   accept new hardware in the device's slot
  move      record that the hardware is now in another slot
  import    enroll devices that another service already allocates
  oneview   the appliances whose servers are shared with other users
information
  validate  show what a clean would do on a device, or why it would not
  plan      show how devices would be erased: one by its id-ctrl data, or all
  doctor    check this machine and the server
  states    show the state tables
  spec      test whether a device_spec matches a PCI device
  udev-rules  in a guest: rules that mark its devices by their tags
  version   show this program's version

global flags
  -o, --output table|json|yaml   output format (table)
      --timeout DURATION         limit for each request (30s), and for the whole of
                                 --wait (no limit)
      --api URL                  send the requests to the HTTP API of a control worker, not to
                                 Temporal: https://HOST:PORT, http://HOST:PORT on this
                                 machine, or unix:/PATH
      --color auto|always|never  color (auto: on a terminal, unless NO_COLOR is set)
  -h, --help                     help for a command

environment
  TEMPORAL_ADDRESS (localhost:7233), TEMPORAL_NAMESPACE (default), TEMPORAL_TLS_…,
  TEMPORAL_API_KEY: as Temporal's own command line reads them
  BURNISH_API: as --api, which comes before it
  BURNISH_API_TOKEN, or OS_TOKEN: the token for the API; without one, Keystone gives it for
  OS_CLOUD or OS_AUTH_URL, OS_USERNAME, … as openstack reads them
  OS_CACERT, SSL_CERT_FILE: certificates that the API's is checked by

exit codes
  0 done, or nothing to do   1 refused or failed   2 wrong usage
  3 some devices failed      4 --wait or --timeout expired
  5 the server cannot be reached; what was sent may still be carried out, and the
    message says so

example:
  burnish enroll h1_0000:01:00.0 --host h1 --driver fake --provide
  burnish list --needs-operator
`

// run carries out one command line and returns the exit code. Every failure is
// printed here, once.
func (a *app) run(ctx context.Context, args []string) int {
	a.timeout = timeout{limit: defaultTimeout}
	a.format = formatTable
	a.color = colorAuto
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	f := asFailure(err)
	if isInterrupted(ctx) && errors.Is(err, context.Canceled) {
		f = interrupted("", "")
	}
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
	root.PersistentFlags().Var((*apiAddress)(&a.api), "api", "")
	root.PersistentFlags().Var(&a.color, "color", "")
	root.AddCommand(
		a.enrollCommand(), a.listCommand(), a.showCommand(), a.stepsCommand(),
		a.historyCommand(), a.watchCommand(),
		a.bindCommand(), a.unbindCommand(), a.rebuildCommand(), a.instanceCommand(),
		a.provideCommand(), a.cleanCommand(), a.abortCommand(), a.releaseHoldCommand(), a.manageCommand(),
		a.maintainCommand(), a.retireCommand(), a.forgetCommand(),
		a.powerCommand(), a.overrideCommand(), a.resumeCommand(), a.oneviewCommand(),
		a.replaceCommand(), a.moveCommand(), a.importCommand(),
		a.validateCommand(), a.planCommand(), a.specCommand(), a.udevRulesCommand(), a.doctorCommand(), a.statesCommand(), a.versionCommand(),
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
	l, err := a.dialed(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	return f(l)
}

// dialed connects, with its failure for the operator.
func (a *app) dialed(ctx context.Context) (deviceClient, error) {
	l, err := a.dial(ctx)
	if err == nil {
		return l, nil
	}
	f := a.explain(ctx, nil, "", err)
	if a.api != "" && f.code == device.CodeInvalid {
		f.exit = exitUsage
	}
	return nil, f
}

// apiAddress is the value of --api.
type apiAddress string

func (a *apiAddress) String() string { return string(*a) }

func (a *apiAddress) Type() string { return "url" }

func (a *apiAddress) Set(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	*a = apiAddress(text)
	return nil
}

// requestContext bounds one request.
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

// asFailure gives err as a failure for the operator.
func asFailure(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	if fault, ok := device.AsFault(err); ok {
		return &failure{exit: exitOf(fault.Code), code: fault.Code, message: fault.Message, remedy: fault.Remedy}
	}
	return &failure{exit: exitFailed, code: device.CodeInternal, message: err.Error()}
}

// print writes text to stdout.
func (a *app) print(text string) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	if _, err := io.WriteString(a.stdout, text); err != nil {
		return notWritten(err)
	}
	return nil
}

// readFile reads a file that the operator named; "-" is the standard input.
func (a *app) readFile(ctx context.Context, path string) ([]byte, error) {
	data, err := unlessEnded(ctx, func() ([]byte, error) {
		if path == "-" {
			return io.ReadAll(a.stdin)
		}
		return os.ReadFile(path)
	})
	switch {
	case isInterrupted(ctx):
		return nil, interrupted(nothingSent, "")
	case err != nil:
		return nil, usagef("the file cannot be read: %s", err)
	}
	return data, nil
}
