package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"burnish/workflows/client"

	"burnish/internal/config"
	"burnish/internal/nova"
	"burnish/workflows/contract"
)

// placementKind is the inventory of which there is a cloud to look after.
const placementKind = "placement"

// cloudTasks look after the cloud whose Placement is the inventory: a sweep at the start,
// so that what happened while no worker ran is found, and Nova's notifications. With
// another inventory there are none.
func cloudTasks(settings config.Worker, temporal *client.Client, logger *slog.Logger) []task {
	if settings.Inventory != placementKind {
		return nil
	}
	c := &cloud{name: settings.Cloud, every: settings.SweepInterval, hosts: settings.NovaHosts, temporal: temporal, moved: make(chan struct{}, 1)}
	tasks := []task{{"asking for a sweep of Placement", nil, func(ctx context.Context) error {
		return c.reconcile(ctx, contract.ReconcileRequest{Source: "worker start", Interval: &settings.SweepInterval})
	}}}
	if settings.NovaBroker != "" {
		listener := &nova.Listener{URL: settings.NovaBroker, Handle: c.onNotifications, OnConnected: c.onConnected, Log: logger}
		tasks = append(tasks, task{"listening to Nova's notifications", nil, listener.Run}, task{"looking once more after moves", nil, c.reconcileAfterMove})
	}
	return tasks
}

// cloud asks one cloud's workflow to look.
type cloud struct {
	name     string
	every    time.Duration     // between two sweeps
	hosts    map[string]string // Nova's names, and ours
	temporal *client.Client
	// moved: an instance moved, and the host that it left may not have let go yet.
	moved chan struct{}
}

// moveSettleTime is how long after the notification of a move the other side has surely let
// go: Nova tells of a live migration before the source drops its allocation (S0.24).
const moveSettleTime = 5 * time.Second

// reconcile starts the cloud's workflow where there is none, which sweeps from then on whoever
// was the first to ask, and returns once the server has the wish on its disk.
func (c *cloud) reconcile(ctx context.Context, look contract.ReconcileRequest) error {
	err := c.temporal.ReconcileNow(ctx, c.name, c.every, look)
	if err != nil {
		return fmt.Errorf("ask %s to look: %w", contract.ReconcileWorkflowID(c.name), err)
	}
	return nil
}

// onNotifications has the hosts and instances looked at of which notifications speak (S0.29).
func (c *cloud) onNotifications(ctx context.Context, events []nova.Event) error {
	look := contract.ReconcileRequest{Source: "nova"}
	for _, e := range events {
		look.Full = look.Full || e.AllHosts
		if e.Instance != "" && !slices.Contains(look.Instances, e.Instance) {
			look.Instances = append(look.Instances, e.Instance)
		}
		for _, host := range e.Hosts {
			if ours, ok := c.hosts[host]; ok {
				host = ours
			}
			if !slices.Contains(look.Hosts, host) {
				look.Hosts = append(look.Hosts, host)
			}
		}
	}
	if len(look.Hosts) == 0 && len(look.Instances) == 0 {
		look.Full = true
	}
	if err := c.reconcile(ctx, look); err != nil {
		return err
	}
	if look.Full {
		select {
		case c.moved <- struct{}{}:
		default: // one more look does for all
		}
	}
	return nil
}

// onConnected has everything looked at, since what Nova told before this listener was bound may
// be lost: a broker that restarts forgets a binding to an exchange that is not durable.
func (c *cloud) onConnected(ctx context.Context) error {
	return c.reconcile(ctx, contract.ReconcileRequest{Source: "listening", Full: true})
}

// reconcileAfterMove looks once more a while after each move, until ctx ends. What a worker that
// is killed meanwhile would have seen, the sweep finds.
func (c *cloud) reconcileAfterMove(ctx context.Context) error {
	for {
		select {
		case <-c.moved:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !wait(ctx, moveSettleTime) {
			return ctx.Err()
		}
		if err := c.reconcile(ctx, contract.ReconcileRequest{Source: "nova", Full: true}); err != nil {
			return err
		}
	}
}
