package main

import (
	"context"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"burnish/workflows/contract"
)

// manyDevices is what the help of each command on several devices says of them.
const manyDevices = `The devices are named, or chosen by flags as burnish list chooses them. A NAME may be a
pattern in quotes, such as 'h1_*'. With several devices it prints one line for each, and
--timeout is for each (30s). A failure does not stop the rest.`

// onHold is the result of maintain, which does not change the state.
const onHold = "on hold"

// action is what a command sends to each of its devices.
type action struct {
	verb string // what would be done
	done string // what was done
	send func(context.Context, deviceClient, string) (contract.Result, error)
	wait bool
	// oneOnly: it names an instance, which has one device.
	oneOnly bool
}

func (a *app) provideCommand() *cobra.Command {
	var in contract.ReasonInput
	var wait bool
	cmd := a.actCommand(&cobra.Command{
		Use:     "provide NAME…",
		Short:   "clean a manageable device and make it available",
		Example: "  burnish provide h1_0000:01:00.0 --wait --timeout 20m",
	}, func() (action, error) {
		in.Caller = operator()
		return action{verb: "provide", done: "provided", send: request(deviceClient.Provide, in), wait: wait}, nil
	})
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the device")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end of the clean, at most --timeout")
	return cmd
}

func (a *app) cleanCommand() *cobra.Command {
	var (
		c      cleanRequest
		reason string
		wait   bool
		cmd    *cobra.Command
	)
	cmd = a.actCommand(&cobra.Command{
		Use:   "clean NAME…",
		Short: "clean a device now: again after a failure, with named steps or a runbook",
		Long: `In state error: repeats the whole clean. In state manageable: runs named steps or a
runbook; they never clear the dirty flag. In state pending_cleaning while automated
cleaning is off: starts the clean.`,
		Example: `  burnish clean --state error --host h1 --dry-run
  burnish clean h1_0000:01:00.0 --wait
  burnish clean node1 --steps bios_apply --arg BootMode=Uefi`,
	}, func() (action, error) {
		in, err := c.input(cmd.Flags())
		if err != nil {
			return action{}, err
		}
		in.Reason, in.Caller = reason, operator()
		past := "clean requested"
		if wait {
			past = "cleaned"
		}
		return action{verb: "clean", done: past, send: request(deviceClient.Clean, in), wait: wait}, nil
	})
	c.flags(cmd.Flags())
	reasonFlag(cmd, &reason, "`TEXT`: why; kept with the clean")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end of the clean, at most --timeout")
	return cmd
}

func (a *app) releaseHoldCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := a.actCommand(&cobra.Command{
		Use:     "release-hold NAME…",
		Short:   "go on with a clean that its runbook holds",
		Example: `  burnish release-hold node1 --reason "asset tag set"`,
	}, func() (action, error) {
		in.Caller = operator()
		return action{verb: "release", done: "released", send: request(deviceClient.ReleaseHold, in)}, nil
	})
	reasonFlag(cmd, &in.Reason, "`TEXT`: what was done; kept with the clean")
	return cmd
}

func (a *app) abortCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := a.actCommand(&cobra.Command{
		Use:     "abort NAME…",
		Short:   "stop the running clean; the device goes to state error",
		Example: "  burnish abort h1_0000:01:00.0",
	}, func() (action, error) {
		in.Caller = operator()
		return action{verb: "abort", done: "abort requested", send: request(deviceClient.Abort, in)}, nil
	})
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the clean")
	return cmd
}

func (a *app) manageCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := a.actCommand(&cobra.Command{
		Use:     "manage NAME…",
		Short:   "take a device out of the pool",
		Example: "  burnish manage h1_0000:01:00.0",
	}, func() (action, error) {
		in.Caller = operator()
		return action{verb: "manage", done: "taken out of the pool", send: request(deviceClient.Manage, in), oneOnly: in.Instance != ""}, nil
	})
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the device")
	cmd.Flags().StringVar(&in.Instance, "instance", "", "`UUID`: the instance that has the device, whose binding this ends")
	return cmd
}

func (a *app) maintainCommand() *cobra.Command {
	var in contract.MaintainInput
	cmd := a.actCommand(&cobra.Command{
		Use:         "maintain NAME… --reason R",
		Annotations: forms("maintain NAME… --off"),
		Short:       "put a device on hold for new tenants, or release it",
		Example:     `  burnish maintain --host h1 --reason "kernel upgrade" --yes`,
	}, func() (action, error) {
		in.Reason, in.Caller = strings.TrimSpace(in.Reason), operator()
		switch {
		case in.Off && in.Reason != "":
			return action{}, usagef("--reason and --off exclude each other")
		case in.Off:
			return action{verb: "release", done: "released from hold", send: request(deviceClient.Maintain, in)}, nil
		case in.Reason == "":
			return action{}, usagef("--reason is missing: say why the device is put on hold, or use --off")
		}
		return action{verb: "hold", done: onHold, send: request(deviceClient.Maintain, in)}, nil
	})
	reasonFlag(cmd, &in.Reason, "`TEXT`: why it is put on hold")
	cmd.Flags().BoolVar(&in.Off, "off", false, "release it")
	return cmd
}

func (a *app) retireCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := a.actCommand(&cobra.Command{
		Use:     "retire NAME… --reason R",
		Short:   "take a device out of service; it stays permanently reserved",
		Example: `  burnish retire h1_0000:01:00.0 --reason "worn out"`,
	}, func() (action, error) {
		if in.Reason = strings.TrimSpace(in.Reason); in.Reason == "" {
			return action{}, usagef("--reason is missing: a retired device stays permanently reserved")
		}
		in.Caller = operator()
		return action{verb: "retire", done: "retired", send: request(deviceClient.Retire, in), oneOnly: in.Instance != ""}, nil
	})
	cmd.Flags().StringVar(&in.Instance, "instance", "", "`UUID`: the instance that has the device, whose binding this ends")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the device")
	cmd.Flags().BoolVar(&in.Lost, "lost", false, "the hardware is gone; do not contact its host")
	return cmd
}

func (a *app) forgetCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := &cobra.Command{
		Use:     "forget NAME",
		Short:   "delete a retired device's record",
		Long:    "Its history goes with it. The hardware can then be enrolled again, as a new device.",
		Example: "  burnish forget h1_0000:01:00.0",
		Args:    oneName("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Caller = operator()
			return a.actOnNamed(cmd, args[0], action{verb: "forget", done: "forgotten", send: request(deviceClient.Forget, in)})
		},
	}
	cmd.Flags().StringVar(&in.Instance, "instance", "", "`UUID`: the instance that still has the device by the inventory's record")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the device")
	dryRunFlag(cmd)
	return cmd
}

// reasonFlag adds the flag by which an operator says why.
func reasonFlag(cmd *cobra.Command, reason *string, usage string) {
	cmd.Flags().StringVar(reason, "reason", "", usage)
}

// operator says who runs this command, for the device's history.
func operator() contract.Caller {
	who, err := user.Current()
	if err != nil {
		return contract.Caller{}
	}
	host, err := os.Hostname()
	if err != nil {
		return contract.Caller{By: who.Username}
	}
	return contract.Caller{By: who.Username + "@" + host}
}

// actCommand makes cmd a command on one or several devices; read gives its action after the
// flags are parsed.
func (a *app) actCommand(cmd *cobra.Command, read func() (action, error)) *cobra.Command {
	var c selection
	cmd.Long = strings.TrimPrefix(cmd.Long+"\n\n"+manyDevices, "\n\n")
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names, err := c.names(cmd, args)
		if err != nil {
			return err
		}
		o, err := read()
		if err != nil {
			return err
		}
		if o.oneOnly && (len(names) != 1 || len(c.globs) > 0) {
			return usagef("--instance goes with one NAME: each device has its own instance")
		}
		return a.actOnDevices(cmd.Context(), cmd.Name(), &c, names, o)
	}
	c.flags(cmd.Flags())
	return cmd
}

// actOnDevices sends the action to the named devices, and to those that a pattern or the
// selectors match.
func (a *app) actOnDevices(ctx context.Context, command string, c *selection, names []string, o action) error {
	limited, cancel := a.waitLimit(ctx)
	defer cancel()
	byFilter := len(names) == 0 || len(c.globs) > 0
	ask := question{verb: o.verb, n: len(names), above: asksAbove(effectOf(command), byFilter), yes: c.yes || c.dryRun}
	if !byFilter {
		if err := a.refuse(ask); err != nil { // before a server is contacted
			return err
		}
	}
	return a.devices(ctx, func(l deviceClient) error {
		ask.show = func() (string, error) {
			views, err := a.named(ctx, l, names)
			return a.affected(views), err
		}
		if byFilter {
			views, err := a.find(ctx, l, &c.filter)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				ask.show = func() (string, error) { return a.affected(views), nil }
			}
			for _, v := range views {
				if !slices.Contains(names, v.Name) {
					names = append(names, v.Name)
				}
			}
			if len(names) == 0 {
				a.note("", "no device matches these selectors")
			}
			ask.n = len(names)
		}
		switch err := a.confirm(ctx, ask); {
		case err != nil:
			return err
		case c.dryRun:
			return a.dryRun(ctx, l, command, names, o)
		case !byFilter && len(names) == 1:
			return a.actOne(ctx, limited, l, names[0], o)
		}
		return a.actMany(ctx, limited, l, command, names, o)
	})
}

// actOne sends the action to one device, and prints its whole answer.
func (a *app) actOne(ctx, limited context.Context, l deviceClient, name string, o action) error {
	result, err := a.send(ctx, l, name, o)
	if err == nil && o.wait {
		result.Device, err = a.await(ctx, limited, l, name, make(chan struct{}, 1))
	}
	if err != nil {
		return err
	}
	return a.emit(result, func() string { return resultLine(name, o.done, result) + "\n" })
}

// actMany sends the action to all devices, and then waits for them.
func (a *app) actMany(ctx, limited context.Context, l deviceClient, command string, names []string, o action) error {
	slots := make(chan struct{}, parallelism)
	width := parallelism
	if o.wait {
		width = len(names)
	}
	return a.forEachDevice(len(names), width, func(i int) outcome {
		name := names[i]
		slots <- struct{}{}
		result, err := a.send(ctx, l, name, o)
		<-slots
		if err == nil && o.wait {
			result.Device, err = a.await(ctx, limited, l, name, slots)
		}
		if err != nil {
			return failed(command, name, err)
		}
		return done(name, resultLine(name, o.done, result))
	})
}

// request gives the call of one of the client's methods with this input.
func request[I any](method func(deviceClient, context.Context, string, I) (contract.Result, error), in I) func(context.Context, deviceClient, string) (contract.Result, error) {
	return func(ctx context.Context, l deviceClient, name string) (contract.Result, error) {
		return method(l, ctx, name, in)
	}
}

// send sends one action to one device.
func (a *app) send(ctx context.Context, l deviceClient, name string, o action) (contract.Result, error) {
	if f := notAsked(ctx, name); f != nil {
		return contract.Result{}, f
	}
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	result, err := o.send(rctx, l, name)
	if err != nil {
		return contract.Result{}, a.explain(ctx, l, name, err)
	}
	return result, nil
}
