package host

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// keyedMutex gives each key to one goroutine of this process at a time, first come, first
// served. A file lock alone keeps no order, and does not exclude others once the file is deleted.
type keyedMutex struct {
	mu    sync.Mutex
	locks map[string]*keyLock // of each key that was ever locked
}

// keyLock is the lock of one key.
type keyLock struct {
	turn *semaphore.Weighted

	mu      sync.Mutex
	purpose string // of the holder
}

func (l *keyLock) describe(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.purpose = what
}

func (l *keyLock) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("this worker, pid %d (%s)", os.Getpid(), l.purpose)
}

func (l *keyLock) unlock() {
	l.describe(unnamedStep)
	l.turn.Release(1)
}

func (t *keyedMutex) of(key string) *keyLock {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.locks == nil {
		t.locks = map[string]*keyLock{}
	}
	if t.locks[key] == nil {
		t.locks[key] = &keyLock{turn: semaphore.NewWeighted(1), purpose: unnamedStep}
	}
	return t.locks[key]
}

// lock waits for key until ctx ends, and reports at once and every second that it waits.
func (t *keyedMutex) lock(ctx context.Context, key string, waiting func(holder string)) (*keyLock, error) {
	l := t.of(key)
	if !l.turn.TryAcquire(1) {
		waiting(l.holder())
		var reports sync.WaitGroup
		granted := make(chan struct{})
		reports.Go(func() {
			tick := time.NewTicker(waitInterval)
			defer tick.Stop()
			for {
				select {
				case <-granted:
					return
				case <-tick.C:
					waiting(l.holder())
				}
			}
		})
		err := l.turn.Acquire(ctx, 1)
		close(granted)
		reports.Wait()
		if err != nil {
			return nil, context.Cause(ctx)
		}
	}
	if ctx.Err() != nil { // an attempt that has ended never gets a free key
		l.unlock()
		return nil, context.Cause(ctx)
	}
	return l, nil
}
