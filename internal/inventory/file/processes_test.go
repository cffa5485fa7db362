package file_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/inventory/file"
	"burnish/internal/testkit/suites/inventorytest"
)

// writerEnv makes the test binary run as a writer: "<dir> <n>".
const writerEnv = "BURNISH_TEST_INVENTORY_WRITER"

func TestMain(m *testing.M) {
	if task := os.Getenv(writerEnv); task != "" {
		if err := writer(task); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// writer raises the example's generation n times by writing reserved, and prints each
// generation that was acknowledged.
func writer(task string) error {
	var dir string
	var n int
	if _, err := fmt.Sscan(task, &n, &dir); err != nil {
		return err
	}
	s, err := file.New(dir)
	if err != nil {
		return err
	}
	for i := 0; i < n; {
		st, err := s.Reservation(context.Background(), example.UUID)
		if err != nil {
			return err
		}
		st, err = s.PutReserved(context.Background(), example.UUID, st.Generation, i%2, nil)
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeConflict {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println(st.Generation)
		i++
	}
	return nil
}

func startWriter(t *testing.T, dir string, n int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", writerEnv, n, dir))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, bufio.NewScanner(out)
}

func TestFourProcessesLoseNoUpdate(t *testing.T) {
	const processes, writes = 4, 25
	s, dir, _ := created(t)
	var cmds [processes]*exec.Cmd
	var outs [processes]*bufio.Scanner
	for i := range processes {
		cmds[i], outs[i] = startWriter(t, dir, writes)
	}
	seen := map[string]bool{}
	for i := range processes {
		for outs[i].Scan() {
			require.False(t, seen[outs[i].Text()], "two writes made generation %s", outs[i].Text())
			seen[outs[i].Text()] = true
		}
		require.NoError(t, cmds[i].Wait())
	}
	require.Len(t, seen, processes*writes)
	st, err := s.Reservation(t.Context(), example.UUID)
	require.NoError(t, err)
	require.Equal(t, int64(processes*writes), st.Generation)
}

// Every acknowledged write is kept, whenever the process is killed.
//
// F10
func TestKilledWriterLeavesEveryAcknowledgedWrite(t *testing.T) {
	s, dir, _ := created(t)
	for kill := range 12 {
		cmd, out := startWriter(t, dir, 1<<30)
		var acknowledged int64
		for range kill + 1 {
			require.True(t, out.Scan())
			var err error
			acknowledged, err = strconv.ParseInt(out.Text(), 10, 64)
			require.NoError(t, err)
		}
		require.NoError(t, cmd.Process.Kill())
		for out.Scan() { // what it said before it died
			if g, err := strconv.ParseInt(out.Text(), 10, 64); err == nil {
				acknowledged = max(acknowledged, g)
			}
		}
		require.Error(t, cmd.Wait(), "it was not killed")
		st, err := s.Reservation(t.Context(), example.UUID)
		require.NoError(t, err)
		require.GreaterOrEqual(t, st.Generation, acknowledged)
		require.LessOrEqual(t, st.Generation, acknowledged+1, "at most the write under way")
		_, err = s.PutReserved(t.Context(), example.UUID, st.Generation, 1, nil)
		require.NoError(t, err)
	}
}

// hold takes the directory's lock as another process would.
func hold(t *testing.T, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return f
}

// endsInTheWait is a context that ends when its caller waits a second time: for the
// lock itself, after its turn.
type endsInTheWait struct {
	context.Context
	waits atomic.Int32
	ended chan struct{}
}

func (c *endsInTheWait) Done() <-chan struct{} {
	if c.waits.Add(1) < 2 {
		return nil
	}
	return c.ended
}

func (c *endsInTheWait) Err() error {
	if c.waits.Load() < 2 {
		return nil
	}
	return context.Canceled
}

func TestWaitForTheLockEndsWithItsContext(t *testing.T) {
	s, dir, _ := created(t)
	holder := hold(t, dir)
	ctx := &endsInTheWait{Context: t.Context(), ended: make(chan struct{})}
	close(ctx.ended)
	errs := make(chan error, 1)
	go func() {
		_, err := s.Reservation(ctx, example.UUID)
		errs <- err
	}()
	select {
	case err := <-errs:
		inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(time.Minute):
		t.Fatal("it waits on although its context ended")
	}

	// The call that gave up blocks no other once the lock is free.
	require.NoError(t, holder.Close())
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := s.PutReserved(soon, example.UUID, 0, 0, nil)
	require.NoError(t, err)
	_, err = open(t, dir).PutReserved(soon, example.UUID, 1, 1, nil)
	require.NoError(t, err)
}

// Reads wait too: a renamed file must not be read before it is synced.
func TestNoCallGoesPastTheLock(t *testing.T) {
	s, dir, path := created(t)
	holder := hold(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	const callers = 10
	errs := make(chan map[string]error)
	for range callers {
		go func() { errs <- callAll(ctx, s) }()
	}
	cancel()
	for range callers {
		for name, err := range <-errs {
			inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
			require.ErrorIs(t, err, context.Canceled, name)
		}
	}
	require.Equal(t, exampleFile, read(t, path))
	require.NoError(t, holder.Close())
	_, err := s.Reservation(t.Context(), example.UUID)
	require.NoError(t, err)
}

// A directory whose file system was unmounted looks empty, but its providers exist.
func TestDirectoryWithoutItsLockIsUnavailable(t *testing.T) {
	s, dir, path := created(t)
	require.NoError(t, os.RemoveAll(dir))
	for _, there := range []bool{false, true} {
		if there {
			require.NoError(t, os.MkdirAll(dir, 0o700))
		}
		for name, err := range callAll(t.Context(), s) {
			inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
			require.ErrorIs(t, err, os.ErrNotExist, name)
		}
		require.NoFileExists(t, path)
	}
}
