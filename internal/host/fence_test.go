package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// tryFence is Fence without waiting: one that is held is a *lockedError.
func tryFence(h *Host, key string) (*Fence, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	return h.Fence(ctx, key, func(holder string) { cancel(&lockedError{holder}) })
}

// F1
func TestOrphanKeepsTheFenceOfItsKilledWorker(t *testing.T) {
	dir, name := testDir(t), hostName(t)
	worker := startChild(t, childCommand("fence", dir, name, "S1"))
	orphan, err := strconv.Atoi(worker.line(t))
	require.NoError(t, err)
	worker.kill9(t)

	h, err := Open(dir, name, nil)
	require.NoError(t, err, "the orphan must not keep the next worker from starting")
	defer func() { require.NoError(t, h.Close()) }()
	_, err = tryFence(h, "S1")
	require.ErrorContains(t, err, fmt.Sprintf("a child of pid %d, which has ended (zero of clean 7)", worker.Process.Pid))

	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("the attempt is over")
	_, err = h.Fence(ctx, "S1", func(string) { cancel(over) })
	require.ErrorIs(t, err, over, "used the device while the orphan did")

	other, err := h.Fence(t.Context(), "S2", nil)
	require.NoError(t, err, "the fence of another device is free")
	require.NoError(t, other.Close())

	// The orphan ends while an attempt waits.
	var once sync.Once
	f, err := h.Fence(t.Context(), "S1", func(holder string) {
		once.Do(func() { require.NoError(t, unix.Kill(orphan, unix.SIGKILL)) })
	})
	require.NoError(t, err)
	require.NoError(t, f.Held())
	require.NoError(t, f.Close())
}

// F1
func TestCloseLeavesTheFenceToTheChild(t *testing.T) {
	h := openHost(t)
	f, err := h.Fence(t.Context(), "S1", nil)
	require.NoError(t, err)
	cmd := childCommand("idle")
	cmd.ExtraFiles = []*os.File{f.File()}
	child := startChild(t, cmd)
	require.Equal(t, "ready", child.line(t))

	require.NoError(t, f.Close())
	_, err = tryFence(h, "S1")
	require.ErrorAs(t, err, new(*lockedError))

	child.kill9(t)
	f, err = tryFence(h, "S1")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// F1
func TestStoppedHolderKeepsTheFence(t *testing.T) {
	dir, name := testDir(t), hostName(t)
	worker := startChild(t, childCommand("fence", dir, name, "S1"))
	orphan, err := strconv.Atoi(worker.line(t))
	require.NoError(t, err)
	for _, pid := range []int{worker.Process.Pid, orphan} {
		require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		defer func() { require.NoError(t, unix.Kill(pid, unix.SIGCONT)) }()
	}
	_, err = tryFence(&Host{dir: dir}, "S1")
	require.ErrorContains(t, err, fmt.Sprintf("pid %d (zero of clean 7)", worker.Process.Pid))
}

// F1
func TestOnlyTheNamedDescriptorIsInherited(t *testing.T) {
	h := openHost(t)
	f, err := h.Fence(t.Context(), "S1", nil)
	require.NoError(t, err)
	child := startChild(t, childCommand("idle")) // inherits nothing
	require.Equal(t, "ready", child.line(t))
	require.NoError(t, f.Close())
	f, err = tryFence(h, "S1")
	require.NoError(t, err, "a child without the fence got its descriptor")
	require.NoError(t, f.Close())
}

// F1
func TestOneHolderAmongManyProcessesAndGoroutines(t *testing.T) {
	h := openHost(t)
	file := filepath.Join(t.TempDir(), "count")
	require.NoError(t, os.WriteFile(file, []byte("0"), 0o600))
	const processes, goroutines, each = 3, 4, 20
	var group sync.WaitGroup
	failed := make(chan error, processes+goroutines)
	for range processes {
		cmd := childCommand("count", h.Dir(), "S1", file, strconv.Itoa(each))
		require.NoError(t, cmd.Start())
		group.Go(func() { failed <- cmd.Wait() })
	}
	for range goroutines {
		group.Go(func() { failed <- count(h, "S1", file, each) })
	}
	group.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa((processes+goroutines)*each), string(text))
}

// F1
func TestWaitersOfOneProcessAreServedInOrder(t *testing.T) {
	h := openHost(t)
	synctest.Test(t, func(t *testing.T) {
		f, err := h.Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		const n = 5
		var served []int
		for i := range n {
			go func() {
				f, err := h.Fence(context.WithoutCancel(t.Context()), "S1", nil)
				if assert.NoError(t, err) {
					served = append(served, i)
					assert.NoError(t, f.Close())
				}
			}()
			time.Sleep(2 * waitInterval) //nolint:forbidigo // on the test's own clock
		}
		require.NoError(t, f.Close())
		synctest.Wait()
		require.Len(t, served, n)
		require.IsIncreasing(t, served)
	})
}

// Without the lock inside this process a deleted lock file would let a second attempt in.
//
// F1
func TestDeletedLockFileDoesNotLetASecondAttemptIn(t *testing.T) {
	h := openHost(t)
	f, err := h.Fence(t.Context(), "S1", nil)
	require.NoError(t, err)
	require.NoError(t, os.Remove(f.path))
	_, err = tryFence(h, "S1")
	require.ErrorAs(t, err, new(*lockedError))
	require.NoError(t, f.Close())
}

// F1
func TestWaiterReportsAtOnceAndEverySecond(t *testing.T) {
	hold := map[string]func(t *testing.T, h *Host) io.Closer{
		"in this process": func(t *testing.T, h *Host) io.Closer {
			f, err := tryFence(h, "S1")
			require.NoError(t, err)
			require.NoError(t, f.Describe("verify"))
			return f
		},
		"in another": func(t *testing.T, h *Host) io.Closer {
			file, err := lockFile(h.path(lockFolder, "S1"))
			require.NoError(t, err)
			require.NoError(t, writeHolder(file, "verify"))
			return file
		},
	}
	for where, hold := range hold {
		t.Run(where, func(t *testing.T) {
			h := openHost(t)
			synctest.Test(t, func(t *testing.T) {
				holder := hold(t, h)
				start := time.Now()
				var reports []time.Duration
				stop := fmt.Errorf("stop")
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(3500*time.Millisecond, func() { cancel(stop) })
				_, err := h.Fence(ctx, "S1", func(holder string) {
					require.Contains(t, holder, fmt.Sprintf("pid %d (verify)", os.Getpid()))
					reports = append(reports, time.Since(start).Round(time.Second))
				})
				require.ErrorIs(t, err, stop, "the error is the cause")
				require.Equal(t, 3500*time.Millisecond, time.Since(start), "ends with its context, not later")
				require.Equal(t, []time.Duration{0, 1e9, 2e9, 3e9}, reports)
				require.NoError(t, holder.Close())
				f, err := tryFence(h, "S1")
				require.NoError(t, err, "the waiter that gave up left a lock")
				require.NoError(t, f.Close())
			})
		})
	}
}

// F1
func TestEndedContextNeverGetsTheFence(t *testing.T) {
	h := openHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := h.Fence(ctx, "S1", nil)
	require.ErrorIs(t, err, context.Canceled)
	f, err := tryFence(h, "S1")
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A waiter that gives up when it is granted the fence passes it on.
//
// F1
func TestWaiterThatGivesUpPassesTheFenceOn(t *testing.T) {
	h := openHost(t)
	for range 50 { // the waiter may see either of the two first
		f, err := h.Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		_, err = h.Fence(ctx, "S1", func(string) {
			require.NoError(t, f.Close())
			cancel()
		})
		require.ErrorIs(t, err, context.Canceled)
		f, err = tryFence(h, "S1")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
}

// F1
func TestHeldDetectsEveryLoss(t *testing.T) {
	unlock := func(t *testing.T, f *Fence) {
		shared, err := unix.Dup(int(f.File().Fd())) // as a child has it
		require.NoError(t, err)
		require.NoError(t, unix.Flock(shared, unix.LOCK_UN))
		require.NoError(t, unix.Close(shared))
	}
	cases := map[string]struct {
		lose func(t *testing.T, f *Fence)
		want string
	}{
		"lock file deleted": {func(t *testing.T, f *Fence) { require.NoError(t, os.Remove(f.path)) }, "removed or replaced"},
		"lock file replaced": {func(t *testing.T, f *Fence) {
			require.NoError(t, os.Remove(f.path))
			require.NoError(t, os.WriteFile(f.path, nil, 0o600))
		}, "removed or replaced"},
		"unlocked by a child": {unlock, "was freed"},
		"taken by another": {func(t *testing.T, f *Fence) {
			unlock(t, f)
			file, err := lockFile(f.path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, file.Close()) })
		}, "another process holds"},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			h := openHost(t)
			f, err := h.Fence(t.Context(), "S1", nil)
			require.NoError(t, err)
			for range 3 {
				require.NoError(t, f.Held())
			}
			c.lose(t, f)
			for range 2 {
				fault := requireFault(t, f.Held(), device.Transient, device.CodeStateDirError)
				require.Contains(t, fault.Message, c.want)
			}
			require.NoError(t, f.Close())
		})
	}
	t.Run("closed", func(t *testing.T) {
		f, err := openHost(t).Fence(t.Context(), "S1", nil)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, f.Close())
		require.ErrorContains(t, f.Held(), "closed")
		require.ErrorContains(t, f.Describe("x"), "closed")
		require.Nil(t, f.File())
	})
}

// F1
func TestRemovedLockFileIsNotAFence(t *testing.T) {
	path := filepath.Join(t.TempDir(), "S1")
	file, err := lockFile(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	same, err := stillAt(file, path)
	require.NoError(t, err)
	require.False(t, same)
	require.NoError(t, file.Close())
}

func TestFence_StateDirFailure(t *testing.T) {
	h := openHost(t)
	require.NoError(t, os.Symlink("elsewhere", h.path(lockFolder, "S1")))
	_, err := tryFence(h, "S1")
	requireFault(t, err, device.Transient, device.CodeStateDirError)
	_, err = h.Fence(t.Context(), "S1", nil)
	requireFault(t, err, device.Transient, device.CodeStateDirError)
	_, err = h.Fence(t.Context(), "", nil)
	require.ErrorContains(t, err, "empty")

	require.NoError(t, os.Remove(h.path(lockFolder, "S1")))
	f, err := tryFence(h, "S1")
	require.NoError(t, err, "a failure left the key locked in this process")
	require.NoError(t, f.Close())
}

// F1
func TestChildDiesWithItsParentInAGroupOfItsOwn(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	cmd := childCommand("parent")
	cmd.ExtraFiles = []*os.File{write}
	parent := startChild(t, cmd)
	pid, err := strconv.Atoi(parent.line(t))
	require.NoError(t, err)
	require.NoError(t, write.Close())
	group, err := unix.Getpgid(pid)
	require.NoError(t, err)
	require.Equal(t, pid, group)

	parent.kill9(t)
	// The pipe ends with the last process that has it. The child's standard input stays
	// open: the signal ends the child.
	_, err = io.ReadAll(read)
	require.NoError(t, err)
	require.NoError(t, read.Close())
}
