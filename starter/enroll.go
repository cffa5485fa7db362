package main

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/internal/yamlfile"
	"burnish/workflows/contract"
)

func (a *app) enrollCommand() *cobra.Command {
	var (
		e    enrollment
		set  []string
		file string
		pool fromPool
		// labels are those of --label.
		labels []string
	)
	cmd := &cobra.Command{
		Use: "enroll NAME --host H --driver D",
		Annotations: forms("enroll --host H --driver D --address PCI", "enroll -f FILE",
			"enroll --from oneview --host H --driver D --template URI"),
		Short: "take devices into service: one by flags, or many from a file",
		Long: `A device that is already enrolled does not change. FILE is YAML. For an invalid entry it
prints the line and the error; the other entries are enrolled:

  devices:
    - {name: d1, host: h1, driver: fake, set: {size: 64MiB}, provide: true}
    - {address: "0000:01:00.0", host: h1, driver: block, set: {path: /dev/sdb}}

keys: ` + strings.Join(yamlfile.Keys(reflect.TypeFor[enrollment]()), " "),
		Example: `  burnish enroll d1 --host h1 --driver fake --set size=64MiB,delay=200ms --provide
  burnish enroll --from oneview --filter model='*Gen10*' --host h1 --driver redfish \
    --set url=https://ilo{serial}.example/redfish/v1/Systems/1,secret=rack1 \
    --template /rest/server-profile-templates/6f0a --set dynamic_allocation=true --dry-run`,
		Args: cobra.ArbitraryArgs,
	}
	flags := cmd.Flags()
	inputFlags(flags, &e, "")
	flags.StringArrayVar(&set, "set", nil, "`k=v[,k=v…]`: a setting of the driver; repeatable. owner=self|nova: who "+
		"allocates the device (self). A server of a shared pool (type NODE): oneview=APPLIANCE, "+
		"server_hardware_uri=/rest/server-hardware/…, server_profile_template_uri=/rest/server-profile-templates/… and "+
		"dynamic_allocation=true; without that it is pre-allocated")
	flags.StringArrayVar(&labels, "label", nil, "`KEY=VALUE`: a label, by which list and other commands select "+
		"devices; repeatable")
	flags.StringVarP(&file, "file", "f", "", "`FILE`: many devices, in YAML; - is the standard input")
	flags.StringVar(&pool.from, "from", "", "`oneview`: the servers of an appliance that are not enrolled, as NODEs of "+
		"its pool. A NAME is the server's name and serial number. Values of --set may contain {name}, {serial} and {uuid}")
	flags.StringVar(&pool.appliance, "appliance", "", "`A`: with --from, the appliance, if control workers serve several")
	flags.StringVar(&pool.template, "template", "",
		"`URI`: with --from, the profile template, /rest/server-profile-templates/…")
	flags.StringArrayVar(&pool.filters, "filter", nil,
		"`KEY=VALUE`: with --from, only servers that match: name, serial, model, type, group; * is any text; repeatable")
	flags.BoolVar(&pool.dryRun, "dry-run", false, "ask the server, and print what would be enrolled, and what would be "+
		"refused")
	flags.BoolVarP(&pool.yes, "yes", "y", false,
		"with --from: do not ask. It asks above 10 devices, and with --provide always")
	reasonFlag(cmd, &e.reason, "`TEXT`: why; kept with each device")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.Changed("file") {
			inTheFile := slices.Concat(flagsOf(&e), []string{"set", "label", "from"}, fromFlags)
			if other := firstGiven(flags, inTheFile...); other != "" {
				return usagef("--file and --%s exclude each other: write it in the file", other)
			}
			if len(args) > 0 {
				return usagef("--file and NAME exclude each other: write the device in the file")
			}
			return a.enrollFile(cmd.Context(), file, e.reason, pool.dryRun)
		}
		if len(args) > 1 {
			return usagef("takes one NAME, not %d: use --file for many", len(args))
		}
		if len(args) == 1 {
			if args[0] == "" {
				return usagef("NAME is empty")
			}
			e.Name = args[0]
		}
		var err error
		if e.Set, err = settings(set); err != nil {
			return usagef("%s", err)
		}
		if e.Labels, err = labelsOf(labels); err != nil {
			return usagef("--label: %s", err)
		}
		if flags.Changed("from") {
			if e.Name != "" || e.Address != "" {
				return usagef("--from excludes NAME and --address: the servers give the names")
			}
			return a.enrollFrom(cmd.Context(), e, pool)
		}
		if other := firstGiven(flags, fromFlags...); other != "" {
			return usagef("--%s goes with --from", other)
		}
		in, err := e.input()
		if err != nil {
			return usagef("%s", err)
		}
		return a.devices(cmd.Context(), func(l deviceClient) error {
			if pool.dryRun {
				enrolled, err := a.enrolledNow(cmd.Context(), l, true)
				if err != nil {
					return err
				}
				return a.forEachDevice(1, 1, false, func(int) outcome { return a.wouldEnroll(cmd.Context(), l, enrolled, in) })
			}
			result, err := a.enroll(cmd.Context(), l, in)
			if err != nil {
				return err
			}
			return a.emit(result, func() string {
				return resultLine(in.Enrollment.Name, "enrolled", result) + "\n"
			})
		})
	}
	return cmd
}

// enroll enrolls one device.
func (a *app) enroll(ctx context.Context, l deviceClient, in contract.EnrollInput) (contract.Result, error) {
	in.Caller = operator()
	return a.send(ctx, l, in.Enrollment.Name, action{verb: contract.VerbEnroll, in: in})
}

// enrolled is enroll for one of several devices.
func (a *app) enrolled(ctx context.Context, l deviceClient, command, done string, in contract.EnrollInput) outcome {
	result, err := a.enroll(ctx, l, in)
	name := in.Enrollment.Name
	return outcomeOf(command, name, resultLine(name, done, result), err)
}

// enrollFile enrolls the devices of a fleet file, and prints a line for each in their order.
func (a *app) enrollFile(ctx context.Context, path, reason string, dry bool) error {
	data, err := a.readFile(ctx, path)
	if err != nil {
		return err
	}
	entries, err := parseFleet(data)
	if err != nil {
		return usagef("%s: %s", path, err)
	}
	all := func(l deviceClient) error {
		enrolled, err := a.enrolledNow(ctx, l, dry)
		if err != nil {
			return err
		}
		return a.forEachDevice(len(entries), parallelism, true, func(i int) outcome {
			entry := entries[i]
			if entry.err != nil {
				f := usagef("%s: %s", path, entry.err)
				f.exit = exitFailed
				return failed("enroll", entry.name, f)
			}
			entry.input.Reason = reason
			if dry {
				return a.wouldEnroll(ctx, l, enrolled, entry.input)
			}
			return a.enrolled(ctx, l, "enroll", "enrolled", entry.input)
		})
	}
	for _, entry := range entries {
		if entry.err == nil {
			return a.devices(ctx, all)
		}
	}
	return all(nil) // no valid entry: no connection is needed
}

// resultLine describes the result of a request in one line.
func resultLine(name, what string, r contract.Result) string {
	line, state := name+": "+what, string(r.Device.DeviceState)
	if r.Already {
		line = name + ": already " + what
	}
	switch {
	case what == r.Note: // forgotten: it has no state any more
		return oneLine(line)
	case what == state, state == "": // its workflow has ended
	case strings.HasPrefix(r.Note, "waiting "):
		return oneLine(line + ", " + r.Note)
	case r.Already || what == contract.VerbMaintain.Command.Done:
		line += " (state: " + state + ")"
	default:
		line += ", now " + state
	}
	if r.Note != "" {
		line += "; " + r.Note
	}
	return oneLine(line)
}

// enrolledNow are the devices that are enrolled, if a dry run needs them.
func (a *app) enrolledNow(ctx context.Context, l deviceClient, dry bool) (map[string]contract.DeviceStatus, error) {
	enrolled := map[string]contract.DeviceStatus{}
	if !dry || l == nil { // no entry is valid
		return enrolled, nil
	}
	found, err := a.find(ctx, l, &filter{all: true})
	for _, v := range found {
		enrolled[v.Name] = v
	}
	return enrolled, err
}

// wouldEnroll says what an enrollment would do, as far as the server knows it: whether the host
// finds the device shows only when it is enrolled.
func (a *app) wouldEnroll(ctx context.Context, l deviceClient, enrolled map[string]contract.DeviceStatus,
	in contract.EnrollInput) outcome {
	e := in.Enrollment
	if have, ok := enrolled[e.Name]; ok {
		if what := differs(have, e); what != "" {
			return failed("enroll", e.Name, failf(device.CodeAlreadyExists, "retire "+e.Name+" and forget it first",
				"would be refused: the device is already enrolled with %s", what).about(e.Name, have.DeviceState))
		}
		line := fmt.Sprintf("%s: is already enrolled (state: %s)", e.Name, have.DeviceState)
		if in.Provide && have.DeviceState == device.Manageable {
			line += "; would be provided"
		}
		return done(e.Name, oneLine(line))
	}
	if err := a.hostPolls(ctx, l, e.Name, e.Host); err != nil {
		return failed("enroll", e.Name, err)
	}
	line := fmt.Sprintf("%s: would be enrolled on host %s with driver %s", e.Name, e.Host, e.Driver)
	if in.Provide {
		line += ", and provided"
	}
	return done(e.Name, oneLine(line+"; if its host finds the device, and allows it"))
}

// differs says in what an enrolled device differs from an enrollment; "": in nothing that the
// listing shows.
func differs(have contract.DeviceStatus, want contract.Enrollment) string {
	switch {
	case !strings.EqualFold(have.Hostname, want.Host):
		return "another host: " + have.Hostname
	case have.Driver != want.Driver:
		return "another driver: " + have.Driver
	case have.Owner != want.Owner:
		return "another owner: " + string(have.Owner)
	case have.OneTimeUse != want.OneTimeUse:
		return fmt.Sprintf("another one-time-use: %t", have.OneTimeUse)
	}
	return ""
}
