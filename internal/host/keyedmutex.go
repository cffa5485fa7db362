package host

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// keyedMutex gives each key to one goroutine of this process at a time, first come, first
// served. A file lock alone keeps no order, and does not exclude others once the file is deleted.
type keyedMutex struct {
	mu   sync.Mutex
	held map[string]*keyLock
}

// keyLock is the holder of one key, and the queue of waiters.
type keyLock struct {
	mu      sync.Mutex
	purpose string
	queue   []chan struct{} // closed by pass, under keyedMutex.mu
}

func (t *keyLock) describe(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.purpose = what
}

func (t *keyLock) holder() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("this worker, pid %d (%s)", os.Getpid(), t.purpose)
}

// tryLock takes key if it is free; otherwise it names the holder.
func (t *keyedMutex) tryLock(key string) (*keyLock, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held := t.held[key]; held != nil {
		return nil, held.holder()
	}
	return t.grant(key), ""
}

// grant makes the caller the holder of a free key.
func (t *keyedMutex) grant(key string) *keyLock {
	if t.held == nil {
		t.held = make(map[string]*keyLock)
	}
	t.held[key] = &keyLock{purpose: unnamedStep}
	return t.held[key]
}

// lock waits for key until ctx ends, and reports at once and every second that it waits.
func (t *keyedMutex) lock(ctx context.Context, key string, waiting func(holder string)) (*keyLock, error) {
	t.mu.Lock()
	held := t.held[key]
	if held == nil {
		defer t.mu.Unlock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return t.grant(key), nil
	}
	granted := make(chan struct{})
	held.queue = append(held.queue, granted)
	t.mu.Unlock()

	tick := time.NewTicker(waitInterval)
	defer tick.Stop()
	for {
		waiting(held.holder())
		select {
		case <-granted:
			return held, nil
		case <-ctx.Done():
			t.cancel(key, granted)
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// cancel removes a waiter from the queue. A waiter that was granted the key meanwhile passes
// it on.
func (t *keyedMutex) cancel(key string, granted chan struct{}) {
	t.mu.Lock()
	held := t.held[key]
	i := slices.Index(held.queue, granted)
	if i >= 0 {
		held.queue = slices.Delete(held.queue, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 {
		t.unlock(key)
	}
}

// unlock gives the key to the first waiter of the queue.
func (t *keyedMutex) unlock(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.held[key]
	if len(held.queue) == 0 {
		delete(t.held, key)
		return
	}
	held.describe(unnamedStep)
	close(held.queue[0])
	held.queue = held.queue[1:]
}
