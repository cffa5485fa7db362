package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/config"
	"burnish/workflows/contract"
)

func (a *app) overrideCommand() *cobra.Command {
	var in contract.OverrideInput
	expires := time.Hour
	cmd := &cobra.Command{
		Use:         "override NAME --reason R [--expires DURATION]",
		Annotations: forms("override NAME --approve ID"),
		Short:       "return a device in state error to the pool without a clean",
		Long: `One person requests it, and another one approves it before it expires; then the device
becomes available, marked as not sanitized until its next full clean. Both go through the
HTTP API (--api), which knows who asks. It is off unless BURNISH_API_KEY is set for the
control workers.`,
		Example: `  burnish --api https://control1:8480 override h1_0000:01:00.0 --reason "capacity" --expires 2h
  burnish --api https://control1:8480 override h1_0000:01:00.0 --approve 0f8e6f5c-7f0e-4d1c-9b65-0f6a1f1d2a11`,
		Args: oneName("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Reason, in.Approve = strings.TrimSpace(in.Reason), strings.TrimSpace(in.Approve)
			past := "overridden"
			switch {
			case a.api == "":
				return usagef("an override goes through the HTTP API, which knows who asks: give --api URL, or set %s", config.VarAPI)
			case in.Approve != "" && (in.Reason != "" || cmd.Flags().Changed("expires")):
				return usagef("--approve takes neither --reason nor --expires: those of the request count")
			case in.Approve != "":
			case in.Reason == "":
				return usagef("--reason is missing, or --approve")
			case expires <= 0 || expires > contract.MaxOverride:
				return usagef("--expires must be positive, and at most 24h")
			default:
				in.ExpiresAt, past = a.now().Add(expires).UTC().Truncate(time.Second), "override requested"
			}
			return a.actOnNamed(cmd, args[0], action{done: past, send: request(deviceClient.Override, in)})
		},
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", "`TEXT`: why the device is needed without a clean")
	cmd.Flags().DurationVar(&expires, "expires", expires, "`DURATION`: how long it may be approved, at most 24h")
	cmd.Flags().StringVar(&in.Approve, "approve", "", "approve the request with the `ID` that burnish show NAME names")
	return cmd
}
