package main

import (
	"fmt"
	"log/slog"

	"burnish/internal/config"
	"burnish/internal/oneview"
	"burnish/internal/telemetry"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// serveFigures serves the worker's figures and its readiness, if its settings say where.
func serveFigures(settings config.Worker, figures *telemetry.Telemetry) (stop func() error, err error) {
	if settings.MetricsAddress == "" {
		return nil, nil
	}
	if stop, err = figures.Serve(settings.MetricsAddress); err != nil {
		return nil, usageError{fmt.Errorf("BURNISH_METRICS_ADDRESS: %w", err)}
	}
	return stop, nil
}

// queues are the task queues that a worker with these settings polls.
func queues(settings config.Worker) []telemetry.Queue {
	var all []telemetry.Queue
	if settings.Role.Controls() {
		all = append(all, telemetry.Queue{Name: contract.Queue, Workflows: true}, telemetry.Queue{Name: contract.Queue})
	}
	if settings.Role.Hosts() {
		all = append(all, telemetry.Queue{Name: contract.HostQueue(settings.Host)})
	}
	return all
}

// fleetOf is what a control worker shows of all devices.
func fleetOf(settings config.Worker, devices *client.Client, pools oneview.Pools, logger *slog.Logger) telemetry.Fleet {
	fleet := telemetry.Fleet{Client: devices, Log: logger}
	if settings.Inventory == placementKind {
		fleet.Cloud = settings.Cloud
	}
	if settings.OneView != "" {
		fleet.Appliances = pools.Names
	}
	return fleet
}
