package main

import (
	"context"
	"log/slog"
	"time"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/logs"
	"burnish/internal/systemd"
)

const (
	// dialAgainAfter is the pause between two attempts to reach the server.
	dialAgainAfter = 2 * time.Second
	// stillWaitingEvery is how often a worker says that it still waits for its server.
	stillWaitingEvery = time.Minute
)

// connection is how a worker finds its server.
type connection struct {
	dial func(context.Context) (*config.Connection, error)
	log  *slog.Logger
	// status says in words what the worker waits for; nil is nothing.
	status func(text string)
}

// await connects, and waits for a server that does not answer: a worker may start before it,
// and a machine's services in any order. It logs one line at once, and then one a minute. A
// server that answers, and refuses this worker, is an error that says why. When ctx ends, it
// returns its error.
func (c connection) await(ctx context.Context) (*config.Connection, error) {
	began := time.Now()
	var said time.Time
	for {
		found, err := c.dial(ctx)
		switch f, isFault := device.AsFault(err); {
		case err == nil:
			if !said.IsZero() {
				c.log.Info("the server answers", logs.Duration, time.Since(began).Round(time.Second))
			}
			return found, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !isFault || f.Class != device.Transient:
			return nil, err
		case time.Since(said) >= stillWaitingEvery:
			said = time.Now()
			c.log.Warn("waiting for the server", "error", f.Message, "remedy", f.Remedy, logs.Duration,
				said.Sub(began).Round(time.Second))
			if c.status != nil {
				c.status("waits for the server: " + f.Message)
			}
		}
		if !wait(ctx, dialAgainAfter) {
			return nil, ctx.Err()
		}
	}
}

// notices are what a worker tells the service manager that started it. A notice that cannot be
// sent stops no worker.
type notices struct {
	to  systemd.Notifier
	log *slog.Logger
}

func newNotices(logger *slog.Logger) notices {
	to, err := systemd.FromEnvironment()
	n := notices{to: to, log: logger}
	n.check(err)
	return n
}

// ready says that the worker polls.
func (n notices) ready() { n.check(n.to.Ready()) }

func (n notices) stopping() { n.check(n.to.Stopping()) }

func (n notices) status(text string) { n.check(n.to.Status(text)) }

func (n notices) check(err error) {
	if err != nil {
		n.log.Warn("the service manager does not learn how far this worker is", "error", err)
	}
}
