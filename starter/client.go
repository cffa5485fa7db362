package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/api/remote"
	"burnish/internal/config"
	"burnish/workflows/client"
)

// deviceClient is a way to the devices, over Temporal or the HTTP API.
type deviceClient interface {
	client.Reader
	client.Writer
	Close()
}

// connect connects to the API, or else to Temporal, without the SDK's log.
func (a *app) connect(ctx context.Context) (deviceClient, error) {
	if a.api != "" {
		ctx, cancel := a.requestContext(ctx)
		defer cancel()
		return remote.New(ctx, a.api, a.getenv)
	}
	c, err := config.Dial(ctx, slog.New(slog.DiscardHandler), "", func(o *sdkclient.Options) {
		o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, client.WatchSending())
	})
	if err != nil {
		return nil, err
	}
	at := client.Server{Address: c.Address, Namespace: c.Namespace}
	return connection{client.Connected{Client: client.New(c), At: at}, c}, nil
}

// server names who answers the requests, and says how another one is chosen.
func (a *app) server() (name, choose string) {
	if a.api != "" {
		return "the API at " + a.api, "start it, or set --api or " + config.VarAPI
	}
	return "Temporal", "start it, or set TEMPORAL_ADDRESS"
}

// connection is a deviceClient over Temporal.
type connection struct {
	client.Connected
	server *config.Connection
}

func (c connection) Close() { c.server.Close() }

const (
	// clockTimeout bounds the reading of the server's clock; Temporal ends a poll that has less
	// than two seconds at once.
	clockTimeout = 5 * time.Second
	clockPause   = 10 * time.Millisecond
)

// clockReader is a deviceClient that can read the server's clock.
type clockReader interface {
	ServerTime(ctx context.Context) (time.Time, error)
}

// ServerTime reads the server's clock. No request gives it, but the server keeps when a task
// queue was polled: this polls one of its own, which never has a task.
func (c connection) ServerTime(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	queue := "burnish-doctor-" + uuid.NewString()
	ended := make(chan error, 1)
	go func() {
		_, err := c.server.WorkflowService().PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: c.server.Namespace, Identity: "burnish doctor",
			TaskQueue: &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		})
		ended <- err
	}()
	for {
		answer, err := c.server.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_ACTIVITY)
		if err != nil {
			return time.Time{}, err
		}
		if pollers := answer.GetPollers(); len(pollers) > 0 {
			return pollers[0].GetLastAccessTime().AsTime(), nil
		}
		select {
		case err := <-ended:
			return time.Time{}, err
		case <-time.After(clockPause):
		}
	}
}
