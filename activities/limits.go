package activities

import (
	"context"
	"maps"
	"slices"
	"sync"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Limits holds the activities of a control worker for the limits of a fleet (S3.38).
type Limits struct {
	Client *client.Client
	// Policy is this worker's, for a workflow that is started.
	Policy contract.LimitsChange
}

// Activities gives the activities by name.
func (l *Limits) Activities() map[string]any {
	return map[string]any{
		contract.ActivityRequestSlot: l.RequestSlot, contract.ActivityFindCleans: l.FindCleans,
		contract.ActivityCheckHolders: l.CheckHolders, contract.ActivityCountFree: l.CountFree,
		contract.ActivityFindGroups: l.FindGroups,
	}
}

// RequestSlot passes a device's request on, and starts the workflow of the limits if it does
// not run. A second run asks again, which changes nothing. Every error is retried.
func (l *Limits) RequestSlot(ctx context.Context, in contract.SlotRequest) error {
	policy := l.Policy
	if policy.Limits == nil { // another worker's policy had limits when the clean was planned
		policy.Limits = &device.Limits{}
	}
	return asError(l.Client.RequestSlot(ctx, policy, in), in.Device)
}

// FindCleans has each device that is being cleaned, by a listing, ask for its slot once
// more. A second run asks again. Every error is retried.
func (l *Limits) FindCleans(ctx context.Context) (contract.FindCleansResult, error) {
	between := client.Filter{client.ByState: client.States(device.PendingCleaning, device.Cleaning)}
	listed, err := newest(ctx, l.Client, between)
	if err == nil {
		err = forEach(slices.Collect(maps.Keys(listed)), func(name string) error { return l.Client.AskAgain(ctx, name) })
	}
	return contract.FindCleansResult{Asked: len(listed)}, asError(err, "")
}

// CheckHolders asks the server for each device with a slot: a listing lags behind. Every
// error is retried.
func (l *Limits) CheckHolders(ctx context.Context, in contract.HoldersInput) (contract.HoldersResult, error) {
	var mu sync.Mutex
	var found contract.HoldersResult
	check := func(names []string, wanted ...device.State) error {
		return forEach(names, func(name string) error {
			run, ok, err := l.Client.LastRun(ctx, name)
			if err != nil {
				return err
			}
			if !ok || !run.Running || !slices.Contains(wanted, run.Status.DeviceState) {
				mu.Lock()
				found.Lost = append(found.Lost, name)
				mu.Unlock()
			}
			return nil
		})
	}
	err := check(in.Cleaned, device.PendingCleaning, device.Cleaning)
	if err == nil {
		err = check(in.Taking, device.Available)
	}
	slices.Sort(found.Lost)
	return found, asError(err, "")
}

// CountFree counts the devices that a tenant can get. Those that are being taken out of the
// pool do not count, and neither do those that were until the listing shows it. Every error
// is retried.
func (l *Limits) CountFree(ctx context.Context, in contract.CountFreeInput) (contract.CountFreeResult, error) {
	var found contract.CountFreeResult
	listed, err := newest(ctx, l.Client, client.Filter{client.ByState: client.States(device.Available)})
	if err != nil {
		return found, asError(err, "")
	}
	settled := map[string]bool{}
	for _, name := range in.Withdrawn {
		// What is available again after its clean counts again; the server knows at once.
		run, ok, err := l.Client.LastRun(ctx, name)
		if err != nil {
			return found, asError(err, "")
		}
		e, shown := listed[name]
		settled[name] = !shown || ok && run.Running && run.Status.DeviceState == device.Available && e.RunID == run.RunID
	}
	for name, e := range listed {
		free := !e.Status.Maintenance && !slices.Contains(in.Taking, name)
		if taken, was := settled[name]; was && !taken {
			free = false
		}
		if free {
			found.Free++
		}
	}
	for _, name := range in.Withdrawn {
		if settled[name] {
			found.Settled = append(found.Settled, name)
		}
	}
	inService, err := l.Client.Count(ctx, client.Filter{client.ByState: client.InService()})
	found.InService = int(inService)
	return found, asError(err, "")
}

// FindGroups finds the devices with each label and value that are not retired. Every error is retried.
func (l *Limits) FindGroups(ctx context.Context, in contract.FindGroupsInput) (contract.FindGroupsResult, error) {
	listed, err := newest(ctx, l.Client, client.Filter{client.ByState: client.InService()})
	if err != nil {
		return contract.FindGroupsResult{}, asError(err, "")
	}
	found := contract.FindGroupsResult{Devices: map[string][]string{}}
	for _, group := range in.Groups {
		selector, err := device.ParseLabelSelector(group)
		if err != nil {
			return found, asError(err, "")
		}
		found.Devices[group] = []string{}
		for name, e := range listed {
			if e.Running && selector.Selects(e.Status.Labels) {
				found.Devices[group] = append(found.Devices[group], name)
			}
		}
		slices.Sort(found.Devices[group])
	}
	return found, nil
}
