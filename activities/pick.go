package activities

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
	"burnish/workflows/planning"
)

// PickDevices says what is known of the named devices, and finds free ones for the requests, by
// a listing: whether a device can be had, only its claim says. It chooses at random, so that
// instances which ask at the same time rarely meet. It changes nothing. Final: a named device
// that does not exist, too few free devices. Retried: a server that does not answer.
func (s *Instances) PickDevices(ctx context.Context, in contract.PickInput) (contract.PickAnswer, error) {
	answer, err := s.named(ctx, in.Named)
	if err != nil || len(in.Requests) == 0 {
		return answer, asError(unlisted(err), "")
	}
	p := &picker{Instances: s, in: in, host: in.Host}
	for _, d := range answer.Known {
		if p.host == "" && d.Type != contract.TypeNode {
			p.host = d.Host
		}
	}
	found, err := p.pick(ctx)
	if err != nil {
		return contract.PickAnswer{}, asError(unlisted(err), "")
	}
	for i, slot := range p.slots {
		answer.Devices = append(answer.Devices, contract.DeviceChoice{Name: found[i].Name, Tag: slot.Tag})
		answer.Known = append(answer.Known, found[i])
	}
	return answer, nil
}

// named asks the named devices for themselves.
func (s *Instances) named(ctx context.Context, named []contract.DeviceChoice) (contract.PickAnswer, error) {
	answer := contract.PickAnswer{Devices: named, Known: make([]contract.HeldDevice, len(named))}
	numbers := make([]int, len(named))
	for i := range numbers {
		numbers[i] = i
	}
	err := forEach(numbers, func(i int) error {
		v, err := s.Client.Query(ctx, named[i].Name)
		if client.NotFound(err) {
			return &device.Fault{Class: device.Permanent, Code: device.CodeNotFound,
				Message: named[i].Name + ": no such device", Remedy: "enroll it, or name another one"}
		}
		answer.Known[i] = held(v)
		return err
	})
	return answer, err
}

// picker finds devices for requests.
type picker struct {
	*Instances
	in   contract.PickInput
	host string
	// slots are the requests, one for each device.
	slots []contract.DeviceRequest
}

// candidate is a free device. Its traits are asked for only where a request has some.
type candidate struct {
	status contract.DeviceStatus
	traits []string
}

// pick finds one device for each slot.
func (p *picker) pick(ctx context.Context) ([]contract.HeldDevice, error) {
	types := map[string]bool{}
	for _, r := range p.in.Requests {
		types[r.Type] = true
		for range max(r.Count, 1) {
			p.slots = append(p.slots, r)
		}
	}
	free, err := p.list(ctx, slices.Sorted(maps.Keys(types)))
	if err != nil {
		return nil, err
	}
	// Whole servers are hosts themselves: any of them will do, unless a host is named.
	hosts := map[string][]*candidate{}
	var nodes []*candidate
	for _, c := range free {
		if c.status.Type == contract.TypeNode && p.in.Host == "" {
			nodes = append(nodes, c)
		} else {
			hosts[c.status.Hostname] = append(hosts[c.status.Hostname], c)
		}
	}
	order := slices.Sorted(maps.Keys(hosts))
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	if len(order) == 0 {
		order = []string{""}
	}
	best, at := 0, ""
	for _, host := range order {
		all := append(slices.Clone(nodes), hosts[host]...)
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		found, n, err := p.match(ctx, all)
		if err != nil || n == len(p.slots) {
			return found, err
		}
		if n > best {
			best, at = n, host
		}
	}
	return nil, p.tooFew(best, at)
}

// list finds the free devices of the types.
func (p *picker) list(ctx context.Context, types []string) ([]*candidate, error) {
	f := client.Filter{client.ByState: client.States(device.Available), client.ByType: types}
	if p.in.Host != "" {
		f[client.ByHost] = []string{p.in.Host}
	}
	listed, err := newest(ctx, p.Client, f)
	var free []*candidate
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		e := listed[name]
		named := slices.ContainsFunc(p.in.Named, func(c contract.DeviceChoice) bool { return c.Name == name })
		elsewhere := p.host != "" && e.Status.Hostname != p.host && e.Status.Type != contract.TypeNode
		if e.Err == nil && !e.Status.Maintenance && !named && !elsewhere && !slices.Contains(p.in.Except, name) {
			free = append(free, &candidate{status: e.Status})
		}
	}
	return free, err
}

// match gives each slot a device of its own, as many as possible: n slots have one.
func (p *picker) match(ctx context.Context, all []*candidate) (found []contract.HeldDevice, n int, err error) {
	if err := p.discover(ctx, all); err != nil {
		return nil, 0, err
	}
	taken := make([]int, len(all)) // the slot of each candidate, from 1
	var place func(slot int, tried []bool) bool
	place = func(slot int, tried []bool) bool {
		for i, c := range all {
			if tried[i] || !c.fits(p.slots[slot]) {
				continue
			}
			tried[i] = true
			if taken[i] == 0 || place(taken[i]-1, tried) {
				taken[i] = slot + 1
				return true
			}
		}
		return false
	}
	for slot := range p.slots {
		if place(slot, make([]bool, len(all))) {
			n++
		}
	}
	found = make([]contract.HeldDevice, len(p.slots))
	for i, slot := range taken {
		if slot > 0 {
			found[slot-1] = held(all[i].status)
		}
	}
	return found, n, nil
}

// discover asks the devices for what the listing does not show, where a request needs it. A
// device that is gone has no traits.
func (p *picker) discover(ctx context.Context, all []*candidate) error {
	var mu sync.Mutex
	return forEach(all, func(c *candidate) error {
		needed := slices.ContainsFunc(p.slots, func(r contract.DeviceRequest) bool { return len(r.Traits) > 0 && c.is(r) })
		if !needed || c.traits != nil {
			return nil
		}
		found, err := p.Client.Discovery(ctx, c.status.Name)
		if err != nil && !client.NotFound(err) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		c.traits = planning.Traits(contract.Enrollment{OneTimeUse: c.status.OneTimeUse}, found)
		return nil
	})
}

// is says that the device is of the requested kind, whatever its traits.
func (c *candidate) is(r contract.DeviceRequest) bool {
	return c.status.Type == r.Type && (r.Vendor == "" || c.status.Vendor == r.Vendor) &&
		(r.Model == "" || c.status.Model == r.Model) &&
		(!r.LiveMigratable || c.status.LiveMigratable)
}

func (c *candidate) fits(r contract.DeviceRequest) bool {
	missing := func(trait string) bool { return !slices.Contains(c.traits, trait) }
	return c.is(r) && !slices.ContainsFunc(r.Traits, missing)
}

func (p *picker) tooFew(best int, host string) error {
	where := "on one host"
	if p.host != "" {
		where = "on host " + p.host
	}
	message := fmt.Sprintf("%d of %d requested devices are free %s", best, len(p.slots), where)
	if host != "" && host != p.host {
		message += " (" + host + ")"
	}
	return &device.Fault{Class: device.Permanent, Code: device.CodeConflict, Message: message + ": " + p.asked(),
		Remedy: "see burnish list --state available; ask for fewer, or wait until some are cleaned"}
}

// asked is what was requested, in words.
func (p *picker) asked() string {
	var all []string
	for _, r := range p.in.Requests {
		words := []string{fmt.Sprint(max(r.Count, 1)), cmp.Or(r.Vendor, ""), cmp.Or(r.Model, ""), r.Type}
		if len(r.Traits) > 0 {
			words = append(words, "with", strings.Join(r.Traits, ", "))
		}
		all = append(all, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
	}
	return strings.Join(all, "; ")
}
