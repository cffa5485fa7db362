package host

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// turns gives each key to one goroutine of this process at a time, in the order of
// asking. A file lock alone would keep them apart too, but not in order, and not
// once somebody deleted the file.
type turns struct {
	mu   sync.Mutex
	held map[string]*turn
}

// turn is one key's holder, and who waits for it.
type turn struct {
	mu    sync.Mutex
	what  string
	queue []chan struct{} // closed by pass, under turns.mu
}

func (t *turn) describe(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.what = what
}

func (t *turn) holder() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("this worker, pid %d (%s)", os.Getpid(), t.what)
}

// try takes key if nobody has it; otherwise it names the holder.
func (t *turns) try(key string) (*turn, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if held := t.held[key]; held != nil {
		return nil, held.holder()
	}
	return t.begin(key), ""
}

// begin makes the caller the holder of a free key.
func (t *turns) begin(key string) *turn {
	if t.held == nil {
		t.held = make(map[string]*turn)
	}
	t.held[key] = &turn{what: someStep}
	return t.held[key]
}

// take waits for key until ctx ends, and says at once and every second that it does.
func (t *turns) take(ctx context.Context, key string, waiting func(holder string)) (*turn, error) {
	t.mu.Lock()
	held := t.held[key]
	if held == nil {
		defer t.mu.Unlock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return t.begin(key), nil
	}
	granted := make(chan struct{})
	held.queue = append(held.queue, granted)
	t.mu.Unlock()

	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		waiting(held.holder())
		select {
		case <-granted:
			return held, nil
		case <-ctx.Done():
			t.leave(key, granted)
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// leave takes a waiter out of the queue. One that was granted the key meanwhile has
// it and must hand it on.
func (t *turns) leave(key string, granted chan struct{}) {
	t.mu.Lock()
	held := t.held[key]
	i := slices.Index(held.queue, granted)
	if i >= 0 {
		held.queue = slices.Delete(held.queue, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 {
		t.pass(key)
	}
}

// pass ends the holder's turn: the first in the queue has the key.
func (t *turns) pass(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := t.held[key]
	if len(held.queue) == 0 {
		delete(t.held, key)
		return
	}
	held.describe(someStep)
	close(held.queue[0])
	held.queue = held.queue[1:]
}
