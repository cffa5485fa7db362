package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/workflows/contract"
)

func (a *app) stepsCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "steps NAME",
		Short:   "list the steps of a device's full clean, in order",
		Long:    "The table also lists the arguments that clean --arg and runbooks may give each step.",
		Example: "  burnish steps h1_0000:01:00.0 -o json",
		Args:    oneName("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStatus(cmd.Context(), args[0], func(v contract.DeviceStatus) error {
				planned := append([]contract.CleanStep{}, v.Steps...)
				return a.emit(planned, func() string {
					rows := [][]string{{"STEP", "PRIORITY", "INTERFACE"}}
					for _, s := range planned {
						rows = append(rows, []string{s.Step, priority(s), s.Interface})
					}
					withArguments(rows)
					return a.columns(rows)
				})
			})
		},
	}
}

// schemaText lists the arguments that an operator may give a step, for people.
func schemaText(s clean.Schema) string {
	var parts []string
	for _, a := range s.Args {
		if a.From != clean.PolicyOnly {
			parts = append(parts, a.Name+" ("+string(a.Kind)+")")
		}
	}
	if s.Open != "" {
		parts = append(parts, s.Open)
	}
	return strings.Join(parts, ", ")
}

// withArguments adds to a table of steps what each takes, where one takes any.
func withArguments(rows [][]string) {
	takes := map[string]string{}
	for _, step := range steps.All() {
		takes[step.Name] = schemaText(step.Args)
	}
	if !slices.ContainsFunc(rows, func(row []string) bool { return takes[row[0]] != "" }) {
		return
	}
	rows[0] = append(rows[0], "ARGUMENTS")
	for i, row := range rows[1:] {
		rows[i+1] = append(row, takes[row[0]])
	}
}
