package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

func (a *app) instanceCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "instance COMMAND",
		Short: "several devices of one instance, with their roles; its moves",
		Long: `An instance gets all the devices of a request, or none, and keeps their roles when it
moves to another host. See burnish instance COMMAND --help.`,
		Example: "  burnish instance show 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
	},
		a.instanceBindCommand(&cobra.Command{
			Use:         "bind UUID --device NAME[=TAG] [--guest …]…",
			Annotations: forms("instance bind UUID --request type=T[,count=N]…", "instance bind UUID --file FILE"),
			Long: `It returns when all devices are reserved. Start the guest only after that. If one device is
refused, none is bound. What was only claimed is free again; what was already being reserved
is cleaned.

FILE:

  host: h1
  project: 9c1f0ab2d6c84e5f8c0e4c0f7a1d2b3e
  addresses: [10.0.0.5]
  devices:
    - name: h1_0000:01:00.0
      tag: database
      guest: [{bus: pci, address: "0000:00:05.0"}]
  requests:
    - {type: NVME, count: 2, traits: [HW_NVME_CES]}`,
			Example: `  burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 \
    --device h1_0000:01:00.0=database --guest bus=pci,address=0000:00:05.0 \
    --device h1_0000:02:00.0=uplink
  burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --request type=NVME,count=2,trait=HW_NVME_CES
  virsh dumpxml vm1 | burnish instance bind 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 \
    --device h1_0000:01:00.0=database --domain -`,
		}, "bound", contract.VerbInstanceBind),
		a.instanceBindCommand(&cobra.Command{
			Use:         "attach UUID --device NAME[=TAG] [--guest …]…",
			Annotations: forms("instance attach UUID --request type=T[,count=N]…", "instance attach UUID --file FILE"),
			Long: `A device that the instance already has is not bound again: its guest's addresses are
recorded, if they are given.`,
			Example: "  burnish instance attach 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --device h1_0000:03:00.0=scratch",
		}, "attached", contract.VerbInstanceAttach),
		a.instanceDetachCommand(),
		a.instanceActCommand(&cobra.Command{
			Use: "release UUID",
			Long: `Its document is gone before the first binding ends. During a migration the devices of both
hosts are released. Each device is then cleaned by itself.`,
			Example: "  burnish instance release 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
		}, "released", contract.VerbInstanceRelease),
		a.instanceActCommand(&cobra.Command{
			Use:     "rebuild UUID",
			Long:    "The devices stay bound, and their data stays as it is.",
			Example: "  burnish instance rebuild 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
		}, "rebuilt", contract.VerbInstanceRebuild),
		a.instanceMoveCommand(&cobra.Command{
			Use: "migrate UUID --to HOST",
			Long: `The instance has the devices of both hosts until burnish instance confirm or revert. From
now on the guest's document shows the new ones, with the same tags. No data is copied
between devices.`,
			Example: "  burnish instance migrate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2",
		}, "", contract.VerbInstanceMigrate),
		a.instanceMoveCommand(&cobra.Command{
			Use: "live-migrate UUID --to HOST",
			Long: `As migrate, but only if each device on both hosts is marked live-migratable; otherwise it is
refused, and nothing is bound. Ended by burnish instance confirm or revert.`,
			Example: "  burnish instance live-migrate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2",
		}, "", contract.VerbInstanceLiveMigrate),
		a.instanceActCommand(&cobra.Command{
			Use:     "confirm UUID",
			Long:    "The devices of the old host stay reserved, and are cleaned.",
			Example: "  burnish instance confirm 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
		}, "confirmed", contract.VerbInstanceConfirm),
		a.instanceActCommand(&cobra.Command{
			Use: "revert UUID",
			Long: `The devices of the new host stay reserved, and are cleaned. Those of the old host are the
instance's again, as they were.`,
			Example: "  burnish instance revert 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
		}, "reverted", contract.VerbInstanceRevert),
		a.instanceMoveCommand(&cobra.Command{
			Use:     "evacuate UUID --to HOST",
			Long:    "The old host need not answer. Its devices stay reserved, and are cleaned when it is back.",
			Example: "  burnish instance evacuate 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 --to h2",
		}, "evacuated", contract.VerbInstanceEvacuate),
		a.instanceShowCommand(), a.configDriveCommand(), a.instanceSchemaCommand(),
	)
}

func (a *app) instanceBindCommand(cmd *cobra.Command, past string, v contract.Verb) *cobra.Command {
	var (
		d              deviceFlags
		in             contract.InstanceBindInput
		file, domain   string
		flags          = cmd.Flags()
		inTheFile      = []string{"device", "guest", "request", "host"}
		ofMetadataOnly = []string{"project", "address"}
	)
	cmd.Args = oneName("UUID")
	d.flags(flags, "`NAME[=TAG]`: a device, and its role in the guest; repeatable. A TAG has 1 to 60 characters, but "+
		"no comma and no slash")
	flags.Func("request",
		"`type=T[,count=N][,trait=HW_X]…[,vendor=V][,model=M][,tag=TAG]`: free devices, which Burnish picks, all on one "+
			"host; repeatable, and so is trait. With live_migratable=true only such devices", d.addRequest)
	flags.StringVar(&in.Host, "host", "", "`HOST`: where the requested devices are")
	flags.StringVarP(&file, "file", "f", "", "`FILE`: YAML with devices, requests, host, project and addresses; - is "+
		"the standard input")
	flags.StringVar(&domain, "domain", "", "`FILE`: libvirt's domain, as virsh dumpxml prints it, with the guest's "+
		"addresses; - is the standard input. Of a device with --guest, that counts")
	flags.StringVar(&in.Request, "request-id", "", "`ID`: a repeated request with the same one "+
		"binds nothing more, until the instance is released. It knows its last 500")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the instance")
	if cmd.Name() == "bind" {
		flags.StringVar(&in.Project, "project", "", "`ID`: the instance's project, for the metadata service")
		flags.StringArrayVar(&in.Addresses, "address", nil,
			"`IP`: an address of the guest, for the metadata service; repeatable")
		inTheFile = append(inTheFile, ofMetadataOnly...)
	}
	act := instanceAct{verb: v, past: past, domain: &domain, devices: &in.Devices}
	act.input = func() contract.Input { return in }
	act.read = func(ctx context.Context, _ []string) error {
		if err := noneEmpty(flags, "host", "file", "domain", "request-id", "project", "address"); err != nil {
			return err
		}
		in.Devices, in.Requests = d.devices, d.requests
		if flags.Changed("file") {
			if other := firstGiven(flags, inTheFile...); other != "" {
				return usagef("--file and --%s exclude each other: write it in the file", other)
			}
			if file == "-" && domain == "-" {
				return usagef("--file and --domain cannot both be the standard input")
			}
			read, err := a.readInstanceFile(ctx, file)
			if err != nil {
				return err
			}
			if cmd.Name() != "bind" && (read.Project != "" || len(read.Addresses) > 0) {
				return usagef("%s: project and addresses are given when the instance is bound", file)
			}
			read.Request, read.Reason = in.Request, in.Reason
			in = read
		}
		in.Reason, in.Caller = strings.TrimSpace(in.Reason), operator()
		return normalized(&in)
	}
	return a.instanceVerb(cmd, act)
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
	cmd := &cobra.Command{Use: "detach UUID NAME…",
		Long: `A device leaves the document that the guest reads before its binding ends. Remove it from
the guest first: its data is erased.`,
		Example: "  burnish instance detach 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 h1_0000:03:00.0",
		Args: func(_ *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return usagef("UUID is missing")
			case 1:
				return usagef("NAME is missing: name the devices to detach, or use burnish instance release for all")
			}
			return nil
		}}
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the instance")
	act := instanceAct{verb: contract.VerbInstanceDetach, input: func() contract.Input { return in }}
	act.read = func(_ context.Context, names []string) error {
		in.Devices, in.Reason, in.Caller = names, strings.TrimSpace(in.Reason), operator()
		return normalized(&in)
	}
	act.saysPast = func() string { return "detached " + strings.Join(in.Devices, ", ") }
	return a.instanceVerb(cmd, act)
}

// instanceActCommand is a command that takes nothing but the instance.
func (a *app) instanceActCommand(cmd *cobra.Command, past string, v contract.Verb) *cobra.Command {
	var in contract.ReasonInput
	cmd.Args = oneName("UUID")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the instance")
	act := instanceAct{verb: v, past: past, input: func() contract.Input { return in }}
	act.read = func(context.Context, []string) error {
		in.Reason, in.Caller = strings.TrimSpace(in.Reason), operator()
		return nil
	}
	return a.instanceVerb(cmd, act)
}

func (a *app) instanceMoveCommand(cmd *cobra.Command, past string, v contract.Verb) *cobra.Command {
	var (
		d      deviceFlags
		in     contract.InstanceMoveInput
		domain string
		flags  = cmd.Flags()
	)
	cmd.Args = oneName("UUID")
	d.flags(flags, "`NAME[=TAG]`: the devices to take there: one for each of the instance's, in their order. Without "+
		"it free ones of the same type, vendor and model are taken. The roles' tags stay; a TAG must be the same")
	flags.StringVar(&in.To, "to", "", "`HOST`: where the instance moves")
	flags.StringVar(&domain, "domain", "", "`FILE`: libvirt's domain, as virsh dumpxml prints it, with the guest's "+
		"addresses; - is the standard input. Of a device with --guest, that counts")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the instance")
	act := instanceAct{verb: v, past: past, domain: &domain, devices: &in.Devices}
	act.input = func() contract.Input { return in }
	act.read = func(context.Context, []string) error {
		if in.To == "" {
			return usagef("--to is missing: name the host that the instance moves to")
		}
		in.Devices, in.Reason, in.Caller = d.devices, strings.TrimSpace(in.Reason), operator()
		return cmp.Or(noneEmpty(flags, "domain"), normalized(&in))
	}
	return a.instanceVerb(cmd, act)
}

func (a *app) instanceSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "print the JSON Schema of the document that guests read",
		Long:    "It needs no server.",
		Example: "  burnish instance schema > device-role-tagging.json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return a.print(string(metadata.Schema())) },
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

// instanceAct is what a command asks an instance for.
type instanceAct struct {
	verb contract.Verb
	// past is what was done, or saysPast says it; "" where the instance's phase does.
	past     string
	saysPast func() string
	// read reads the arguments behind the UUID, and checks the flags; input is then what is sent.
	read  func(ctx context.Context, args []string) error
	input func() contract.Input
	// domain is the file of a domain that says where the guest finds the devices; nil: none does.
	domain  *string
	devices *[]contract.DeviceChoice
}

// instanceVerb has a command ask an instance, and print its answer.
func (a *app) instanceVerb(cmd *cobra.Command, act instanceAct) *cobra.Command {
	cmd.Short = act.verb.About
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		instance, err := instanceArg(args[0])
		if err != nil {
			return err
		}
		if err := act.read(ctx, args[1:]); err != nil {
			return err
		}
		var found map[string][]contract.GuestAddress
		if act.domain != nil {
			if found, err = a.readDomain(ctx, *act.domain, *act.devices); err != nil {
				return err
			}
		}
		return a.devices(ctx, func(l deviceClient) error {
			if found != nil {
				if err := a.addDomain(ctx, l, found, *act.devices); err != nil {
					return err
				}
			}
			rctx, cancel := a.requestContext(ctx)
			defer cancel()
			result, err := l.DoInstance(rctx, instance, act.verb, act.input())
			if err != nil {
				return a.explainOf(ctx, l, subject{instance: instance}, err)
			}
			if act.saysPast != nil {
				act.past = act.saysPast()
			}
			return a.emit(result, func() string { return instanceLine(instance, act.past, result) + "\n" })
		})
	}
	return cmd
}

// normalized puts an input into its one form.
func normalized[I interface{ Normalize() (I, error) }](in *I) error {
	checked, err := (*in).Normalize()
	if err != nil {
		return usagef("%s", err)
	}
	*in = checked
	return nil
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
