package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// parallelism bounds the requests that run at once.
const parallelism = 8

// outcome is the result of a command for one of several devices.
type outcome struct {
	Name    string     `json:"name"`
	OK      bool       `json:"ok"`
	Message string     `json:"message,omitempty"`
	Error   *errorBody `json:"error,omitempty"`
	// DryRun is the answer to --dry-run.
	DryRun *contract.DryRun `json:"dry_run,omitempty"`
	// Migration is the report of `oneview migrate`.
	Migration *migration `json:"migration,omitempty"`

	failure *failure
}

func done(name, message string) outcome {
	return outcome{Name: name, OK: true, Message: message}
}

func failed(command, name string, err error) outcome {
	f := *asFailure(err)
	f.command, f.device = command, name
	return outcome{Name: name, Error: f.body(), failure: &f}
}

// outcomeOf is what a command was for a device: done, as line says, or failed.
func outcomeOf(command, name, line string, err error) outcome {
	if err != nil {
		return failed(command, name, err)
	}
	return done(name, line)
}

// forEachDevice calls do n times, at most width at once, and prints each outcome as it
// comes, or in the order of the devices: one line a device. A failure does not stop the rest.
// The error says how many failed.
func (a *app) forEachDevice(n, width int, inOrder bool, do func(i int) outcome) error {
	var (
		mu      sync.Mutex
		all     = make([]outcome, n)
		waiting = map[int]bool{} // there, and not printed
		next    int              // the first one that was not printed
		torn    error            // a line could not be written
	)
	parallel(n, width, func(i int) {
		o := do(i)
		mu.Lock()
		defer mu.Unlock()
		if all[i], waiting[i] = o, true; !inOrder {
			next = i
		}
		for ; waiting[next]; next++ {
			delete(waiting, next)
			torn = cmp.Or(torn, a.printOutcome(all[next]))
		}
	})
	if a.format != formatTable {
		torn = encode(a.stdout, a.format, indented, map[string][]outcome{"devices": all})
	}
	return cmp.Or(torn, summary(all))
}

// parallel calls do for each of n, at most width at once, and returns after the last.
func parallel(n, width int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(width)
	for i := range n {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // none fails
}

// printOutcome prints one outcome for people.
func (a *app) printOutcome(o outcome) error {
	switch {
	case a.format != formatTable:
		return nil
	case o.OK:
		return a.print(o.Message + "\n")
	case o.failure.notAsked:
		return nil // the summary counts them
	}
	a.report(o.failure)
	return nil
}

// summary is the error of several outcomes: nil when all went well.
func summary(all []outcome) error {
	var failures []*failure
	for _, o := range all {
		if !o.OK {
			failures = append(failures, o.failure)
		}
	}
	if len(failures) == 0 {
		return nil
	}
	if slices.ContainsFunc(failures, func(g *failure) bool { return g.exit == exitInterrupted }) {
		return summaryOfInterrupted(all, failures)
	}
	f := &failure{
		exit: exitPartly, code: failures[0].code,
		message: fmt.Sprintf("%d of %d devices failed", len(failures), len(all)),
		remedy:  "follow the advice on each line",
	}
	if len(failures) == len(all) {
		f.exit = exitFailed
	}
	if !slices.ContainsFunc(failures, func(g *failure) bool {
		return g.exit != exitTimeout && g.exit != exitUnreachable
	}) {
		f.exit = slices.MaxFunc(failures, func(a, b *failure) int { return a.exit - b.exit }).exit
	}
	if slices.ContainsFunc(failures, func(g *failure) bool { return g.code != f.code }) {
		f.code = device.CodeRefused
	}
	return f
}

// summaryOfInterrupted says how far a command came that was interrupted.
func summaryOfInterrupted(all []outcome, failures []*failure) *failure {
	left := 0
	for _, f := range failures {
		if f.notAsked {
			left++
		}
	}
	what := fmt.Sprintf("%d of %d devices are done", len(all)-len(failures), len(all))
	if left > 0 {
		what += fmt.Sprintf(", %d were not asked", left)
	}
	return interrupted(what, "")
}

// selection is the devices that a command acts on: names, or selectors.
type selection struct {
	filter
	dryRun, yes bool
}

func (c *selection) flags(flags *pflag.FlagSet) {
	c.selectors(flags)
	flags.BoolVar(&c.dryRun, "dry-run", false, "ask what would be done to each device, or why not; nothing changes, "+
		"and no host, inventory or appliance is asked")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask. Without it a question lists the devices: of a command that "+
		"may erase, retire or end a binding whenever a filter chose them, of any above 10 devices")
}

// names reads the devices' names. Patterns of names go into the filter; without any argument
// a selector must be given.
func (c *selection) names(cmd *cobra.Command, args []string) ([]string, error) {
	var plain []string
	for _, arg := range args {
		if !isGlob(arg) {
			plain = append(plain, arg)
		} else if err := c.setNames([]string{arg}); err != nil {
			return nil, err
		}
	}
	names, err := canonicalNames(plain)
	if err != nil {
		return nil, err
	}
	switch by := selected(cmd.Flags()); {
	case by && len(names) > 0:
		return nil, usagef("NAMEs and --%s exclude each other", strings.Join(selectorNames, "/--"))
	case !by && len(args) == 0:
		return nil, usagef("NAME is missing: name devices, or select them by --%s", strings.Join(selectorNames, ", --"))
	}
	return names, c.check(cmd.Flags())
}
