package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/internal/doctor"
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
				rctx, cancel := a.requestContext(cmd.Context())
				defer cancel()
				result, err := l.Resume(rctx, in)
				if client.NotFound(err) {
					return &failure{exit: exitFailed, code: device.CodeNotFound,
						message: "nothing is limited: the policy has no limits", remedy: "see burnish list"}
				}
				if err != nil {
					return a.explain(cmd.Context(), l, "", err)
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

// withPlaces puts into statuses what the workflow of the limits knows better: each place in
// line as it is now. It asks once for all of them, and only if one waits; without an answer
// the devices' own, which are older, remain.
func (a *app) withPlaces(ctx context.Context, l deviceClient, all []contract.DeviceStatus) contract.LimitsStatus {
	name, waits := contract.WaitForSlot(all)
	if !waits {
		return contract.LimitsStatus{}
	}
	status := a.limits(ctx, l, name)
	status.ShowPlaces(all)
	return status
}

// limits asks the workflow of the limits. The status is empty where nothing is limited, and
// without an answer.
func (a *app) limits(ctx context.Context, l deviceClient, name string) contract.LimitsStatus {
	qctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	status, found, err := l.LimitsStatus(qctx, name)
	if err != nil || !found {
		return contract.LimitsStatus{}
	}
	return status
}

// noteAlarms prints what the limits need the operator for: no device stands for it.
func (a *app) noteAlarms(alarms []contract.LimitsAlarm) {
	for _, alarm := range alarms {
		a.note("", fmt.Sprintf("the limits need the operator (%d wait): %s; %s", alarm.Waiting, alarm.Message, alarm.Remedy))
	}
}

// checkLimits reports the alarms of the limits.
func (a *app) checkLimits(ctx context.Context, f *doctor.Findings, l deviceClient) {
	const check = "limits"
	status := a.limits(ctx, l, "")
	for _, alarm := range status.Alarms {
		f.Warn(check, alarm.Remedy, "%d cleans wait: %s", alarm.Waiting, alarm.Message)
	}
	if status.Limits != nil && len(status.Alarms) == 0 {
		f.OK(check, "%d cleans run, %d wait", status.Running, status.Queued)
	}
}
