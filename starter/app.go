package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"burnish/internal/device"
	"burnish/workflows/contract"
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

	// verbs are what may be asked of devices; nil: contract.Verbs.
	verbs []contract.Verb

	format format
	color  colorMode
	// timeout is --timeout.
	timeout struct {
		limit time.Duration
		given bool
	}

	writing sync.Mutex // one line at a time, from whichever device it comes
}

// run carries out one command line and returns the exit code. Every failure is
// printed here, once.
func (a *app) run(ctx context.Context, args []string) int {
	a.timeout.limit, a.timeout.given, a.format, a.color = defaultTimeout, false, formatTable, colorAuto
	root := a.root()
	root.SetArgs(args)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		a.addCompletion(root)
	}
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
		Use:   "burnish COMMAND",
		Short: "cleans passthrough devices between tenants",
		Long: `environment
  TEMPORAL_ADDRESS (localhost:7233), TEMPORAL_NAMESPACE (default), TEMPORAL_TLS_…,
  TEMPORAL_API_KEY: as Temporal's own command line reads them
  BURNISH_CODEC_KEYS: the file of keys of the workers, if they encrypt
  BURNISH_API: as --api, which comes before it
  BURNISH_API_TOKEN, or OS_TOKEN: the token for the API; without one, Keystone gives it for
  OS_CLOUD or OS_AUTH_URL, OS_USERNAME, … as openstack reads them
  OS_CACERT, SSL_CERT_FILE: certificates that the API's is checked by

exit codes
  0 done, or nothing to do   1 refused or failed   2 wrong usage
  3 some devices failed      4 --wait or --timeout expired
  5 the server cannot be reached; what was sent may still be carried out, and the
    message says so
  130 interrupted; what was sent may still be carried out`,
		Example: `  burnish enroll h1_0000:01:00.0 --host h1 --driver fake --provide
  burnish list --needs-operator`,
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
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { fmt.Fprint(a.stdout, helpText(cmd)) })
	flags := root.PersistentFlags()
	flags.SortFlags = false
	setFormat := func(text string) error { return oneOf(&a.format, text, formats) }
	funcFlag(flags, "output", "o", string(a.format), "`FORMAT`: table, json or yaml", setFormat)
	funcFlag(flags, "timeout", "", a.timeout.limit.String(),
		"`DURATION`: limit for each request; given with --wait or watch, for the whole", a.setTimeout)
	funcFlag(flags, "api", "", a.api, "`URL`: the HTTP API of a control worker, which gets the requests in place of "+
		"Temporal: https://HOST:PORT, http://HOST:PORT on this machine, or unix:/PATH", a.setAPI)
	setColor := func(text string) error { return oneOf(&a.color, text, colorModes) }
	funcFlag(flags, "color", "", string(a.color),
		"`WHEN`: auto, always or never; auto is on a terminal, unless NO_COLOR is set", setColor)
	a.addCommands(root)
	root.Version = version
	root.SetVersionTemplate(versionText())
	root.InitDefaultVersionFlag()
	root.Flags().Lookup("version").Usage = "show this program's version"
	eachCommand(root, func(cmd *cobra.Command) {
		noteNoDryRun(cmd)
		cmd.Flags().SortFlags = false
		cmd.InitDefaultHelpFlag()
		cmd.Flags().Lookup("help").Usage = "help for the command"
	})
	return root
}

// addCommands adds the commands, in their groups.
func (a *app) addCommands(root *cobra.Command) {
	for _, group := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{groupDevices, []*cobra.Command{
			a.enrollCommand(), a.listCommand(), a.showCommand(), a.stepsCommand(), a.historyCommand(), a.watchCommand(),
			a.topCommand(), a.eventsCommand(),
		}},
		{groupTenants, append(a.verbCommands(true), a.instanceCommand())},
		{groupOperators, append(a.verbCommands(false), a.resumeCommand(), a.exportCommand(), a.importCommand(),
			a.oneviewCommand(), a.upgradeCommand())},
		{groupInformation, []*cobra.Command{
			a.validateCommand(), a.planCommand(), a.doctorCommand(), a.statesCommand(), a.specCommand(),
			a.udevRulesCommand(), a.codecServerCommand(), a.completionCommand(), a.manCommand(), a.versionCommand(),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.id})
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommand(a.helpCommand())
	root.InitDefaultHelpCmd()
}

// eachCommand calls f for cmd and for all commands below it.
func eachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		eachCommand(c, f)
	}
}

// defaultTimeout is the default limit of a request.
const defaultTimeout = 30 * time.Second

func (a *app) setTimeout(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return errors.New("must be a duration such as 30s or 5m")
	case d <= 0:
		return errors.New("must be more than zero")
	}
	a.timeout.limit, a.timeout.given = d, true
	return nil
}

func (a *app) setAPI(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	a.api = text
	return nil
}

// funcFlag adds a flag whose values a function takes; its default is the help's alone.
func funcFlag(flags *pflag.FlagSet, name, short, standard, usage string, set func(string) error) {
	flags.FuncP(name, short, usage, set)
	flags.Lookup(name).DefValue = standard
}

// oneOf takes one of several words.
func oneOf[T ~string](to *T, text string, words []T) error {
	if !slices.Contains(words, T(text)) {
		return errors.New("must be one of " + join(words))
	}
	*to = T(text)
	return nil
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
	if f.exit == exitTimeout {
		server, choose := a.server()
		f = failf(device.CodeUnreachable, choose, "%s does not answer: no answer within %s", server, a.timeout.limit)
	}
	if f.code == device.CodeInvalidSetting || a.api != "" && f.code == device.CodeInvalid {
		f.exit = exitUsage
	}
	return nil, f
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
		if len(args) == 0 {
			return usagef("%s is missing", what)
		}
		return atMostOne(what)(nil, args)
	}
}

// atMostOne takes one argument, called what, or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef("takes one %s, not %d", what, len(args))
		}
		return nil
	}
}

// firstGiven is the first of these flags that was given; "": none was.
func firstGiven(flags *pflag.FlagSet, names ...string) string {
	for _, name := range names {
		if flags.Changed(name) {
			return name
		}
	}
	return ""
}

// canonical gives the one spelling of a NAME that was typed.
func canonical(name string) (string, error) {
	c, err := device.CanonicalName(name)
	if err != nil {
		return "", usagef("%s", err)
	}
	return c, nil
}

// canonicalNames are NAMEs that were typed, each once.
func canonicalNames(args []string) (names []string, err error) {
	for _, arg := range args {
		name, err := canonical(arg)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
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
