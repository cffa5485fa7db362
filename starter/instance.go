package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

func (a *app) instanceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:  "instance",
		Long: instanceUsage,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			for _, c := range cmd.Commands() {
				names = append(names, c.Name())
			}
			if len(args) == 0 {
				return usagef("a command is needed: %s", strings.Join(names, ", "))
			}
			return usagef("unknown command %q: must be one of %s", args[0], strings.Join(names, ", "))
		},
	}
	cmd.AddCommand(
		a.instanceBindCommand("bind", instanceBindUsage, "bound", deviceClient.InstanceBind),
		a.instanceBindCommand("attach", instanceAttachUsage, "attached", deviceClient.InstanceAttach),
		a.instanceDetachCommand(),
		a.instanceActCommand("release", instanceReleaseUsage, "released", deviceClient.InstanceRelease),
		a.instanceActCommand("rebuild", instanceRebuildUsage, "rebuilt", deviceClient.InstanceRebuild),
		a.instanceMoveCommand("migrate", instanceMigrateUsage, "", deviceClient.InstanceMigrate),
		a.instanceMoveCommand("live-migrate", instanceLiveMigrateUsage, "", deviceClient.InstanceLiveMigrate),
		a.instanceActCommand("confirm", instanceConfirmUsage, "confirmed", deviceClient.InstanceConfirm),
		a.instanceActCommand("revert", instanceRevertUsage, "reverted", deviceClient.InstanceRevert),
		a.instanceMoveCommand("evacuate", instanceEvacuateUsage, "evacuated", deviceClient.InstanceEvacuate),
		a.instanceShowCommand(), a.configDriveCommand(), a.instanceSchemaCommand(),
	)
	return cmd
}

// instanceMethod is one of the client's methods for instances.
type instanceMethod[I any] func(deviceClient, context.Context, string, I) (contract.InstanceResult, error)

func (a *app) instanceBindCommand(use, usage, past string, method instanceMethod[contract.InstanceBindInput]) *cobra.Command {
	var (
		d              deviceFlags
		in             contract.InstanceBindInput
		file, domain   string
		cmd            = &cobra.Command{Use: use, Long: usage, Args: oneName("UUID")}
		flags          = cmd.Flags()
		inTheFile      = []string{"device", "guest", "request", "host"}
		ofMetadataOnly = []string{"project", "address"}
	)
	d.flags(flags)
	flags.Var(flagFunc{"key=value", d.addRequest}, "request", "")
	flags.StringVar(&in.Host, "host", "", "")
	flags.StringVarP(&file, "file", "f", "", "")
	flags.StringVar(&domain, "domain", "", "")
	flags.StringVar(&in.Request, "request-id", "", "")
	reasonFlag(cmd, &in.Reason)
	if use == "bind" {
		flags.StringVar(&in.Project, "project", "", "")
		flags.StringArrayVar(&in.Addresses, "address", nil, "")
		inTheFile = append(inTheFile, ofMetadataOnly...)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		instance, err := instanceArg(args[0])
		if err != nil {
			return err
		}
		if err := noneEmpty(flags, "host", "file", "domain", "request-id", "project", "address"); err != nil {
			return err
		}
		in.Devices, in.Requests = d.devices, d.requests
		if flags.Changed("file") {
			for _, other := range inTheFile {
				if flags.Changed(other) {
					return usagef("--file and --%s exclude each other: write it in the file", other)
				}
			}
			if file == "-" && domain == "-" {
				return usagef("--file and --domain cannot both be the standard input")
			}
			read, err := a.readInstanceFile(cmd.Context(), file)
			if err != nil {
				return err
			}
			if use != "bind" && (read.Project != "" || len(read.Addresses) > 0) {
				return usagef("%s: project and addresses are given when the instance is bound", file)
			}
			read.Request, read.Reason = in.Request, in.Reason
			in = read
		}
		if in, err = in.Normalize(); err != nil {
			return usagef("%s", err)
		}
		in.Reason, in.Caller = strings.TrimSpace(in.Reason), operator()
		found, err := a.readDomain(cmd.Context(), domain, in.Devices)
		if err != nil {
			return err
		}
		return a.devices(cmd.Context(), func(l deviceClient) error {
			if in.Devices, err = a.addDomain(cmd.Context(), l, found, in.Devices); err != nil {
				return err
			}
			return actOnInstance(a, cmd.Context(), l, instance, past, method, in)
		})
	}
	return cmd
}

// noneEmpty refuses flags that are given without a value.
func noneEmpty(flags *pflag.FlagSet, names ...string) error {
	for _, name := range names {
		f := flags.Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		if text := f.Value.String(); text == "" || text == "[]" {
			return usagef("--%s is empty", name)
		}
	}
	return nil
}

func (a *app) instanceDetachCommand() *cobra.Command {
	var in contract.InstanceDetachInput
	cmd := &cobra.Command{Use: "detach", Long: instanceDetachUsage, Args: func(_ *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usagef("UUID is missing")
		case 1:
			return usagef("NAME is missing: name the devices to detach, or use burnish instance release for all")
		}
		return nil
	}}
	reasonFlag(cmd, &in.Reason)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		instance, err := instanceArg(args[0])
		if err != nil {
			return err
		}
		in.Devices = args[1:]
		if in, err = in.Normalize(); err != nil {
			return usagef("%s", err)
		}
		in.Reason, in.Caller = strings.TrimSpace(in.Reason), operator()
		return a.devices(cmd.Context(), func(l deviceClient) error {
			return actOnInstance(a, cmd.Context(), l, instance, "detached "+strings.Join(in.Devices, ", "), deviceClient.InstanceDetach, in)
		})
	}
	return cmd
}

// instanceActCommand is a command that takes nothing but the instance.
func (a *app) instanceActCommand(use, usage, past string, method instanceMethod[contract.InstanceActInput]) *cobra.Command {
	var in contract.InstanceActInput
	cmd := &cobra.Command{Use: use, Long: usage, Args: oneName("UUID")}
	reasonFlag(cmd, &in.Reason)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		instance, err := instanceArg(args[0])
		if err != nil {
			return err
		}
		in.Reason, in.Caller = strings.TrimSpace(in.Reason), operator()
		return a.devices(cmd.Context(), func(l deviceClient) error {
			return actOnInstance(a, cmd.Context(), l, instance, past, method, in)
		})
	}
	return cmd
}

func (a *app) instanceMoveCommand(use, usage, past string, method instanceMethod[contract.InstanceMoveInput]) *cobra.Command {
	var (
		d      deviceFlags
		in     contract.InstanceMoveInput
		domain string
		cmd    = &cobra.Command{Use: use, Long: usage, Args: oneName("UUID")}
		flags  = cmd.Flags()
	)
	d.flags(flags)
	flags.StringVar(&in.To, "to", "", "")
	flags.StringVar(&domain, "domain", "", "")
	reasonFlag(cmd, &in.Reason)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		instance, err := instanceArg(args[0])
		if err != nil {
			return err
		}
		if in.To == "" {
			return usagef("--to is missing: name the host that the instance moves to")
		}
		if err := noneEmpty(flags, "domain"); err != nil {
			return err
		}
		in.Devices = d.devices
		if in, err = in.Normalize(); err != nil {
			return usagef("%s", err)
		}
		in.Reason, in.Caller = strings.TrimSpace(in.Reason), operator()
		found, err := a.readDomain(cmd.Context(), domain, in.Devices)
		if err != nil {
			return err
		}
		return a.devices(cmd.Context(), func(l deviceClient) error {
			if in.Devices, err = a.addDomain(cmd.Context(), l, found, in.Devices); err != nil {
				return err
			}
			return actOnInstance(a, cmd.Context(), l, instance, past, method, in)
		})
	}
	return cmd
}

func (a *app) instanceSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Long: instanceSchemaUsage, Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.print(string(metadata.Schema())) },
	}
}

// instanceArg checks the argument UUID, and gives it in lower case.
func instanceArg(given string) (string, error) {
	id, ok := standardUUID(given)
	if !ok {
		f := usagef("%q is not a valid UUID of an instance", given)
		f.remedy = "give 36 characters, such as 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"
		return "", f
	}
	return id, nil
}

// actOnInstance sends one request to an instance, and prints its answer.
func actOnInstance[I any](a *app, ctx context.Context, l deviceClient, instance, past string, method instanceMethod[I], in I) error {
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	result, err := method(l, rctx, instance, in)
	if err != nil {
		return a.explainInstance(ctx, l, instance, err)
	}
	return a.emit(result, func() string { return instanceLine(instance, past, result) + "\n" })
}

// instanceLine is the result of a request in one line. past is what was done; "" where the
// instance's phase says it.
func instanceLine(instance, past string, r contract.InstanceResult) string {
	s := r.Instance
	var devices []string
	for _, d := range s.Devices {
		text := d.Name
		if d.Tag != "" {
			text += " as " + quoted(d.Tag)
		}
		devices = append(devices, fmt.Sprintf("%s, binding %d", text, d.Binding))
	}
	now := string(s.Phase)
	switch {
	case s.Move != nil:
		now = fmt.Sprintf("migrating from %s to %s", oneLine(s.Move.From), oneLine(s.Move.To))
	case s.Host != "":
		now += " on " + oneLine(s.Host)
	}
	if past != "" && len(devices) > 0 {
		past += ", now "
	}
	line := instance + ": "
	if r.Already {
		line += "already "
	}
	if len(devices) == 0 {
		return line + past + "; it has no device"
	}
	line += past + now + ": " + strings.Join(devices, "; ")
	if s.Move != nil {
		line += "; end it with burnish instance confirm or revert"
	}
	return line
}
