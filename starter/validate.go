package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"burnish/workflows/contract"
)

const validateUsage = `burnish validate: show what a clean would do on a device, or why it would not

usage: burnish validate NAME|UUID [flags]

      --steps A[,B…]        these steps alone, as clean takes them
      --arg [STEP.]KEY=VALUE
                            an argument of a step; may be repeated
      --runbook R           a runbook of the policy
  -o, --output table|json|yaml
      --timeout DURATION    (30s)

Without --steps and --runbook: the full clean. It plans by the policy of the control
worker that answers, and changes nothing. It does not say whether the device's state
allows the clean now. Exit code 1 if there is no plan.

example:
  burnish validate node1
  burnish validate node1 --steps bios_apply --arg BootMode=Uefi
`

func (a *app) validateCommand() *cobra.Command {
	var c cleanRequest
	cmd := &cobra.Command{
		Use:  "validate",
		Long: validateUsage,
		Args: oneName("NAME or UUID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := c.input(cmd.Flags())
			if err != nil {
				return err
			}
			return a.withDevice(cmd.Context(), args[0], func(l deviceClient, name string) error {
				if _, err := a.queryDevice(cmd.Context(), l, name); err != nil {
					return err
				}
				ctx, cancel := a.requestContext(cmd.Context())
				defer cancel()
				plan, err := l.Validate(ctx, name, in)
				if err != nil {
					return a.explain(cmd.Context(), l, name, err)
				}
				if f := plan.Fault; f != nil {
					return &failure{exit: exitFailed, code: f.Code, device: name, message: f.Message, remedy: f.Remedy}
				}
				return a.emit(plan, func() string { return planTable(plan) })
			})
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

// planTable is a plan for people.
func planTable(plan contract.CleanPlan) string {
	var b strings.Builder
	if plan.Operation != "" {
		fmt.Fprintf(&b, "method %s\n", plan.Operation)
	}
	if plan.Runbook != "" {
		fmt.Fprintf(&b, "runbook %s (%s)\n", plan.Runbook, plan.RunbookDigest)
	}
	rows := [][]string{{"STEP", "PRIORITY", "INTERFACE", "PHASE", "BUDGET", "ARGUMENTS"}}
	for _, s := range plan.Steps {
		var budget string
		if s.Timeout > 0 {
			budget = roundDuration(s.Timeout).String()
		}
		rows = append(rows, []string{s.Step, strconv.FormatFloat(s.Priority, 'f', -1, 64), s.Interface, s.Phase, budget, argsText(s.Args)})
	}
	return b.String() + columns(rows)
}
