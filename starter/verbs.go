package main

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// manyDevices is what the help of each command on several devices says of them.
const manyDevices = `The devices are named, or chosen by flags as burnish list chooses them. A NAME may be a
pattern in quotes, such as 'h1_*'. With several devices it prints one line for each, and
--timeout is for each (30s). A failure does not stop the rest.`

// verbCommand is the command of a verb, while it is made and run. Most of it is the verb's own entry.
type verbCommand struct {
	verb contract.Verb
	cmd  *cobra.Command
	// in points to the verb's input.
	in any
	// domain is the file of --domain; "": there is none.
	domain string
	// words takes the arguments that are no names off, and gives the names; nil: all are names.
	words func(args []string) ([]string, error)
	// check completes the input when the flags are read, and the action where its words depend on it.
	check func(o *action) error
}

// verbCommands are the commands of the table of verbs: those for tenants, or the others.
func (a *app) verbCommands(tenants bool) (commands []*cobra.Command) {
	verbs := a.verbs
	if verbs == nil {
		verbs = contract.Verbs
	}
	for _, v := range verbs {
		if v.Command.Use != "" && v.Command.Tenants == tenants {
			commands = append(commands, a.verbCommand(v))
		}
	}
	return commands
}

// newVerbCommand is the command of a verb, which stands behind prefix, by what its entry says.
func newVerbCommand(prefix string, v contract.Verb) *verbCommand {
	says := v.Command
	c := &verbCommand{verb: v, in: reflect.New(reflect.TypeOf(v.Input)).Interface()}
	c.cmd = &cobra.Command{Use: v.Name + " " + says.Use, Short: v.About, Long: says.Long, Example: says.Example}
	if says.Form != "" {
		start := prefix + v.Name + " "
		c.cmd.Annotations = forms(start + strings.ReplaceAll(says.Form, "\n", "\n"+start))
	}
	return c
}

func (a *app) verbCommand(v contract.Verb) *cobra.Command {
	says := v.Command
	c := newVerbCommand("", v)
	flags := c.cmd.Flags()
	var chosen selection
	if says.Many {
		chosen.flags(flags)
		c.cmd.Long = strings.TrimPrefix(c.cmd.Long+"\n\n"+manyDevices, "\n\n")
	}
	a.extend(c)
	inputFlags(flags, c.in, says.Reason)
	var wait bool
	switch {
	case says.Waits:
		flags.BoolVar(&wait, "wait", false, "wait for the end of the clean, at most --timeout")
	case !says.Many:
		flags.BoolVar(&chosen.dryRun, "dry-run", false,
			"ask what would be done, or why not; nothing changes, and no host, inventory or appliance is asked")
	}
	c.cmd.Args = func(_ *cobra.Command, args []string) error { // it is checked before the flags of the input
		if says.Many || c.words != nil {
			return nil
		}
		return oneName("NAME")(c.cmd, args)
	}
	c.cmd.RunE = func(cmd *cobra.Command, names []string) error {
		var err error
		if c.words != nil {
			if names, err = c.words(names); err != nil {
				return err
			}
		}
		if says.Many {
			if names, err = chosen.names(cmd, names); err != nil {
				return err
			}
		}
		o := action{verb: v, does: says.Does, done: says.Done, wait: wait}
		if wait {
			o.done = cmp.Or(says.Waited, o.done)
		}
		if err := c.complete(&o); err != nil {
			return err
		}
		if !says.Many {
			if names, err = canonicalNames(names); err != nil {
				return err
			}
		}
		one := len(names) == 1 && len(chosen.globs) == 0
		if instance := flags.Lookup("instance"); instance != nil && instance.Changed && !one {
			return usagef("--instance goes with one NAME: each device has its own instance")
		}
		return a.actOnDevices(cmd.Context(), &chosen, names, o)
	}
	return c.cmd
}

// complete makes the input of what the flags say.
func (c *verbCommand) complete(o *action) error {
	reason := reflect.ValueOf(c.in).Elem().FieldByName("Reason")
	reason.SetString(strings.TrimSpace(reason.String()))
	if must := c.verb.Command.MustSay; must != "" && reason.String() == "" {
		return usagef("--reason is missing: %s", must)
	}
	if c.check != nil {
		if err := c.check(o); err != nil {
			return err
		}
	}
	given, _ := reflect.ValueOf(c.in).Elem().Interface().(contract.Input)
	in, err := contract.Normalize(given)
	if err != nil {
		return usagef("%s", err)
	}
	o.in = contract.CalledBy(in, operator())
	return nil
}

// inputFlags makes flags of the fields of an input: those that have the tag flag.
func inputFlags(flags *pflag.FlagSet, in any, reason string) {
	of := reflect.ValueOf(in).Elem()
	for _, f := range reflect.VisibleFields(of.Type()) {
		name := f.Tag.Get("flag")
		if name == "" {
			continue
		}
		usage := f.Tag.Get("help")
		if name == "reason" {
			usage = "TEXT: " + reason
		}
		switch value := of.FieldByIndex(f.Index).Addr().Interface().(type) {
		case *bool:
			flags.BoolVar(value, name, false, usage)
		case *string:
			kind, rest, _ := strings.Cut(usage, ": ")
			flags.StringVar(value, name, "", "`"+kind+"`: "+rest)
		}
	}
}

// flagsOf are the flags that inputFlags makes.
func flagsOf(in any) (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(in).Elem()) {
		if name := f.Tag.Get("flag"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// extend adds what a verb's entry does not say: arguments that are no names, and what its input is made
// of beside its flags.
func (a *app) extend(c *verbCommand) {
	flags := c.cmd.Flags()
	switch in := c.in.(type) {
	case *contract.BindInput:
		c.check = func(o *action) error {
			if err := tenant(&in.Instance); err != nil {
				return err
			}
			o.said = func(name string, r contract.Result) string {
				verb := o.done
				if r.Already {
					verb = "already " + verb
				}
				return fmt.Sprintf("%s: %s, binding %d of instance %s", name, verb, r.Binding, in.Instance)
			}
			return noneEmpty(flags, "tag")
		}
	case *contract.UnbindInput:
		c.check = func(*action) error { return tenant(&in.Instance) }
	case *contract.CleanInput:
		var asked cleanRequest
		asked.flags(flags)
		c.check = func(*action) error {
			made, err := asked.input(flags)
			made.Reason = in.Reason
			*in = made
			return err
		}
	case *contract.MaintenanceInput:
		c.check = func(o *action) error {
			switch {
			case in.Off && in.Reason != "":
				return usagef("--reason and --off exclude each other")
			case in.Off:
				o.does, o.done = "release", "released from hold"
			case in.Reason == "":
				return usagef("--reason is missing: say why the device is put on hold, or use --off")
			}
			return nil
		}
	case *contract.LabelInput:
		flags.BoolVar(&in.Overwrite, "overwrite", false, "give a label that a device has another value")
		c.words = func(args []string) ([]string, error) {
			isLabel := func(arg string) bool { return strings.Contains(arg, "=") || strings.HasSuffix(arg, "-") }
			first := slices.IndexFunc(args, isLabel)
			if first < 0 {
				return nil, usagef("a label is missing: give KEY=VALUE, or KEY- to remove it")
			}
			change, err := device.ParseLabelChange(args[first:])
			if err != nil {
				return nil, usagef("%s", err)
			}
			change.Overwrite = in.Overwrite
			in.LabelChange = change
			return args[:first], nil
		}
	case *contract.MoveInput:
		c.movesTo(in)
	case *contract.PowerInput:
		c.words = func(args []string) ([]string, error) {
			if len(args) != 2 {
				return nil, usagef("takes NAME and one of on, off, reset")
			}
			if in.Target = args[1]; !slices.Contains([]string{"on", "off", "reset"}, in.Target) {
				return nil, usagef("%q must be one of on, off, reset", in.Target)
			}
			return args[:1], nil
		}
	case *contract.OverrideInput:
		a.overrides(c, in)
	case *contract.InstanceBindInput:
		a.takesDevices(c, in)
	case *contract.InstanceMoveInput:
		c.movesInstance(in)
	case *contract.InstanceDetachInput:
		c.words = func(names []string) ([]string, error) {
			if in.Devices = names; len(names) == 0 {
				return nil, usagef("NAME is missing: name the devices to detach, or use burnish instance release for all")
			}
			return nil, nil
		}
	}
}

// movesTo reads the slot that the hardware is in now.
func (c *verbCommand) movesTo(in *contract.MoveInput) {
	to, flags := &in.Enrollment, c.cmd.Flags()
	var set []string
	flags.StringVar(&to.Host, "host", "", "`H`: the new host")
	flags.StringVar(&to.Driver, "driver", "", "`D`: the new driver")
	flags.StringVar(&to.Address, "address", "", "`A`: the new PCI address")
	flags.StringArrayVar(&set, "set", nil, "`K=V[,K=V…]`: settings that differ in the new slot, such as path")
	c.words = func(args []string) ([]string, error) {
		if len(args) != 2 {
			return nil, usagef("takes OLD and NEW, not %d names", len(args))
		}
		var err error
		to.Name, err = canonical(args[1])
		return args[:1], err
	}
	c.check = func(*action) (err error) {
		if to.Settings, err = settings(set); err != nil {
			return usagef("%s", err)
		}
		if _, owned := to.Settings[settingOwner]; owned {
			return usagef("--set %s: a device keeps its owner when it moves", settingOwner)
		}
		return nil
	}
}

// overrides reads one of the two acts of an override.
func (a *app) overrides(c *verbCommand, in *contract.OverrideInput) {
	expires, flags := time.Hour, c.cmd.Flags()
	flags.DurationVar(&expires, "expires", expires, "`DURATION`: how long it may be approved, at most 24h")
	c.check = func(o *action) error {
		in.Approve = strings.TrimSpace(in.Approve)
		switch {
		case a.api == "":
			return usagef("an override goes through the HTTP API, which knows who asks: give --api URL, or set %s",
				config.VarAPI)
		case in.Approve != "" && (in.Reason != "" || flags.Changed("expires")):
			return usagef("--approve takes neither --reason nor --expires: those of the request count")
		case in.Approve != "":
		case in.Reason == "":
			return usagef("--reason is missing, or --approve")
		case expires <= 0 || expires > contract.MaxOverride:
			return usagef("--expires must be positive, and at most 24h")
		default:
			in.ExpiresAt, o.done = a.now().Add(expires).UTC().Truncate(time.Second), "override requested"
		}
		return nil
	}
}

// instanceID checks an instance's UUID: the form that Nova writes, in lower case.
func instanceID(given string) (string, error) {
	id, ok := standardUUID(given)
	if !ok {
		f := usagef("%q is not a valid UUID of an instance", given)
		f.remedy = "give 36 characters, such as 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"
		return "", f
	}
	return id, nil
}

// tenant reads the flag --instance.
func tenant(given *string) (err error) {
	if *given == "" {
		return usagef("--instance is missing")
	}
	*given, err = instanceID(*given)
	return err
}
