package api

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"
)

// turns lets so many reads work at once that half of the processors are left to changes and to the
// devices' workflows, however many callers read.
type turns struct{ free *semaphore.Weighted }

func newTurns() turns {
	return turns{semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2)))}
}

// turnFor is how long a read has its turn. One that takes longer waits for another system, or for its
// caller, and needs no processor.
const turnFor = 100 * time.Millisecond

// take waits for a turn; the caller calls leave when the read is answered.
func (t turns) take(ctx context.Context) (leave func(), err error) {
	if err := t.free.Acquire(ctx, 1); err != nil {
		return func() {}, err
	}
	began := time.Now()
	turn := time.AfterFunc(turnFor, func() { t.free.Release(1) })
	return func() {
		if turn.Stop() { // as long as it took, no other one begins: this is the others' share of the processors
			turn.Reset(time.Since(began))
		}
	}, nil
}
