package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// The pauses between two lists are so many times what the last one took, so that watching takes at
// most a twentieth of one processor on either side; but not shorter or longer than these.
const (
	listPause    = 19
	minListPause = 20 * time.Millisecond
	maxListPause = time.Second
)

// watcher waits for many devices by listing them all, as a client of many devices does.
type watcher struct {
	list  func(ctx context.Context) (map[string]string, error)
	lists int // so far; read after run

	mu      sync.Mutex
	waiting map[string]waiter // by device
}

type waiter struct {
	state string
	done  chan error
}

func newWatcher(list func(context.Context) (map[string]string, error)) *watcher {
	return &watcher{list: list, waiting: map[string]waiter{}}
}

// await waits until a list that began after this call shows the device in the state.
func (w *watcher) await(ctx context.Context, id, state string) (time.Time, error) {
	one := waiter{state, make(chan error, 1)}
	w.mu.Lock()
	w.waiting[id] = one
	w.mu.Unlock()
	select {
	case err := <-one.done:
		return time.Now(), err
	case <-time.After(turnoverWithin):
		return time.Time{}, fmt.Errorf("no list showed %s in state %s within %s", id, state, turnoverWithin)
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// run lists until ctx ends. A list that fails is the result of all who wait.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		took := w.look(ctx)
		select {
		case <-time.After(min(max(took*listPause, minListPause), maxListPause)):
		case <-ctx.Done():
		}
	}
}

// look lists once, answers those who waited before, and returns how long the list took.
func (w *watcher) look(ctx context.Context) time.Duration {
	w.mu.Lock()
	asked := maps.Clone(w.waiting)
	w.mu.Unlock()
	began := time.Now()
	found, err := w.list(ctx)
	took := time.Since(began)
	w.lists++
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, one := range asked {
		if err != nil || found[id] == one.state {
			one.done <- err
			delete(w.waiting, id)
		}
	}
	return took
}
