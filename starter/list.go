package main

import (
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
		Use:   "list [NAME…]",
		Short: "list devices",
		Long: `STEP is the running step, or queued:N for place N in the queue of the limits; show says why.
AGE is the time since the device last changed. A listing may miss a device
that changes while the list is read. show is exact.

A NAME may be a pattern in quotes: * is any text, ? one character, [ab] one of several. The
values of one flag are alternatives, and all flags must match. A SELECTOR is KEY=VALUE,
KEY!=VALUE, KEY (any value) or !KEY (none); of several with commas, all must match.

On a terminal that is too narrow, columns fall away; into a pipe or file all are written.
-o wide has more of them. The columns, of which --columns chooses any, and by one of which
--sort-by sorts, downwards as -COLUMN:

` + columnLines() + `

-o jsonpath=TEMPLATE prints parts of the object that -o json prints, as kubectl does. With
--watch it prints parts of one device.`,
		Example: `  burnish list --state error,pending_cleaning --host h1
  burnish list 'h1_*' --label rack=a1 --older-than 2d
  burnish list --needs-operator -o json
  burnish list --columns name,model,serial --sort-by -age
  burnish list -o jsonpath='{range .devices[*]}{.name}{"\n"}{end}'
  burnish list --host h1 --watch`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.setNames(args); err != nil {
				return err
			}
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
	flags.BoolVar(&f.awaitingCleaning, "awaiting-cleaning", false,
		"only those that wait for a clean: pending_cleaning, and error while dirty")
	flags.BoolVar(&f.oneTimeUse, "one-time-use", false, "only those that are cleaned after every tenant")
	flags.BoolVar(&f.all, "all", false, "include retired devices")
	flags.VarP(&o, "output", "o", "`FORMAT`: table, wide, name, json, yaml or jsonpath=TEMPLATE")
	flags.StringSliceVar(&columns, "columns", nil, "`A,B`: show these columns, in this order")
	flags.StringVar(&sortBy, "sort-by", "", "`COLUMN`: sort by this column, or by -COLUMN downwards (by name)")
	flags.BoolVarP(&watch, "watch", "w", false, "print a device again whenever it changes, until Ctrl-C")
	return cmd
}
