package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (a *app) labelCommand() *cobra.Command {
	var in contract.LabelInput
	var changes []string
	cmd := a.actCommand(&cobra.Command{
		Use:   "label NAME… KEY=VALUE… KEY-…",
		Short: "change the labels of devices",
		Long: `KEY=VALUE sets a label, and KEY- removes it. Keys and values have at most 63 letters, digits
and - _ . , and a device has at most 16 labels. They select devices by --label, and decide
nothing.`,
		Example: `  burnish label h1_0000:01:00.0 rack=a1 tier=gold
  burnish label --host h1 rack=a2 tier- --overwrite`,
	}, func() (action, error) {
		change, err := device.ParseLabelChange(changes)
		if err != nil {
			return action{}, usagef("%s", err)
		}
		change.Overwrite = in.Overwrite
		in.LabelChange, in.Caller = change, operator()
		return action{verb: "label", done: "labeled", send: request(deviceClient.Label, in)}, nil
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		first := slices.IndexFunc(args, func(arg string) bool { return strings.Contains(arg, "=") || strings.HasSuffix(arg, "-") })
		if first < 0 {
			return usagef("a label is missing: give KEY=VALUE, or KEY- to remove it")
		}
		changes = args[first:]
		return run(cmd, args[:first])
	}
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the device")
	cmd.Flags().BoolVar(&in.Overwrite, "overwrite", false, "give a label that a device has another value")
	return cmd
}

// labelsOf reads the labels of a device that is enrolled.
func labelsOf(texts []string) (map[string]string, error) {
	change, err := device.ParseLabelChange(texts)
	if err == nil && len(change.Remove) > 0 {
		err = fmt.Errorf("%s-: a device that is enrolled has no label to remove; give KEY=VALUE", change.Remove[0])
	}
	if err != nil || len(change.Set) == 0 {
		return nil, err
	}
	return change.Set, nil
}
