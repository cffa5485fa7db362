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

// placementKind is the kind of inventory that belongs to a cloud.
const placementKind = "placement"

// filesCloud is the name by which an inventory in files is reconciled.
const filesCloud = "files"

// cloudTasks are the tasks for the inventory: a reconciliation at the start, which finds what
// happened while no worker ran, and Nova's notifications.
func cloudTasks(settings config.Worker, temporal *client.Client, logger *slog.Logger) []task {
	c := &cloud{name: settings.Cloud, every: settings.SweepInterval, hosts: settings.NovaHosts, temporal: temporal,
		moved: make(chan struct{}, 1)}
	if settings.Inventory != placementKind {
		c.name = filesCloud
	}
	tasks := []task{{"requesting a reconciliation with the inventory", nil, func(ctx context.Context) error {
		return c.reconcile(ctx, contract.ReconcileRequest{Source: "worker start", Interval: &settings.SweepInterval})
	}}}
	if settings.Inventory == placementKind && settings.NovaBroker != "" {
		listener := &nova.Listener{URL: settings.NovaBroker, Handle: c.onNotifications,
			OnConnected: c.onConnected, Log: logger}
		tasks = append(tasks, task{"listening to Nova's notifications", nil, listener.Run},
			task{"reconciling once more after moves", nil, c.reconcileAfterMove})
	}
	return tasks
}

// cloud requests reconciliations of one cloud's workflow.
type cloud struct {
	name     string
	every    time.Duration     // between two reconciliations
	hosts    map[string]string // Nova's names, and ours
	temporal *client.Client
	// moved: an instance was moved, and the source may not have dropped its allocation yet.
	moved chan struct{}
}

// moveSettleTime is how long after the notification of a move the source has certainly
// dropped its allocation: Nova notifies of a live migration before that (S0.24).
const moveSettleTime = 5 * time.Second

// reconcile signals the cloud's workflow, which it starts if it does not run and which then
// reconciles at its interval. It returns once the server has stored the request.
func (c *cloud) reconcile(ctx context.Context, request contract.ReconcileRequest) error {
	err := c.temporal.ReconcileNow(ctx, c.name, c.every, request)
	if err != nil {
		return fmt.Errorf("signal %s: %w", contract.ReconcileWorkflowID(c.name), err)
	}
	return nil
}

// onNotifications requests a reconciliation of the hosts and instances in notifications
// (S0.29).
func (c *cloud) onNotifications(ctx context.Context, events []nova.Event) error {
	request := contract.ReconcileRequest{Source: "nova"}
	for _, e := range events {
		request.Full = request.Full || e.AllHosts
		if e.Instance != "" && !slices.Contains(request.Instances, e.Instance) {
			request.Instances = append(request.Instances, e.Instance)
		}
		for _, host := range e.Hosts {
			if ours, ok := c.hosts[host]; ok {
				host = ours
			}
			if !slices.Contains(request.Hosts, host) {
				request.Hosts = append(request.Hosts, host)
			}
		}
	}
	if len(request.Hosts) == 0 && len(request.Instances) == 0 {
		request.Full = true
	}
	if err := c.reconcile(ctx, request); err != nil {
		return err
	}
	if request.Full {
		select {
		case c.moved <- struct{}{}:
		default: // one more reconciliation covers all moves
		}
	}
	return nil
}

// onConnected requests a full reconciliation: notifications that were sent before this
// listener was connected may be lost, since a restarted broker forgets a queue's binding to
// an exchange that is not durable.
func (c *cloud) onConnected(ctx context.Context) error {
	return c.reconcile(ctx, contract.ReconcileRequest{Source: "listening", Full: true})
}

// reconcileAfterMove requests one more reconciliation after each move, moveSettleTime later,
// until ctx ends. If the worker is killed meanwhile, the periodic reconciliation does it.
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
