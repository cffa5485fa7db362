package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func (a *app) validateCommand() *cobra.Command {
	var c cleanRequest
	cmd := &cobra.Command{
		Use:   "validate NAME|UUID",
		Short: "show what a clean would do on a device, or why it would not",
		Long: `Without --steps and --runbook: the full clean. It plans by the policy of the control
worker that answers, and changes nothing. Then it checks each interface: ok, failed with
the reason, or - where the device does not have it. A server of a shared pool is looked
up on its appliance: one that others have fails, unless the device is manageable or on
its way there; it needs no profile. Whether the device's state allows the clean now is
not checked. Exit code 1 if an interface fails.`,
		Example: `  burnish validate node1
  burnish validate node1 --steps bios_apply --arg BootMode=Uefi`,
		Args: oneName("NAME or UUID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := c.input(cmd.Flags())
			if err != nil {
				return err
			}
			return a.withDevice(cmd.Context(), args[0], func(l deviceClient, name string) error {
				return a.validate(cmd.Context(), l, name, in)
			})
		},
	}
	c.flags(cmd.Flags())
	return cmd
}

// validation is the plan of a clean, and the check of each interface.
type validation struct {
	cleanForecast
	Interfaces []interfaceCheck `json:"interfaces"`
}

// interfaceCheck is the check of one interface. Result is ok, failed, or - where the device
// does not have it.
type interfaceCheck struct {
	Interface string      `json:"interface"`
	Result    string      `json:"result"`
	Reason    string      `json:"reason"`
	Code      device.Code `json:"code,omitempty"`

	failure *failure
}

const (
	checkOK     = "ok"
	checkFailed = "failed"
	checkNone   = "-"
)

func failedCheck(f *failure) interfaceCheck {
	return interfaceCheck{Result: checkFailed, Reason: oneLine(f.Error()), Code: f.code, failure: f}
}

// validate plans a clean of one device, and checks its interfaces.
func (a *app) validate(ctx context.Context, l deviceClient, name string, in contract.CleanInput) error {
	v, plan, found, err := a.planned(ctx, l, name, in)
	if err != nil {
		return err
	}
	result := validation{forecast(plan, v.Cleans, found), interfacesOf(plan, found)}
	result.add("management", a.checkHost(ctx, l, v, found))
	if v.Pool != nil {
		result.add("pool", a.checkPoolOf(ctx, l, v))
	}
	if err := a.emit(result, func() string { return result.table(a) }); err != nil {
		return err
	}
	return result.failure(name)
}

// planned gives a device, the plan of a clean, and what the device's host found.
func (a *app) planned(ctx context.Context, l deviceClient, name string, in contract.CleanInput) (
	v contract.DeviceStatus, plan contract.CleanPlan, found contract.DiscoveryResult, err error) {
	if v, err = a.answered(ctx, l, name); err != nil {
		return v, plan, found, err
	}
	plan, err = ask(ctx, a, l, name, func(ctx context.Context) (contract.CleanPlan, error) {
		return l.Validate(ctx, name, in)
	})
	if err != nil {
		return v, plan, found, err
	}
	found, err = ask(ctx, a, l, name, func(ctx context.Context) (contract.DiscoveryResult, error) {
		return l.Discovery(ctx, name)
	})
	return v, plan, found, err
}

// interfacesOf checks the interfaces by the plan and by what the host found.
func interfacesOf(plan contract.CleanPlan, found contract.DiscoveryResult) []interfaceCheck {
	steps := map[string][]string{}
	for _, s := range plan.Steps {
		steps[s.Interface] = append(steps[s.Interface], s.Step)
	}
	var all []interfaceCheck
	for _, name := range []string{"bios", "deploy", "firmware", "management", "power", "vendor"} {
		check := interfaceCheck{Interface: name, Result: checkNone, Reason: "no step of this clean"}
		if planned := steps[name]; len(planned) > 0 {
			check.Result, check.Reason = checkOK, strings.Join(planned, ", ")
		}
		switch f := plan.Fault; {
		case name == "power" && found.Power:
			check.Result, check.Reason = checkOK, strings.Join(append([]string{"power control"}, steps[name]...), ", ")
		case name == "power" && check.Result == checkNone:
			check.Reason = "its driver has no power control"
		case name == "deploy" && f != nil:
			check = failedCheck(ofFault(*f))
			check.Interface = name
		case f != nil && check.Result == checkNone:
			check.Reason = "there is no plan"
		}
		all = append(all, check)
	}
	return all
}

// add sets the check of an interface; one that is ok keeps its steps.
func (v *validation) add(name string, check interfaceCheck) {
	check.Interface = name
	for i, before := range v.Interfaces {
		if before.Interface != name {
			continue
		}
		if check.Result == checkOK && before.Result == checkOK {
			check.Reason += "; " + before.Reason
		}
		v.Interfaces[i] = check
		return
	}
	v.Interfaces = append(v.Interfaces, check)
}

// checkHost checks that the device's host has seen it and that its worker polls.
func (a *app) checkHost(ctx context.Context, l deviceClient, v contract.DeviceStatus,
	found contract.DiscoveryResult) interfaceCheck {
	if found.Identity.Serial == "" {
		return failedCheck(failf(device.CodeHostUnreachable, "see its worker's log", "host %s has not seen the device yet",
			v.Hostname))
	}
	if err := a.hostPolls(ctx, l, v.Name, v.Hostname); err != nil {
		return failedCheck(asFailure(err))
	}
	return interfaceCheck{Result: checkOK, Reason: "host " + v.Hostname + " polls, driver " + v.Driver}
}

// hostPolls checks that the worker of a device's host polls.
func (a *app) hostPolls(ctx context.Context, l deviceClient, name, host string) error {
	last, err := ask(ctx, a, l, name, func(ctx context.Context) (time.Time, error) {
		return l.LastPoll(ctx, contract.HostQueue(host))
	})
	if err == nil && a.now().Sub(last) > pollerMaxAge {
		err = failf(device.CodeHostUnreachable, "start burnish-worker there, or correct the host",
			"no worker of host %s polls", host)
	}
	return err
}

// checkPoolOf checks who has the device's server (S4.5–S4.7). A device without
// dynamic_allocation is never looked up (S4.36).
func (a *app) checkPoolOf(ctx context.Context, l deviceClient, v contract.DeviceStatus) interfaceCheck {
	if !v.Pool.Dynamic {
		return interfaceCheck{Result: checkOK, Reason: "pre-allocated: " + v.Pool.Appliance + " is not asked"}
	}
	found, err := a.readPool(ctx, l, v)
	if err != nil {
		return failedCheck(asFailure(err))
	}
	check := interfaceCheck{Result: checkOK, Reason: string(found.Ownership) + ", " + profileText(found.Profile)}
	if found.Ownership != device.PoolTaken {
		return check
	}
	switch {
	case v.DeviceState == device.Manageable:
		check.Reason += ": others have the server; shown only, because the device is manageable"
	case v.DeviceState == device.Error && v.Pool.LostRace:
		check.Reason += ": others have the server; shown only, because the device becomes manageable"
	default:
		return failedCheck(failf(device.CodeServerTaken, "none: it is cleaned when they remove their profile",
			"%s: others have the server", check.Reason))
	}
	return check
}

// readPool asks the appliance who has the device's server.
func (a *app) readPool(ctx context.Context, l deviceClient, v contract.DeviceStatus) (contract.PoolSnapshot, error) {
	if v.Serial == "" {
		return contract.PoolSnapshot{}, failf(device.CodeHostUnreachable, "see its worker's log",
			"host %s has not seen the device yet, so that its serial number is not known", v.Hostname)
	}
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	found, err := l.ReadPool(rctx, contract.PoolRequest{Name: v.Name, UUID: v.UUID, Serial: v.Serial, Pool: v.Pool.Pool,
		State: v.Pool.PoolState})
	if err != nil {
		return found, a.explainAppliance(ctx, l, v.Pool.Appliance, err)
	}
	return found, nil
}

// failure is the command's failure: nil if no interface fails.
func (v validation) failure(name string) error {
	if f := v.Fault; f != nil {
		return ofFault(*f).about(name, "")
	}
	for _, check := range v.Interfaces {
		if f := check.failure; f != nil {
			g := failf(f.code, f.remedy, "%s: %s", check.Interface, f.message).about(name, "")
			g.exit = exitFailed // whatever the reason
			return g
		}
	}
	return nil
}

// table is the validation for people.
func (v validation) table(a *app) string {
	rows := [][]string{{"INTERFACE", "RESULT", "REASON"}}
	for _, check := range v.Interfaces {
		rows = append(rows, []string{check.Interface, check.Result, check.Reason})
	}
	if v.Fault != nil {
		return a.columns(rows)
	}
	return v.cleanForecast.table(a) + "\n" + a.columns(rows)
}
