package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"burnish/workflows/client"
)

const (
	// listAge is how old a listing may be before it is read again.
	listAge = time.Second
	// ageRatio bounds what reading costs a large fleet: a listing that took longer is shown for so
	// many times as long, however many callers there are.
	ageRatio = 2
)

// fleet is the listing of all devices, which pages are cut from. It is read when somebody asks for a
// page and it is too old, once for all who wait for it.
type fleet struct {
	list  func(context.Context) ([]client.Execution, error)
	log   *slog.Logger
	reads singleflight.Group

	mu      sync.Mutex
	devices []client.Execution
	until   time.Time
}

// read returns all devices in the order of their UUIDs. The caller does not change them.
func (f *fleet) read(ctx context.Context) ([]client.Execution, error) {
	f.mu.Lock()
	devices, fresh := f.devices, time.Now().Before(f.until)
	f.mu.Unlock()
	if fresh {
		return devices, nil
	}
	// One caller who no longer waits ends no other caller's wait.
	again := f.reads.DoChan("", func() (any, error) { return f.readAgain(context.WithoutCancel(ctx)) })
	select {
	case answer := <-again:
		devices, _ = answer.Val.([]client.Execution)
		return devices, answer.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *fleet) readAgain(ctx context.Context) ([]client.Execution, error) {
	ctx, cancel := context.WithTimeout(ctx, DefaultTimeout)
	defer cancel()
	began := time.Now()
	devices, err := f.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range devices {
		if e.Err != nil {
			f.log.Warn("a device cannot be read whole", "device", e.Name, "error", e.Err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.devices, f.until = devices, time.Now().Add(max(listAge, ageRatio*time.Since(began)))
	return devices, nil
}
