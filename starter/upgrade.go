package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/client"
)

// versionMover is a deviceClient that knows the versions of the control workers.
type versionMover interface {
	Versions(ctx context.Context) ([]client.Version, error)
	Promote(ctx context.Context, version string) error
	Drain(ctx context.Context) (current string, moved int, err error)
}

func (a *app) upgradeCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:   "upgrade COMMAND",
		Short: "the versions of the control workers, and which one is current",
		Long: `With BURNISH_VERSIONED control workers of two versions run beside each other. Each run of a
workflow stays with the version that began it; new runs go to the current version, which
only promote changes. See burnish upgrade COMMAND --help.`,
		Example: "  burnish upgrade status",
	}, a.upgradeStatusCommand(), a.upgradePromoteCommand(), a.upgradeDrainCommand())
}

// versions does something with the versions, which Temporal itself keeps.
func (a *app) versions(ctx context.Context, do func(deviceClient, versionMover) error) error {
	return a.devices(ctx, func(l deviceClient) error {
		m, ok := l.(versionMover)
		if !ok {
			return usagef("the API does not know versions: leave --api and BURNISH_API out")
		}
		return do(l, m)
	})
}

func (a *app) upgradeStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "show each version with its workers and workflows",
		Long: `A version may be stopped when no workflow is its own any more. The count of workflows is
that of a listing, which lags a moment behind.`,
		Example: "  burnish upgrade status",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.versions(cmd.Context(), func(l deviceClient, m versionMover) error {
				all, err := ask(cmd.Context(), a, l, "", m.Versions)
				if err != nil {
					return err
				}
				return a.emit(map[string]any{"versions": all}, func() string {
					rows := [][]string{{"VERSION", "CURRENT", "WORKERS", "WORKFLOWS"}}
					for _, v := range all {
						name := v.Version
						if name == client.Unversioned {
							name = "(none)"
						}
						rows = append(rows, []string{name, yes(v.Current), strconv.Itoa(v.Workers), strconv.FormatInt(v.Workflows, 10)})
					}
					return a.columns(rows)
				})
			})
		},
	}
}

// moved is the answer of promote and drain, for programs.
type moved struct {
	Current string `json:"current"`
	Moved   int    `json:"moved"`
}

func (a *app) upgradePromoteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "promote VERSION",
		Short: "make a version the current one, also an older one",
		Long: `New runs of workflows begin with it. A device of another version follows when nothing of it is
under way, with the next thing that happens to it: a clean ends with the version that began
it. Workers of the version must run.`,
		Example: "  burnish upgrade promote 0.7.0",
		Args:    oneName("VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.versions(cmd.Context(), func(l deviceClient, m versionMover) error {
				_, err := ask(cmd.Context(), a, l, "", func(ctx context.Context) (struct{}, error) {
					return struct{}{}, m.Promote(ctx, args[0])
				})
				if err != nil {
					return err
				}
				return a.emit(moved{Current: args[0]}, func() string { return args[0] + " is current\n" })
			})
		},
	}
}

func (a *app) upgradeDrainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "drain",
		Short: "have every workflow go on with the current version at once",
		Long: `Also those in the middle of a clean, which goes on. Afterwards workers of the other versions
may be stopped; it is what remains to be done where they do not run any more.`,
		Example: "  burnish upgrade drain",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.versions(cmd.Context(), func(l deviceClient, m versionMover) error {
				answer, err := ask(cmd.Context(), a, l, "", func(ctx context.Context) (moved, error) {
					current, n, err := m.Drain(ctx)
					if err == nil && current == client.Unversioned {
						err = failf(device.CodeNotFound, "set BURNISH_VERSIONED for all control workers", "no version is current")
					}
					return moved{current, n}, err
				})
				if err != nil {
					return err
				}
				return a.emit(answer, func() string {
					return fmt.Sprintf("%d workflows go on with %s\n", answer.Moved, answer.Current)
				})
			})
		},
	}
}
