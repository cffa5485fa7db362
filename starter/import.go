package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// importPage is how many devices one query returns.
const importPage = 1000

func (a *app) importCommand() *cobra.Command {
	var (
		from, cloud string
		e           enrollment
		set         []string
		dry         bool
	)
	cmd := &cobra.Command{
		Use:         "import --from placement",
		Annotations: forms("import --from FILE\nimport check"),
		Short:       "enroll devices that another service already allocates; add an exported history",
		Long: `--from FILE adds the labels, cleans and acts that burnish export kept to the devices that are
enrolled. It decides nothing: who has a device, and whether it is clean, say its host and
its inventory. What a device has already, or has not counted, is left out.

With --from placement an imported device is in state unknown until Placement answers. It then becomes allocated
if it is in use, pending_cleaning if it is reserved and unused, and otherwise available.
Start the worker of its host first; its host.yaml must allow the device. A device that is
enrolled with owner=self already is refused.

  check    list devices in state unknown: exit code 0 if there are none, otherwise 1`,
		Example: `  burnish import --from placement --host h1 --dry-run
  burnish import --from placement && burnish import check
  burnish import --from /var/backups/burnish.json --dry-run`,
		Args: cobra.ArbitraryArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "`SOURCE`: placement, every device that has a one-time-use provider of Nova and is not "+
		"enrolled; sets owner=nova. Or the file of an export: only --reason and --dry-run go with it")
	flags.StringVar(&cloud, "cloud", "", "`C`: the cloud, if control workers serve several")
	flags.StringVar(&e.Host, "host", "", "`H`: only devices on this host")
	flags.StringVar(&e.Driver, "driver", "nvme", "`D`: the driver that cleans them")
	flags.StringVar(&e.Type, "type", "", "`T`: their type (from the driver: nvme NVME)")
	flags.StringArrayVar(&set, "set", nil, "`k=v[,k=v…]`: a setting of the driver; repeatable")
	flags.BoolVar(&dry, "dry-run", false, "print what would be imported")
	reasonFlag(cmd, &e.reason, "`TEXT`: why; kept with each device")
	cmd.AddCommand(a.importCheckCommand())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := noArgs(cmd, args); err != nil {
			return err
		}
		if from == "" {
			return usagef("--from is missing: placement, or the file of an export")
		}
		if from != "placement" {
			if other := firstGiven(cmd.Flags(), "cloud", "host", "driver", "type", "set"); other != "" {
				return usagef("--%s goes with --from placement only", other)
			}
			return a.importHistory(cmd.Context(), from, e.reason, dry)
		}
		if e.Driver == "" {
			return usagef("--driver is empty")
		}
		var err error
		if e.Set, err = settings(set); err != nil {
			return usagef("%s", err)
		}
		if _, ok := e.Set[settingOwner]; ok {
			return usagef("--set owner: an imported device always has the owner nova")
		}
		return a.devices(cmd.Context(), func(l deviceClient) error {
			found, err := a.candidates(cmd.Context(), l, cloud, strings.ToLower(e.Host))
			if err != nil {
				return err
			}
			return a.importAll(cmd.Context(), l, e, found, dry)
		})
	}
	return cmd
}

// importAll imports the devices that were found; with dry it only prints them.
func (a *app) importAll(ctx context.Context, l deviceClient, like enrollment, found []contract.Candidate,
	dry bool) error {
	if len(found) == 0 && a.format == formatTable {
		return a.print("nothing to import: every one-time-use device is enrolled\n")
	}
	return a.forEachDevice(len(found), parallelism, false, func(i int) outcome {
		one := found[i]
		if one.Host == "" {
			return done(one.Name, one.Name+": skipped: its provider's name does not have Nova's form HOST_ADDRESS")
		}
		if one.Enrolled != "" {
			return failed("import", one.Name, failf(device.CodeRefused, "once no instance uses it: burnish retire "+one.Name+
				" && burnish forget "+one.Name+", then import it",
				"it is enrolled with owner %s, and Nova has a provider for it too", one.Enrolled))
		}
		if one.Fault != nil {
			f := ofFault(*one.Fault)
			f.message = "its provider " + one.Provider + " cannot be read: " + f.message
			f.remedy = "import it once Placement answers: " + f.remedy
			return failed("import", one.Name, f)
		}
		e := like
		e.Name, e.Host, e.Address, e.OneTimeUse = "", one.Host, one.Address, true
		in, err := e.input()
		if err != nil {
			return failed("import", one.Name, usagef("%s", err))
		}
		in.Enrollment.Owner, in.Import, in.Provider = device.OwnerNova, true, one.Provider
		if dry {
			return done(one.Name, fmt.Sprintf("%s: would be imported: reserved=%d of %d, used=%d", one.Name, one.Reserved,
				one.Total, one.Used))
		}
		return a.enrolled(ctx, l, "import", "imported", in)
	})
}

// candidates asks the cloud's workflow what could be imported.
func (a *app) candidates(ctx context.Context, l deviceClient, cloud, host string) ([]contract.Candidate, error) {
	if cloud == "" {
		var err error
		none := failf(device.CodeInventoryInvalid, "start one with BURNISH_INVENTORY=placement",
			"no control worker serves a Placement")
		if cloud, err = a.onlyServed(ctx, l, "a Placement", "cloud", l.Clouds, none); err != nil {
			return nil, err
		}
	}
	var all []contract.Candidate
	in := contract.CandidatesInput{Host: host, Limit: importPage}
	for {
		found, err := served(ctx, a, "a cloud named "+cloud, func(ctx context.Context) (contract.Candidates, error) {
			return l.Candidates(ctx, cloud, in)
		})
		if client.NotFound(err) {
			return nil, failf(device.CodeNotFound, "the name is that of OS_CLOUD there, or default",
				"no control worker serves a cloud named %q", cloud)
		}
		if err != nil {
			return nil, a.explain(ctx, l, "", err)
		}
		all = append(all, found.Devices...)
		if !found.More || len(found.Devices) == 0 {
			return all, nil
		}
		in.After = found.Devices[len(found.Devices)-1].Name
	}
}

func (a *app) importCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "check",
		Short:   "list devices that are still in state unknown, and providers that could not be read",
		Long:    "Exit code 0 if there is neither, otherwise 1. The providers are those of the last\nreconciliation.",
		Example: "  burnish import check",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.devices(cmd.Context(), func(l deviceClient) error {
				views, err := a.find(cmd.Context(), l, &filter{by: client.Filter{client.ByState: client.States(device.Unknown)}})
				if err != nil {
					return err
				}
				unreadable, err := a.unreadable(cmd.Context(), l)
				if err != nil {
					return err
				}
				err = a.emit(deviceList{Devices: views}, func() string {
					if len(views) == 0 {
						return "no device is in state unknown\n"
					}
					return a.listing(views)
				})
				switch {
				case err != nil:
					return err
				case len(unreadable) > 0:
					return failf(device.CodeInventoryUnavailable,
						"the next reconciliation tries again; see the workflow placement/<cloud> in the Web UI",
						"%d devices are in state unknown, and the last reconciliation could not read: %s", len(views),
						strings.Join(unreadable, "; "))
				case len(views) == 0:
					return nil
				}
				return failf(device.CodeRefused, "see burnish show for each; the inventory must answer",
					"%d devices are in state unknown", len(views))
			})
		},
	}
}

// unreadable names the providers that the last reconciliation of each cloud could not read.
func (a *app) unreadable(ctx context.Context, l deviceClient) (all []string, err error) {
	clouds, err := ask(ctx, a, l, "", l.Clouds)
	if err != nil {
		return nil, err
	}
	for _, cloud := range clouds {
		state, err := ask(ctx, a, l, "", func(ctx context.Context) (contract.InventoryReconcileState, error) {
			return l.ReconcileState(ctx, cloud)
		})
		if err != nil {
			return nil, err
		}
		for _, one := range state.Unreadable {
			all = append(all, one.Name+" ("+one.What+")")
		}
	}
	return all, nil
}
