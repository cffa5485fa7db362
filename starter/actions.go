package main

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"burnish/workflows/contract"
)

// manyUsage is the part of the usage that all commands on several devices share.
const manyUsage = `      --state S[,S…], --type T, --host H, --model M, --fault CODE
                            instead of NAMEs: all devices that match
      --dry-run             print what would be done; send nothing
  -y, --yes                 do not ask. Without it a question lists the devices: of
                            a command that may erase, retire or end a binding
                            whenever a filter chose them, of any above 10 devices
  -o, --output table|json|yaml
      --timeout DURATION    for each device (30s)

With several devices it prints one line for each. A failure does not stop the rest.
`

const provideUsage = `burnish provide: clean a manageable device and make it available

usage: burnish provide NAME… [flags]

      --wait                wait for the end of the clean, at most --timeout
      --reason TEXT         why; kept with the device
` + manyUsage + `
example:
  burnish provide h1_0000:01:00.0 --wait --timeout 20m
`

const cleanUsage = `burnish clean: clean a device now

usage: burnish clean NAME… [flags]

In state error: repeats the whole clean. In state manageable: runs named steps or a
runbook; they never clear the dirty flag. In state pending_cleaning while automated
cleaning is off: starts the clean.

      --steps A[,B…]        these steps alone
      --arg [STEP.]KEY=VALUE
                            an argument of a step, as burnish steps lists them; may be
                            repeated. With several steps the step's name comes first
      --runbook R           the steps of a runbook of the policy
      --wait                wait for the end of the clean, at most --timeout
      --reason TEXT         why; kept with the clean
` + manyUsage + `
example:
  burnish clean --state error --host h1 --dry-run
  burnish clean h1_0000:01:00.0 --wait
  burnish clean node1 --steps bios_apply --arg BootMode=Uefi
`

const abortUsage = `burnish abort: stop the running clean; the device goes to state error

usage: burnish abort NAME… [flags]

      --reason TEXT         why; kept with the clean
` + manyUsage + `
example:
  burnish abort h1_0000:01:00.0
`

const releaseHoldUsage = `burnish release-hold: go on with a clean that its runbook holds

usage: burnish release-hold NAME… [flags]

      --reason TEXT         what was done; kept with the clean
` + manyUsage + `
example:
  burnish release-hold node1 --reason "asset tag set"
`

const manageUsage = `burnish manage: take a device out of the pool

usage: burnish manage NAME… [flags]

      --reason TEXT         why; kept with the device
      --instance UUID       the instance that has the device, whose binding this ends
` + manyUsage + `
example:
  burnish manage h1_0000:01:00.0
`

const maintainUsage = `burnish maintain: put a device on hold for new tenants, or release it

usage: burnish maintain NAME… --reason R [flags]
       burnish maintain NAME… --off [flags]

      --reason R            why it is put on hold
      --off                 release it
` + manyUsage + `
example:
  burnish maintain --host h1 --reason "kernel upgrade" --yes
`

const retireUsage = `burnish retire: take a device out of service; it stays permanently reserved

usage: burnish retire NAME… --reason R [flags]

      --reason R            why
      --lost                the hardware is gone; do not contact its host
      --instance UUID       the instance that has the device, whose binding this ends
` + manyUsage + `
example:
  burnish retire h1_0000:01:00.0 --reason "worn out"
`

const forgetUsage = `burnish forget: delete a retired device's record

usage: burnish forget NAME [flags]

      --instance UUID       the instance that still has the device by the inventory's record
      --reason TEXT         why; kept with the device
  -o, --output table|json|yaml
      --timeout DURATION    (30s)

example:
  burnish forget h1_0000:01:00.0
`

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
	cmd := a.actCommand("provide", provideUsage, func() (action, error) {
		in.Caller = operator()
		return action{verb: "provide", done: "provided", send: request(deviceClient.Provide, in), wait: wait}, nil
	})
	reasonFlag(cmd, &in.Reason)
	cmd.Flags().BoolVar(&wait, "wait", false, "")
	return cmd
}

func (a *app) cleanCommand() *cobra.Command {
	var (
		c      cleanRequest
		reason string
		wait   bool
		cmd    *cobra.Command
	)
	cmd = a.actCommand("clean", cleanUsage, func() (action, error) {
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
	reasonFlag(cmd, &reason)
	cmd.Flags().BoolVar(&wait, "wait", false, "")
	return cmd
}

func (a *app) releaseHoldCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := a.actCommand("release-hold", releaseHoldUsage, func() (action, error) {
		in.Caller = operator()
		return action{verb: "release", done: "released", send: request(deviceClient.ReleaseHold, in)}, nil
	})
	reasonFlag(cmd, &in.Reason)
	return cmd
}

func (a *app) abortCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := a.actCommand("abort", abortUsage, func() (action, error) {
		in.Caller = operator()
		return action{verb: "abort", done: "abort requested", send: request(deviceClient.Abort, in)}, nil
	})
	reasonFlag(cmd, &in.Reason)
	return cmd
}

func (a *app) manageCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := a.actCommand("manage", manageUsage, func() (action, error) {
		in.Caller = operator()
		return action{verb: "manage", done: "taken out of the pool", send: request(deviceClient.Manage, in), oneOnly: in.Instance != ""}, nil
	})
	reasonFlag(cmd, &in.Reason)
	cmd.Flags().StringVar(&in.Instance, "instance", "", "")
	return cmd
}

func (a *app) maintainCommand() *cobra.Command {
	var in contract.MaintainInput
	cmd := a.actCommand("maintain", maintainUsage, func() (action, error) {
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
	reasonFlag(cmd, &in.Reason)
	cmd.Flags().BoolVar(&in.Off, "off", false, "")
	return cmd
}

func (a *app) retireCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := a.actCommand("retire", retireUsage, func() (action, error) {
		if in.Reason = strings.TrimSpace(in.Reason); in.Reason == "" {
			return action{}, usagef("--reason is missing: a retired device stays permanently reserved")
		}
		in.Caller = operator()
		return action{verb: "retire", done: "retired", send: request(deviceClient.Retire, in), oneOnly: in.Instance != ""}, nil
	})
	cmd.Flags().StringVar(&in.Instance, "instance", "", "")
	reasonFlag(cmd, &in.Reason)
	cmd.Flags().BoolVar(&in.Lost, "lost", false, "")
	return cmd
}

func (a *app) forgetCommand() *cobra.Command {
	var in contract.ReasonInput
	cmd := &cobra.Command{
		Use:  "forget",
		Long: forgetUsage,
		Args: oneName("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Caller = operator()
			return a.actOnNamed(cmd, args[0], "forgotten", action{send: request(deviceClient.Forget, in)})
		},
	}
	cmd.Flags().StringVar(&in.Instance, "instance", "", "")
	reasonFlag(cmd, &in.Reason)
	return cmd
}

// reasonFlag adds the flag by which an operator says why.
func reasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "")
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

// actCommand is a command on one or several devices; read gives its action after the flags
// are parsed.
func (a *app) actCommand(use, usage string, read func() (action, error)) *cobra.Command {
	var c selection
	cmd := &cobra.Command{
		Use:  use,
		Long: usage,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			names, err := c.names(cmd, args)
			if err != nil {
				return err
			}
			o, err := read()
			if err != nil {
				return err
			}
			if o.oneOnly && len(names) != 1 {
				return usagef("--instance goes with one NAME: each device has its own instance")
			}
			return a.actOnDevices(cmd.Context(), use, &c, names, o)
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

// actOnDevices sends the action to the named devices, or to those that the selectors match.
func (a *app) actOnDevices(ctx context.Context, command string, c *selection, names []string, o action) error {
	limited, cancel := a.waitLimit(ctx)
	defer cancel()
	ask := question{verb: o.verb, n: len(names), above: asksAbove(effectOf(command), len(names) == 0), yes: c.yes}
	if len(names) > 0 && c.dryRun {
		return a.dryRun(names, o)
	}
	if err := a.refuse(ask); err != nil { // before a server is contacted
		return err
	}
	return a.devices(ctx, func(l deviceClient) error {
		if len(names) == 1 {
			return a.actOne(ctx, limited, l, names[0], o)
		}
		ask.show = func() (string, error) {
			views, err := a.named(ctx, l, names)
			return a.affected(views), err
		}
		if len(names) == 0 {
			views, err := a.find(ctx, l, &c.filter)
			if err != nil {
				return err
			}
			for _, v := range views {
				names = append(names, v.Name)
			}
			if len(names) == 0 {
				a.note("", "no device matches these selectors")
			}
			if c.dryRun {
				return a.dryRun(names, o)
			}
			ask.n, ask.show = len(names), func() (string, error) { return a.affected(views), nil }
		}
		if err := a.confirm(ctx, ask); err != nil {
			return err
		}
		return a.actMany(ctx, limited, l, command, names, o)
	})
}

// dryRun prints what an action would do.
func (a *app) dryRun(names []string, o action) error {
	return a.forEachDevice(len(names), 1, func(i int) outcome {
		return done(names[i], fmt.Sprintf("%s: would %s it", names[i], o.verb))
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
