package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

func (a *app) instanceCommand() *cobra.Command {
	cmd := parent(&cobra.Command{
		Use:   "instance COMMAND",
		Short: "several devices of one instance, with their roles; its moves",
		Long: `An instance gets all the devices of a request, or none, and keeps their roles when it
moves to another host. See burnish instance COMMAND --help.`,
		Example: "  burnish instance show 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
	})
	for _, v := range contract.InstanceVerbs {
		cmd.AddCommand(a.instanceVerbCommand(v))
	}
	cmd.AddCommand(a.instanceShowCommand(), a.configDriveCommand(), a.instanceSchemaCommand())
	return cmd
}

// instanceVerbCommand is the command of a verb of an instance.
func (a *app) instanceVerbCommand(v contract.Verb) *cobra.Command {
	c := newVerbCommand("instance ", v)
	a.extend(c)
	inputFlags(c.cmd.Flags(), c.in, v.Command.Reason)
	c.cmd.Args = oneName("UUID")
	if c.words != nil { // of which there may be more
		c.cmd.Args = func(_ *cobra.Command, args []string) error { return oneName("UUID")(c.cmd, args[:min(len(args), 1)]) }
	}
	c.cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		instance, err := instanceID(args[0])
		if err != nil {
			return err
		}
		if c.words != nil {
			if _, err := c.words(args[1:]); err != nil {
				return err
			}
		}
		o := action{verb: v, done: v.Command.Done}
		if err := c.complete(&o); err != nil {
			return err
		}
		devices := chosen(o.in)
		found, err := a.readDomain(ctx, c.domain, devices)
		if err != nil {
			return err
		}
		return a.devices(ctx, func(l deviceClient) error {
			if err := a.addDomain(ctx, l, found, devices); err != nil {
				return err
			}
			rctx, cancel := a.requestContext(ctx)
			defer cancel()
			result, err := l.DoInstance(rctx, instance, v, o.in)
			if err != nil {
				return a.explainOf(ctx, l, subject{instance: instance}, err)
			}
			if detached, ok := o.in.(contract.InstanceDetachInput); ok {
				o.done += " " + strings.Join(detached.Devices, ", ")
			}
			return a.emit(result, func() string { return instanceLine(instance, o.done, result) + "\n" })
		})
	}
	return c.cmd
}

// chosen are the devices that an input names with their roles.
func chosen(in contract.Input) []contract.DeviceChoice {
	switch in := in.(type) {
	case contract.InstanceBindInput:
		return in.Devices
	case contract.InstanceMoveInput:
		return in.Devices
	}
	return nil
}

// takesDevices reads what an instance gets: devices, requests for some, or a file of both.
func (a *app) takesDevices(c *verbCommand, in *contract.InstanceBindInput) {
	var (
		d     deviceFlags
		file  string
		flags = c.cmd.Flags()
	)
	d.flags(flags, "`NAME[=TAG]`: a device, and its role in the guest; repeatable. A TAG has 1 to 60 characters, but "+
		"no comma and no slash")
	flags.Func("request",
		"`type=T[,count=N][,trait=HW_X]…[,vendor=V][,model=M][,tag=TAG]`: free devices, which Burnish picks, all on one "+
			"host; repeatable, and so is trait. With live_migratable=true only such devices", d.addRequest)
	flags.StringVar(&in.Host, "host", "", "`HOST`: where the requested devices are")
	flags.StringVarP(&file, "file", "f", "", "`FILE`: YAML with devices, requests, host, project and addresses; - is "+
		"the standard input")
	c.domainFlag()
	flags.StringVar(&in.Request, "request-id", "", "`ID`: a repeated request with the same one "+
		"binds nothing more, until the instance is released. It knows its last 500")
	binds := c.verb.Name == contract.VerbInstanceBind.Name
	if binds {
		flags.StringVar(&in.Project, "project", "", "`ID`: the instance's project, for the metadata service")
		flags.StringArrayVar(&in.Addresses, "address", nil,
			"`IP`: an address of the guest, for the metadata service; repeatable")
	}
	c.check = func(*action) error {
		if err := noneEmpty(flags, "host", "file", "domain", "request-id", "project", "address"); err != nil {
			return err
		}
		in.Devices, in.Requests = d.devices, d.requests
		if !flags.Changed("file") {
			return nil
		}
		other := firstGiven(flags, "device", "guest", "request", "host", "project", "address")
		switch {
		case other != "":
			return usagef("--file and --%s exclude each other: write it in the file", other)
		case file == "-" && c.domain == "-":
			return usagef("--file and --domain cannot both be the standard input")
		}
		read, err := a.readInstanceFile(c.cmd.Context(), file)
		if err != nil {
			return err
		}
		if !binds && (read.Project != "" || len(read.Addresses) > 0) {
			return usagef("%s: project and addresses are given when the instance is bound", file)
		}
		read.Request, read.Reason = in.Request, in.Reason
		*in = read
		return nil
	}
}

// movesInstance reads where an instance goes, and which devices it takes there.
func (c *verbCommand) movesInstance(in *contract.InstanceMoveInput) {
	var d deviceFlags
	flags := c.cmd.Flags()
	d.flags(flags, "`NAME[=TAG]`: the devices to take there: one for each of the instance's, in their order. Without "+
		"it free ones of the same type, vendor and model are taken. The roles' tags stay; a TAG must be the same")
	flags.StringVar(&in.To, "to", "", "`HOST`: where the instance moves")
	c.domainFlag()
	c.check = func(*action) error {
		if in.To == "" {
			return usagef("--to is missing: name the host that the instance moves to")
		}
		in.Devices = d.devices
		return noneEmpty(flags, "domain")
	}
}

// domainFlag is where the guest finds the devices, by its hypervisor.
func (c *verbCommand) domainFlag() {
	c.cmd.Flags().StringVar(&c.domain, "domain", "", "`FILE`: libvirt's domain, as virsh dumpxml prints it, with the "+
		"guest's addresses; - is the standard input. Of a device with --guest, that counts")
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
