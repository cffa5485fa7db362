package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"burnish/workflows/contract"
)

func (a *app) bindCommand() *cobra.Command {
	var in contract.BindInput
	cmd := &cobra.Command{Use: "bind NAME --instance UUID",
		Short:   "reserve a device and bind it to an instance",
		Long:    "It returns when the device is reserved. Start the guest only after that.",
		Example: "  burnish bind h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
		Args:    oneName("NAME")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if in.Instance, err = instance(in.Instance); err != nil {
			return err
		}
		if err := noneEmpty(cmd.Flags(), "tag"); err != nil {
			return err
		}
		name, err := canonical(args[0])
		if err != nil {
			return err
		}
		in.Caller = operator()
		return a.devices(cmd.Context(), func(l deviceClient) error {
			rctx, cancel := a.requestContext(cmd.Context())
			defer cancel()
			result, err := l.AttachDevice(rctx, name, in)
			if err != nil {
				return a.explain(cmd.Context(), l, name, err)
			}
			return a.emit(result, func() string {
				verb := "bound"
				if result.Already {
					verb = "already bound"
				}
				return fmt.Sprintf("%s: %s, binding %d of instance %s\n", name, verb, result.Binding, in.Instance)
			})
		})
	}
	cmd.Flags().StringVar(&in.Instance, "instance", "", "`UUID`: the instance, in the 36-character form")
	cmd.Flags().StringVar(&in.Request, "request", "", "`ID`: a repeated bind with the same one and instance "+
		"returns the same binding, never a second one. A device knows its last 500")
	cmd.Flags().StringVar(&in.Tag, "tag", "", "`T`: the device's role in the guest, 1 to 60 characters, but no comma and no slash")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the device")
	return cmd
}

func (a *app) unbindCommand() *cobra.Command {
	return a.byInstance(&cobra.Command{
		Use:     "unbind NAME --instance UUID",
		Short:   "end an instance's binding; the clean then starts by itself",
		Long:    "The device is dirty from then on: no other instance gets it before it is clean.",
		Example: "  burnish unbind h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
	}, deviceClient.DetachDevice, "unbound")
}

func (a *app) rebuildCommand() *cobra.Command {
	return a.byInstance(&cobra.Command{
		Use:     "rebuild NAME --instance UUID",
		Short:   "rebuild an instance; it keeps its device, and nothing is cleaned",
		Long:    "The device stays bound, and its data stays as it is.",
		Example: "  burnish rebuild h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
	}, deviceClient.Rebuild, "rebuilt")
}

// byInstance is a command of the instance that the device is bound to.
func (a *app) byInstance(cmd *cobra.Command, method func(deviceClient, context.Context, string, contract.UnbindInput) (contract.Result, error), past string) *cobra.Command {
	var in contract.UnbindInput
	cmd.Args = oneName("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if in.Instance, err = instance(in.Instance); err != nil {
			return err
		}
		in.Caller = operator()
		return a.actOnNamed(cmd, args[0], action{done: past, send: request(method, in)})
	}
	cmd.Flags().StringVar(&in.Instance, "instance", "", "`UUID`: the instance that the device is bound to")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the device")
	return cmd
}

// instance checks the instance's UUID: the form that Nova writes, in lower case.
func instance(given string) (string, error) {
	if given == "" {
		return "", usagef("--instance is missing")
	}
	id, ok := standardUUID(given)
	if !ok {
		f := usagef("--instance %q is not a valid UUID", given)
		f.remedy = "give 36 characters, such as 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"
		return "", f
	}
	return id, nil
}
