package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"burnish/internal/api/access"
	"burnish/internal/config"
	"burnish/internal/oneview"
	"burnish/internal/telemetry"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// figuresStopTimeout is how long the worker waits for answers of its figures when it stops.
const figuresStopTimeout = 2 * time.Second

// serveFigures serves the worker's figures and its readiness, if its settings say where.
func serveFigures(ctx context.Context, settings config.Worker, figures *telemetry.Telemetry, logger *slog.Logger,
	fatal func(error)) (stop func() error, err error) {
	if settings.MetricsAddress == "" {
		return nil, nil
	}
	listener, err := access.Listen(ctx, settings.MetricsAddress, nil)
	if err != nil {
		return nil, usageError{fmt.Errorf("BURNISH_METRICS_ADDRESS: %w", err)}
	}
	logger.Info("metrics are served", "address", listener.Addr().String())
	return serveHTTP(access.NewServer(figures.Handler(), logger), listener, "metrics at "+settings.MetricsAddress,
		figuresStopTimeout, logger, fatal), nil
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
