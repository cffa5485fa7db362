package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// exported is the file of export: what only Temporal's database knows of devices.
type exported struct {
	ExportedAt time.Time        `json:"exported_at"`
	Server     client.Server    `json:"server"`
	Devices    []exportedDevice `json:"devices"`
}

type exportedDevice struct {
	contract.History
	Labels map[string]string `json:"labels,omitempty"`
}

func (a *app) exportCommand() *cobra.Command {
	var file string
	f := &filter{all: true}
	cmd := &cobra.Command{
		Use:   "export -o FILE",
		Short: "keep what only Temporal knows of the devices: labels, cleans, acts, bindings",
		Long: `For the day on which Temporal's database is lost without a backup: hosts and inventories know
the devices and who has them, and burnish import --from FILE adds the labels and the history.
FILE is JSON, - for the standard output; it is replaced as a whole. If a device did not
answer, FILE has the others, and the exit code is not 0.`,
		Example: "  burnish export -o /var/backups/burnish.json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("--output FILE is missing; - is the standard output")
			}
			a.format = formatTable
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			return a.devices(cmd.Context(), func(l deviceClient) error { return a.export(cmd.Context(), l, f, file) })
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "`FILE`: where it is written")
	fieldFlags(cmd.Flags(), selectedBy)
	return cmd
}

// export writes what the devices answer, and says which did not.
func (a *app) export(ctx context.Context, l deviceClient, f *filter, file string) error {
	found, err := a.find(ctx, l, f)
	if err != nil {
		return err
	}
	server, err := l.Server(ctx)
	if err != nil {
		return a.explain(ctx, l, "", err)
	}
	all := exported{ExportedAt: a.now().UTC().Truncate(time.Second), Server: server, Devices: []exportedDevice{}}
	devices, outcomes := make([]*exportedDevice, len(found)), make([]outcome, len(found))
	parallel(len(found), parallelism, func(i int) {
		v, err := a.queried(ctx, l, found[i].Name)
		if err != nil {
			outcomes[i] = failed("export", found[i].Name, err)
			a.report(outcomes[i].failure)
			return
		}
		devices[i], outcomes[i] = &exportedDevice{contract.HistoryOf(v), v.Labels}, done(v.Name, "")
	})
	for _, d := range devices {
		if d != nil {
			all.Devices = append(all.Devices, *d)
		}
	}
	slices.SortFunc(all.Devices, func(x, y exportedDevice) int { return strings.Compare(x.Name, y.Name) })
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	if file == "-" {
		err = a.print(string(text) + "\n")
	} else if err = atomicfile.Write(file, append(text, '\n')); err != nil {
		err = failf(device.CodeIO, "name a file that can be written", "%s", err)
	}
	if err != nil {
		return err
	}
	return summary(outcomes)
}

// importHistory adds what a file of export has to the devices that are enrolled.
func (a *app) importHistory(ctx context.Context, file, reason string, dry bool) error {
	text, err := a.readFile(ctx, file)
	if err != nil {
		return err
	}
	var kept exported
	if err := json.Unmarshal(text, &kept); err != nil || kept.ExportedAt.IsZero() {
		return usagef("%s is not what burnish export wrote", file)
	}
	return a.devices(ctx, func(l deviceClient) error {
		return a.forEachDevice(len(kept.Devices), parallelism, false, func(i int) outcome {
			d := kept.Devices[i]
			o := action{verb: contract.VerbImportHistory, does: "add the history to", done: "imported",
				in: contract.ImportHistoryInput{Labels: d.Labels, Cleans: d.Cleans, Acts: d.Acts, Reason: reason,
					Caller: operator()}}
			if dry {
				return a.dryRunOne(ctx, l, d.Name, o)
			}
			result, err := a.send(ctx, l, d.Name, o)
			return outcomeOf("import", d.Name, o.line(d.Name, result), err)
		})
	})
}
