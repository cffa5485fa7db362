package activities

import (
	"context"
	"fmt"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/oneview"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// PoolServers reads the servers of appliances for an operator who enrolls them.
type PoolServers struct {
	Client *client.Client
	Pools  oneview.Pools
}

// Activities gives all activities of PoolServers by name.
func (p *PoolServers) Activities() map[string]any {
	return map[string]any{contract.ActivityFindServers: p.FindServers}
}

const (
	// maxServers bounds the servers of one answer: 256 KiB hold some hundreds of them.
	maxServers = 200
	// maxServerPages bounds the pages of one answer, for which a client waits.
	maxServerPages = 10
)

// FindServers reads at most maxServerPages of an appliance, until it has enough servers that
// match and are not enrolled. A server is enrolled if a device of the type NODE has its serial
// number, however it is written. It changes nothing. Retried: an appliance or a server that
// does not answer.
func (p *PoolServers) FindServers(ctx context.Context, in contract.ServersInput) (contract.Servers, error) {
	count := max(min(in.Limit, maxServers/2), 1)
	found := contract.Servers{Servers: []contract.PoolServer{}, Next: in.Start}
	for pages := 1; ; pages++ {
		page, err := p.Pools.Page(ctx, in.Appliance, found.Next, count)
		if err != nil {
			return found, asError(err, "appliance "+in.Appliance)
		}
		if err := p.add(ctx, &found, page, in.Filter); err != nil {
			return found, asError(err, "appliance "+in.Appliance)
		}
		last := page.Next <= found.Next
		if found.Next = page.Next; last {
			found.Next = 0
		}
		if last || len(found.Servers) >= count || pages == maxServerPages {
			return found, nil
		}
	}
}

// add adds the servers of a page that match and are not enrolled.
func (p *PoolServers) add(ctx context.Context, found *contract.Servers, page oneview.Page,
	filter map[string]string) error {
	var matching []contract.PoolServer
	var serials []string
	for _, h := range page.Servers {
		server := contract.PoolServer{Hardware: h.URI, Name: h.Name, Serial: h.Serial, UUID: h.UUID, Model: h.Model,
			Type: h.Type, Group: h.Group, Profile: h.Profile}
		if !server.Matches(filter) {
			continue
		}
		matching = append(matching, server)
		serials = append(serials, hardware.SerialForms(h.Serial)...)
	}
	enrolled := map[string]bool{}
	if len(serials) > 0 {
		devices, err := p.Client.List(ctx, client.Filter{client.ByType: {contract.TypeNode}, client.BySerial: serials})
		if err != nil {
			return fmt.Errorf("list the devices: %w", err)
		}
		for _, d := range devices {
			enrolled[device.SerialKey(d.Status.Serial)] = true
		}
	}
	for _, server := range matching {
		if enrolled[device.SerialKey(server.Serial)] {
			found.Enrolled++
			continue
		}
		found.Servers = append(found.Servers, server)
	}
	return nil
}
