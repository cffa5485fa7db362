package main

import (
	"github.com/spf13/cobra"

	"burnish/workflows/contract"
)

func (a *app) replaceCommand() *cobra.Command {
	var in contract.ReplaceInput
	cmd := &cobra.Command{Use: "replace NAME",
		Short: "accept new hardware in the device's slot",
		Long: `The hardware that is in the slot now becomes the device's next unit. It is dirty, and
the device's history is kept. Allowed in state error, manageable or retired.`,
		Example: "  burnish replace h1_0000:01:00.0 --provide",
		Args:    oneName("NAME")}
	cmd.Flags().BoolVar(&in.Provide, "provide", false, "clean it and make it available")
	cmd.Flags().StringVar(&in.AcceptSignature, "accept-signature", "", "`S[,S…]`: file-system signatures on it that may be destroyed")
	cmd.Flags().StringVar(&in.Instance, "instance", "", "`UUID`: the instance that has the device, whose binding this ends")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the device")
	dryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in.Caller = operator()
		return a.actOnNamed(cmd, args[0], action{verb: "replace", done: "replaced", send: request(deviceClient.Replace, in)})
	}
	return cmd
}

func (a *app) moveCommand() *cobra.Command {
	var to contract.Enrollment
	var set []string
	var instance, reason string
	cmd := &cobra.Command{Use: "move OLD NEW",
		Short: "record that the hardware is now in another slot",
		Long: `The state and the history are kept under the name NEW, and OLD ends. The device is dirty.
The host must find the same serial in the new slot. Allowed in state error or manageable. A
flag that is not given keeps its value; a NEW of the form HOST_ADDRESS sets both.`,
		Example: "  burnish move h1_0000:01:00.0 h2_0000:41:00.0",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("takes OLD and NEW, not %d names", len(args))
			}
			return nil
		}}
	cmd.Flags().StringVar(&to.Host, "host", "", "`H`: the new host")
	cmd.Flags().StringVar(&to.Driver, "driver", "", "`D`: the new driver")
	cmd.Flags().StringVar(&to.Address, "address", "", "`A`: the new PCI address")
	cmd.Flags().StringArrayVar(&set, "set", nil, "`K=V[,K=V…]`: settings that differ in the new slot, such as path")
	cmd.Flags().StringVar(&instance, "instance", "", "`UUID`: the instance that has the device, whose binding this ends")
	reasonFlag(cmd, &reason, "`TEXT`: why; kept with the device")
	dryRunFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if to.Name, err = canonical(args[1]); err != nil {
			return err
		}
		if to.Settings, err = settings(set); err != nil {
			return usagef("%s", err)
		}
		if _, owned := to.Settings[settingOwner]; owned {
			return usagef("--set %s: a device keeps its owner when it moves", settingOwner)
		}
		if to, err = to.NormalizeSlot(); err != nil {
			return usagef("%s", err)
		}
		in := contract.MoveInput{Enrollment: to, Instance: instance, Reason: reason, Caller: operator()}
		return a.actOnNamed(cmd, args[0], action{verb: "move", done: "moved", send: request(deviceClient.Move, in)})
	}
	return cmd
}

// dryRunFlag adds --dry-run to a command on one device.
func dryRunFlag(cmd *cobra.Command) {
	cmd.Flags().Bool("dry-run", false, "ask what would be done, or why not; nothing changes, and no host, inventory or appliance is asked")
}

// actOnNamed sends a request to one device, and prints its answer; with --dry-run it asks what
// the request would do.
func (a *app) actOnNamed(cmd *cobra.Command, arg string, o action) error {
	name, err := canonical(arg)
	if err != nil {
		return err
	}
	return a.devices(cmd.Context(), func(l deviceClient) error {
		if dry := cmd.Flags().Lookup("dry-run"); dry != nil && dry.Value.String() == "true" {
			return a.dryRun(cmd.Context(), l, cmd.Name(), []string{name}, o)
		}
		result, err := a.send(cmd.Context(), l, name, o)
		if err != nil {
			return err
		}
		return a.emit(result, func() string { return resultLine(name, o.done, result) + "\n" })
	})
}
