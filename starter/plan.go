package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/pci"
)

// planResult is a plan for programs: exactly these keys.
type planResult struct {
	Operation device.Operation `json:"operation"`
	Steps     []string         `json:"steps"`
	Traits    []string         `json:"traits"`
}

func (a *app) planCommand() *cobra.Command {
	var (
		identify, action, strategy, spec string
		namespaces                       int
		fleet                            bool
		policy                           string
		c                                cleanRequest
	)
	cmd := &cobra.Command{
		Use:         "plan NAME|UUID",
		Annotations: forms("plan --identify FILE", "plan --fleet [--policy FILE]"),
		Short:       "show what a clean would do: of a device, of id-ctrl data, or of all devices",
		Long: `With a NAME it shows the steps of the device's full clean, or of --steps or --runbook, by
the policy of the control worker that answers. Each has its estimated run time, from the
device's last clean with this method or from the device itself, and its budget. burnish
validate also checks the host and the interfaces. Nothing is changed. Exit code 1 if no
clean is possible.

--identify needs no server and touches no device. It shows the erase
method that the policy selects for these capabilities, the steps of a full clean in their
order, and the traits of the device. Exit code 1 if the policy is invalid or the device
cannot satisfy it.

--fleet reads what Temporal knows about each device and changes nothing. A driver that
has only one method, such as block, keeps it. For a device that cannot satisfy the policy
it prints the reason; the exit code is 0.`,
		Example: `  burnish plan h1_0000:01:00.0
  nvme id-ctrl /dev/nvme0 -o json | burnish plan --identify - --action sanitize
  burnish plan --fleet --policy new.yaml`,
		Args: atMostOne("NAME or UUID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				other := firstGiven(cmd.Flags(), "fleet", "policy", "identify", "action", "strategy", "spec", "namespaces")
				if other != "" {
					return usagef("NAME and --%s exclude each other", other)
				}
				in, err := c.input(cmd.Flags())
				if err != nil {
					return err
				}
				return a.withDevice(cmd.Context(), args[0], func(l deviceClient, name string) error {
					return a.planDevice(cmd.Context(), l, name, in)
				})
			}
			if other := firstGiven(cmd.Flags(), "steps", "arg", "runbook"); other != "" {
				return usagef("--%s goes with NAME", other)
			}
			if fleet {
				other := firstGiven(cmd.Flags(), "identify", "action", "strategy", "spec", "namespaces")
				if other != "" {
					return usagef("--fleet and --%s exclude each other: write the policy in a file", other)
				}
				if cmd.Flags().Changed("policy") && policy == "" {
					return usagef("--policy is empty")
				}
				return a.planFleet(cmd.Context(), policy)
			}
			if cmd.Flags().Changed("policy") {
				return usagef("--policy goes with --fleet")
			}
			if identify == "" {
				return usagef("NAME is missing, or --identify or --fleet")
			}
			actions := []clean.Action{clean.ActionAuto, clean.ActionSanitize, clean.ActionZero}
			if !slices.Contains(actions, clean.Action(action)) {
				return usagef("--action %q: must be one of auto, sanitize, zero", action)
			}
			strategies := []clean.Strategy{clean.StrategyAuto, clean.StrategyCrypto, clean.StrategyBlock}
			if !slices.Contains(strategies, clean.Strategy(strategy)) {
				return usagef("--strategy %q: must be one of auto, crypto, block", strategy)
			}
			if namespaces < 0 {
				return usagef("--namespaces %d: must not be negative", namespaces)
			}
			output, err := a.readFile(cmd.Context(), identify)
			if err != nil {
				return err
			}
			erase := clean.ErasePolicy{Action: clean.Action(action), Strategy: clean.Strategy(strategy)}
			if cmd.Flags().Changed("spec") {
				entry, err := pci.ParseSpec([]byte(spec))
				if err != nil {
					return invalidSpec("--spec", err)
				}
				erase = erase.For(entry.ClearAction(), entry.ClearStrategy())
			}
			p, err := planFor(output, erase, namespaces)
			if err != nil {
				return err
			}
			return a.emit(p, func() string {
				return a.pairs([][]string{
					{"operation", string(p.Operation)},
					{"steps", strings.Join(p.Steps, ", ")},
					{"traits", strings.Join(p.Traits, ", ")},
				})
			})
		},
	}
	c.flags(cmd.Flags())
	cmd.Flags().BoolVar(&fleet, "fleet", false, "every enrolled device that is not retired: its present plan, and the "+
		"plan by the policy")
	cmd.Flags().StringVar(&policy, "policy", "", "`FILE`: the policy, as for BURNISH_POLICY (default: auto, auto)")
	cmd.Flags().StringVar(&identify, "identify", "", "`FILE`: the output of nvme id-ctrl -o json; - is the standard input")
	cmd.Flags().StringVar(&action, "action", string(clean.ActionAuto), "`A`: clear_action: auto, sanitize or zero")
	cmd.Flags().StringVar(&strategy, "strategy", string(clean.StrategyAuto), "`S`: clear_strategy: auto, crypto or block")
	cmd.Flags().StringVar(&spec, "spec", "", "`JSON`: an entry of device_spec; its own clear_action and clear_strategy "+
		"come before these")
	cmd.Flags().IntVar(&namespaces, "namespaces", 1, "`N`: the number of namespaces of the device; 1 is one of the "+
		"full size")
	return cmd
}

// planFor plans with every step, as for a host that supports all of them.
func planFor(output []byte, policy clean.ErasePolicy, namespaces int) (planResult, error) {
	controller, err := nvmecli.ParseSaved(output)
	if err != nil {
		return planResult{}, err
	}
	planner, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{})
	if err != nil {
		return planResult{}, err
	}
	can := controller.Capabilities()
	erasure, fault := planner.Erasure(policy, clean.Subject{
		Name: controller.Serial, Type: "NVME", Capabilities: can, Layout: layoutOf(namespaces),
		HostSteps: steps.All().Versions(),
	})
	if fault != nil {
		return planResult{}, fault
	}
	p := planResult{Operation: erasure.Operation, Traits: can.Traits()}
	for _, step := range erasure.Steps {
		p.Steps = append(p.Steps, step.Step.Name)
	}
	return p, nil
}

// layoutOf assumes that a single namespace has the full size.
func layoutOf(namespaces int) device.Layout {
	switch namespaces {
	case 0:
		return device.LayoutNone
	case 1:
		return device.LayoutWhole
	}
	return device.LayoutSplit
}
