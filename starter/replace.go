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
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		in.Caller = operator()
		return a.actOnNamed(cmd, args[0], "replaced", action{send: request(deviceClient.Replace, in)})
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
		return a.actOnNamed(cmd, args[0], "moved", action{send: request(deviceClient.Move, in)})
	}
	return cmd
}

// actOnNamed sends a request to one device, and prints its answer.
func (a *app) actOnNamed(cmd *cobra.Command, arg, past string, o action) error {
	name, err := canonical(arg)
	if err != nil {
		return err
	}
	return a.devices(cmd.Context(), func(l deviceClient) error {
		result, err := a.send(cmd.Context(), l, name, o)
		if err != nil {
			return err
		}
		return a.emit(result, func() string { return resultLine(name, past, result) + "\n" })
	})
}
