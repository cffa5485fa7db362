package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"burnish/workflows/contract"
)

const bindUsage = `burnish bind: reserve a device and bind it to an instance

usage: burnish bind NAME --instance UUID [flags]

      --instance UUID       the instance, in the 36-character form
      --request ID          a repeated bind with the same ID and instance returns the
                            same binding, never a second one
      --tag T               opaque text for the guest's metadata
  -o, --output table|json|yaml
      --timeout DURATION    (30s)

It returns when the device is reserved. Start the guest only after that.

example:
  burnish bind h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90
`

const unbindUsage = `burnish unbind: end an instance's binding; the clean then starts by itself

usage: burnish unbind NAME --instance UUID [flags]

      --instance UUID       the instance that the device is bound to
  -o, --output table|json|yaml
      --timeout DURATION    (30s)

example:
  burnish unbind h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90
`

const rebuildUsage = `burnish rebuild: rebuild an instance; it keeps its device, and nothing is cleaned

usage: burnish rebuild NAME --instance UUID [flags]

      --instance UUID       the instance that the device is bound to
  -o, --output table|json|yaml
      --timeout DURATION    (30s)

example:
  burnish rebuild h1_0000:01:00.0 --instance 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90
`

func (a *app) bindCommand() *cobra.Command {
	var in contract.BindInput
	cmd := &cobra.Command{Use: "bind", Long: bindUsage, Args: oneName("NAME")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if in.Instance, err = instance(in.Instance); err != nil {
			return err
		}
		return a.requestFor(cmd.Context(), args[0], func(ctx context.Context, l deviceClient, name string) error {
			var result contract.BindResult
			if err := l.update(ctx, name, contract.UpdateBind, in, &result); err != nil {
				return err
			}
			result.Device = normalize(result.Device)
			return a.emit(result, func() string {
				verb := "bound"
				if result.Already {
					verb = "already bound"
				}
				return fmt.Sprintf("%s: %s, binding %d of instance %s\n", name, verb, result.Binding, in.Instance)
			})
		})
	}
	cmd.Flags().StringVar(&in.Instance, "instance", "", "")
	cmd.Flags().StringVar(&in.Request, "request", "", "")
	cmd.Flags().StringVar(&in.Tag, "tag", "", "")
	return cmd
}

func (a *app) unbindCommand() *cobra.Command {
	return a.byInstance("unbind", unbindUsage, contract.UpdateUnbind, "unbound")
}

func (a *app) rebuildCommand() *cobra.Command {
	return a.byInstance("rebuild", rebuildUsage, contract.UpdateRebuild, "rebuilt")
}

// byInstance is a command of the instance that has the device.
func (a *app) byInstance(use, usage, update, past string) *cobra.Command {
	var in contract.UnbindInput
	cmd := &cobra.Command{Use: use, Long: usage, Args: oneName("NAME")}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if in.Instance, err = instance(in.Instance); err != nil {
			return err
		}
		return a.requestFor(cmd.Context(), args[0], func(ctx context.Context, l deviceClient, name string) error {
			var result contract.Result
			if err := l.update(ctx, name, update, in, &result); err != nil {
				return err
			}
			result.Device = normalize(result.Device)
			return a.emit(result, func() string { return resultLine(name, past, result) + "\n" })
		})
	}
	cmd.Flags().StringVar(&in.Instance, "instance", "", "")
	return cmd
}

// requestFor is one request about one device.
func (a *app) requestFor(ctx context.Context, arg string, request func(context.Context, deviceClient, string) error) error {
	name, err := canonical(arg)
	if err != nil {
		return err
	}
	return a.devices(ctx, func(l deviceClient) error {
		rctx, cancel := a.requestContext(ctx)
		defer cancel()
		if err := request(rctx, l, name); err != nil {
			return a.explain(ctx, l, name, err)
		}
		return nil
	})
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
