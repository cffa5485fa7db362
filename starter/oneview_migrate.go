package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// migrateTimeout is the default limit for each device: a profile takes minutes to be removed.
const migrateTimeout = 15 * time.Minute

// migration is the report about one device.
type migration struct {
	Appliance string       `json:"appliance"`
	Hardware  string       `json:"server_hardware_uri"`
	State     device.State `json:"device_state"`
	// Profile is the URI of the profile on the server before the migration; only a dry run
	// reads it. Recorded is applied_server_profile_uri, Dynamic dynamic_allocation.
	Profile  string `json:"server_profile_uri,omitempty"`
	Recorded string `json:"applied_server_profile_uri"`
	Dynamic  bool   `json:"dynamic_allocation"`
}

// migrated says that nothing is left to do for a device of a pool.
func migrated(p contract.StatusPool) bool { return p.Dynamic && !p.Migrating }

func migrationOf(v contract.DeviceStatus) *migration {
	return &migration{Appliance: v.Pool.Appliance, Hardware: v.Pool.Hardware, State: v.DeviceState,
		Recorded: v.Pool.Profile, Dynamic: v.Pool.Dynamic}
}

func (a *app) oneviewMigrateCommand() *cobra.Command {
	var (
		appliance string
		c         selection
		reason    string
	)
	cmd := &cobra.Command{
		Use:   "migrate [NAME…]",
		Short: "give up the pre-allocation of servers",
		Long: `Without NAME: every device that is pre-allocated. A device with a tenant keeps its
profile, which is recorded as applied_server_profile_uri. The idle profile of an available
device is removed, after its server was switched off; the device is not offered meanwhile.
Of any other device the profile is recorded. Each is then dynamic. It may be interrupted
and repeated: what is dynamic already does not change. A failure does not stop the rest.
Without --timeout it waits 15m for each device; one that takes longer goes on.`,
		Example: `  burnish oneview migrate --dry-run
  burnish oneview migrate --appliance rack1 --yes -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case cmd.Flags().Changed("appliance") && appliance == "":
				return usagef("--appliance is empty")
			case appliance != "" && len(args) > 0:
				return usagef("NAMEs and --appliance exclude each other")
			}
			names, err := canonicalNames(args)
			if err != nil {
				return err
			}
			if !a.timeout.given {
				a.timeout.limit = migrateTimeout
			}
			return a.devices(cmd.Context(), func(l deviceClient) error {
				return a.migrate(cmd.Context(), l, &c, names, appliance, reason)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&appliance, "appliance", "", "`A`: only devices of this appliance")
	flags.BoolVar(&c.dryRun, "dry-run", false, "ask the appliance, and print what would be done")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask for confirmation above 10 devices")
	reasonFlag(cmd, &reason, "`TEXT`: why; kept with the device")
	return cmd
}

// migrate makes the named devices dynamic, or all that are pre-allocated.
func (a *app) migrate(ctx context.Context, l deviceClient, c *selection, names []string, appliance,
	reason string) error {
	if len(names) == 0 {
		before, err := a.preallocated(ctx, l, appliance)
		if err != nil {
			return err
		}
		if names = before; len(names) == 0 && a.format == formatTable {
			return a.print("nothing to migrate: no device" + ofAppliance(appliance) + " is pre-allocated\n")
		}
	}
	if !c.dryRun {
		ask := question{does: "migrate", n: len(names), above: asksAbove(contract.VerbMigratePool.May, true), yes: c.yes}
		ask.show = func() (string, error) {
			views, err := a.named(ctx, l, names)
			return a.affected(views), err
		}
		if err := a.confirm(ctx, ask); err != nil {
			return err
		}
	}
	return a.forEachDevice(len(names), parallelism, false, func(i int) outcome {
		line, report, err := a.migrateOne(ctx, l, names[i], reason, c.dryRun)
		o := outcomeOf("oneview migrate", names[i], oneLine(line), err)
		o.Migration = report
		return o
	})
}

// ofAppliance names the appliance whose devices are meant; "": all.
func ofAppliance(appliance string) string {
	if appliance == "" {
		return ""
	}
	return " of the appliance " + appliance
}

// preallocated are the names of the devices of an appliance, or of all, that are
// pre-allocated.
func (a *app) preallocated(ctx context.Context, l deviceClient, appliance string) ([]string, error) {
	found, err := a.listed(ctx, l, client.Filter{client.ByType: {contract.TypeNode}, client.ByState: client.InService()})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range found {
		if p := e.Status.Pool; p != nil && !migrated(*p) && (appliance == "" || p.Appliance == appliance) {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// migrateOne makes one device dynamic, or says what that would do.
func (a *app) migrateOne(ctx context.Context, l deviceClient, name, reason string, dryRun bool) (
	line string, report *migration, err error) {
	if f := notAsked(ctx, name); f != nil {
		return "", nil, f
	}
	v, silent, err := a.deviceStatus(ctx, l, name)
	switch {
	case err != nil:
		return "", nil, err
	case silent != "":
		return "", nil, failf(device.CodeTimeout, "start burnish-worker with BURNISH_ROLE=control or all",
			"no control worker answered; nothing was sent").about(name, v.DeviceState)
	case v.Pool == nil:
		return "", nil, failf(device.CodeRefused, "see server_hardware_uri of burnish enroll --help", "it is in no pool").
			about(name, v.DeviceState)
	}
	report = migrationOf(v)
	if migrated(*v.Pool) {
		return name + ": already dynamic", report, nil
	}
	if dryRun {
		found, err := a.readPool(ctx, l, v)
		if err != nil {
			return "", nil, err
		}
		report.Profile = found.Profile
		return name + ": " + wouldMigrate(v, found.Profile), report, nil
	}
	in := contract.ReasonInput{Reason: reason, Caller: operator()}
	result, err := a.send(ctx, l, name, action{verb: contract.VerbMigratePool, in: in})
	if err != nil {
		return "", nil, err
	}
	if result.Device.Pool != nil {
		report = migrationOf(result.Device)
	}
	return resultLine(name, "migrated", result), report, nil
}

// wouldMigrate says what the migration of a pre-allocated device would do (S4.34, S4.35).
func wouldMigrate(v contract.DeviceStatus, profile string) string {
	var what []string
	switch {
	case v.Pool.Migrating:
		what = append(what, "would go on with its migration")
	case profile == "":
		what = append(what, "no profile is on its server: would only become dynamic")
	case v.DeviceState == device.Available:
		what = append(what, "would switch its server off and remove the idle profile "+profile)
	case v.InstanceUUID != nil:
		what = append(what, fmt.Sprintf("instance %s has it: would record its profile %s", *v.InstanceUUID, profile))
	default:
		what = append(what, "would record its profile "+profile)
	}
	return strings.Join(append(what, "state "+string(v.DeviceState)), "; ")
}
