package main

import (
	"context"

	"github.com/spf13/cobra"

	"burnish/workflows/contract"
)

// deviceList is the listing for programs.
type deviceList struct {
	Devices []contract.DeviceStatus `json:"devices"`
}

func (a *app) listCommand() *cobra.Command {
	var (
		f       filter
		columns []string
		sortBy  string
		watch   bool
	)
	o := listOutput{format: &a.format}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list devices",
		Long: `STEP is the running step, or queued:N for place N in the queue of the limits; show says why.
AGE is the time since the device last changed. A listing may miss a device
that changes while the list is read. show is exact.

On a terminal that is too narrow, columns fall away; into a pipe or file all are written.
-o wide has more of them. The columns, of which --columns chooses any, and by one of which
--sort-by sorts, downwards as -COLUMN:

` + columnLines() + `

-o jsonpath=TEMPLATE prints parts of the object that -o json prints, as kubectl does. With
--watch it prints parts of one device.`,
		Example: `  burnish list --state error,pending_cleaning --host h1
  burnish list --needs-operator -o json
  burnish list --columns name,model,serial --sort-by -age
  burnish list -o jsonpath='{range .devices[*]}{.name}{"\n"}{end}'
  burnish list --host h1 --watch`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd.Flags()); err != nil {
				return err
			}
			s, err := shaped(o.wide, columns, sortBy)
			if err != nil {
				return err
			}
			return a.devices(cmd.Context(), func(l deviceClient) error {
				if watch {
					return a.watchList(cmd.Context(), l, &f, o, s)
				}
				views, err := a.find(cmd.Context(), l, &f)
				if err != nil {
					return err
				}
				limits := a.withPlaces(cmd.Context(), l, views)
				if f.needsOperator && limits.Limits == nil {
					limits = a.limits(cmd.Context(), l, "")
				}
				a.noteAlarms(limits.Alarms)
				return a.emitList(o, s, deviceList{Devices: views})
			})
		},
	}
	flags := cmd.Flags()
	f.selectors(flags)
	flags.BoolVar(&f.needsOperator, "needs-operator", false, "only those that need an operator")
	flags.BoolVar(&f.awaitingCleaning, "awaiting-cleaning", false, "only those that wait for a clean: pending_cleaning, and error while dirty")
	flags.BoolVar(&f.oneTimeUse, "one-time-use", false, "only those that are cleaned after every tenant")
	flags.BoolVar(&f.all, "all", false, "include retired devices")
	flags.VarP(&o, "output", "o", "`FORMAT`: table, wide, name, json, yaml or jsonpath=TEMPLATE")
	flags.StringSliceVar(&columns, "columns", nil, "`A,B`: show these columns, in this order")
	flags.StringVar(&sortBy, "sort-by", "", "`COLUMN`: sort by this column, or by -COLUMN downwards (by name)")
	flags.BoolVarP(&watch, "watch", "w", false, "print a device again whenever it changes, until Ctrl-C")
	return cmd
}

// find gives the devices that match the filter, from the listing alone: no workflow
// is queried.
func (a *app) find(ctx context.Context, l deviceClient, f *filter) ([]contract.DeviceStatus, error) {
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	found, err := l.List(rctx, f.query())
	if err != nil {
		return nil, a.explain(ctx, l, "", err)
	}
	return f.keep(found), nil
}
