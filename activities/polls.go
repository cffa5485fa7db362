package activities

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/oneview"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Poller compares the servers of a shared pool's appliance with the devices that the server
// lists, and signals those that differ. It changes no state: a device asks the appliance
// itself before it does anything (F6).
type Poller struct {
	Client *client.Client
	// Pools are the appliances that this worker knows.
	Pools oneview.Pools
	Log   *slog.Logger
}

// Activities gives all activities of a Poller by name.
func (p *Poller) Activities() map[string]any {
	return map[string]any{contract.ActivityPollPage: p.PollPage}
}

// PollPage compares one page of an appliance's servers with their devices. It is one request
// to the appliance and one listing. What fails at one device is reported, and does not end
// the page (S4.16). A second run signals only the devices that still differ. Retried: an
// appliance or a server that does not answer.
func (p *Poller) PollPage(ctx context.Context, in contract.PollPageInput) (contract.PollPageResult, error) {
	out, err := p.pollPage(ctx, in)
	return out, asError(err, "the polls of "+in.Appliance)
}

func (p *Poller) pollPage(ctx context.Context, in contract.PollPageInput) (contract.PollPageResult, error) {
	count := in.Count
	if count == 0 {
		settings, err := p.Pools.Settings(in.Appliance)
		if err != nil {
			return contract.PollPageResult{}, err
		}
		count = settings.PageSize
	}
	// Everything is read after this moment: a device that is bound later drops the hint.
	poll := &pagePoll{Poller: p, in: in, observedAt: time.Now().UTC()}
	page, err := p.Pools.Page(ctx, in.Appliance, in.Start, count)
	if err != nil {
		return contract.PollPageResult{}, err
	}
	poll.out.Next, poll.out.Total, poll.out.Counts.Servers = page.Next, page.Total, len(page.Servers)
	if err := poll.compare(ctx, page.Servers); err != nil {
		return contract.PollPageResult{}, err
	}
	slices.SortFunc(poll.out.Problems, func(a, b contract.Mismatch) int { return strings.Compare(a.Name, b.Name) })
	poll.out.Problems = poll.out.Problems[:min(len(poll.out.Problems), contract.KeptMismatches)]
	return poll.out, ctx.Err()
}

// pagePoll is one attempt of PollPage.
type pagePoll struct {
	*Poller
	in         contract.PollPageInput
	observedAt time.Time

	mu  sync.Mutex
	out contract.PollPageResult
}

// compare compares the servers of a page with the devices that have their serial numbers.
func (p *pagePoll) compare(ctx context.Context, servers []oneview.Hardware) error {
	bySerial := map[string]oneview.Hardware{}
	var serials []string
	for _, s := range servers {
		// None if the appliance has not read it yet, or there is none.
		if forms := hardware.SerialForms(s.Serial); forms != nil {
			bySerial[device.SerialKey(s.Serial)] = s
			serials = append(serials, forms...)
		}
	}
	if len(serials) == 0 {
		return nil
	}
	devices, err := newest(ctx, p.Client, client.Filter{client.ByType: {contract.TypeNode}, client.BySerial: serials})
	if err != nil {
		return fmt.Errorf("list the devices of %s: %w", p.in.Appliance, err)
	}
	var hints []pollHint
	for name, e := range devices {
		if signal, count := p.examine(e, bySerial[device.SerialKey(e.Status.Serial)]); signal != "" {
			hints = append(hints, pollHint{name, signal, count})
		}
	}
	return forEachOf(maxConcurrentHints, hints, func(h pollHint) error {
		p.signal(ctx, h)
		return nil
	})
}

// maxConcurrentHints bounds the signals that are sent at once.
const maxConcurrentHints = 8

// pollHint is a signal to one device, and what counts it.
type pollHint struct {
	device, signal string
	count          *int
}

// examine compares a device with its server. It gives the signal that the device gets, and
// what counts it; "" if it gets none.
func (p *pagePoll) examine(e client.Execution, server oneview.Hardware) (signal string, count *int) {
	pool := e.Memo.Pool
	switch {
	case e.Err != nil:
		p.problem(e.Name, "its status cannot be read: "+e.Err.Error())
		return "", nil
	case e.Absent() || pool == nil || !pool.Dynamic || pool.Appliance != p.in.Appliance: // S4.36
		return "", nil
	}
	p.out.Counts.Devices++
	if pool.Hardware != server.URI {
		p.problem(e.Name, fmt.Sprintf("it is enrolled with %s, and the server with its serial number %s is %s", pool.Hardware,
			e.Status.Serial, server.URI))
		return "", nil
	}
	return p.difference(e, poolOwner(e, server.Profile), pool.ChangedBy(server.Tag))
}

// poolOwner says who has a device's server. Of a device that is being bound the name of the
// profile decides, which a page does not have: its bind asks for it.
func poolOwner(e client.Execution, profile string) device.Ownership {
	switch pool := e.Memo.Pool; {
	case profile == "":
		return device.PoolFree
	case profile == pool.Profile, pool.Applying && e.Status.DeviceState == device.Available:
		return device.PoolOurs
	}
	return device.PoolTaken
}

// difference is the signal that a device gets for this owner of its server, and for whether
// the server was changed since its return, if it would do something then (S4.10, S4.17).
func (p *pagePoll) difference(e client.Execution, owner device.Ownership, changed bool) (signal string, count *int) {
	c, pool := &p.out.Counts, e.Memo.Pool
	d := device.Device{State: e.Status.DeviceState, Status: e.Memo.Status, Owner: e.Memo.Owner, LostRace: pool.LostRace}
	switch {
	case pool.Taken:
		d.Maintenance = device.MaintenanceTaken
	case e.Memo.Maintenance:
		reason, _, _ := strings.Cut(e.Memo.MaintenanceReason, ":") // what follows is for people
		d.Maintenance = device.Maintenance(reason)
	}
	if o, _ := device.Observe(d, device.Snapshot{Question: device.AskPoll, Pool: owner, PoolChanged: changed}); !o.Needs(
		device.RequestRecheck) {
		return "", nil
	}
	switch {
	case owner != device.PoolTaken:
		return contract.SignalFreed, &c.Freed
	case d.State == device.Error:
		return contract.SignalTaken, &c.TakenOnCleanFail
	}
	return contract.SignalTaken, &c.Taken
}

// signal sends one device its hint. It may be called by several goroutines.
func (p *pagePoll) signal(ctx context.Context, h pollHint) {
	hint := contract.Hint{Source: "polls of " + p.in.Appliance, ObservedAt: p.observedAt.Format(time.RFC3339Nano)}
	found, err := p.Client.Hint(ctx, h.device, h.signal, hint)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		p.problem(h.device, "it could not be signaled: "+oneLine(err.Error()))
	case found: // otherwise it has ended since it was listed
		*h.count++
		p.Log.Info("a poll asks a device to look at its server", "device", h.device, "appliance", p.in.Appliance,
			"signal", h.signal)
	}
}

// problem reports a device that could not be compared or signaled.
func (p *pagePoll) problem(name, what string) {
	p.out.Counts.Failed++
	p.out.Problems = append(p.out.Problems, contract.Mismatch{Name: name, What: what})
	p.Log.Warn("a poll failed at one device", "device", name, "appliance", p.in.Appliance, "what", what)
}
