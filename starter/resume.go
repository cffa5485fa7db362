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

func (a *app) resumeCommand() *cobra.Command {
	var in contract.ResumeInput
	cmd := &cobra.Command{
		Use:   "resume --model M --step S",
		Short: "let the cleans of a model go on that wait for one step",
		Long: `The policy's limits stop a step on a model after some failures in a row, or when firmware
failed on its first device. The other cleans of the model then wait, reserved.`,
		Example: `  burnish resume --model "PowerEdge R740" --step bios_apply`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in.Model = strings.TrimSpace(in.Model); in.Model == "" {
				return usagef("--model is missing")
			}
			if in.Step = strings.TrimSpace(in.Step); in.Step == "" {
				return usagef("--step is missing")
			}
			in.Caller = operator()
			return a.devices(cmd.Context(), func(l deviceClient) error {
				result, err := ask(cmd.Context(), a, l, "", func(ctx context.Context) (contract.ResumeResult, error) {
					result, err := l.Resume(ctx, in)
					if client.NotFound(err) {
						err = failf(device.CodeNotFound, "see burnish list", "nothing is limited: the policy has no limits")
					}
					return result, err
				})
				if err != nil {
					return err
				}
				return a.emit(result, func() string {
					if result.Already {
						return fmt.Sprintf("%s on model %s was not stopped\n", in.Step, in.Model)
					}
					return fmt.Sprintf("%s on model %s goes on; %d cleans wait for their turn\n", in.Step, in.Model, result.Waiting)
				})
			})
		},
	}
	cmd.Flags().StringVar(&in.Model, "model", "", "`M`: the model, as the alarm names it")
	cmd.Flags().StringVar(&in.Step, "step", "", "`S`: the step")
	reasonFlag(cmd, &in.Reason, "`TEXT`: why; kept with the devices that waited")
	return cmd
}
