package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/proc"
)

// A wait is answered by a list that began after it, never by one that was under way: what that says
// may be older than the request before the wait.
func TestAWaitIsAnsweredByALaterList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began atomic.Int64
		w := newWatcher(func(context.Context) (map[string]string, error) {
			time.Sleep(time.Second)
			began.Add(1)
			return map[string]string{"a": "available", "b": "active"}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		go w.run(ctx)
		time.Sleep(500 * time.Millisecond) // in the middle of the first list
		require.NoError(t, w.await(ctx, "a", "available"))
		require.EqualValues(t, 2, began.Load(), "the first list was under way")
		require.ErrorContains(t, w.await(ctx, "b", "available"), "no list showed b in state available")
		cancel()
		require.ErrorIs(t, w.await(ctx, "b", "available"), context.Canceled)
		synctest.Wait()
	})
}

// Watching takes a twentieth of the time at most, however long a list takes, and never rests for
// more than a second.
func TestPausesBetweenLists(t *testing.T) {
	for took, lists := range map[time.Duration]int{
		0:                      501, // each 20 ms
		10 * time.Millisecond:  51,  // each 200 ms
		500 * time.Millisecond: 7,   // each 1.5 s
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWatcher(func(context.Context) (map[string]string, error) {
				time.Sleep(took)
				return nil, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
			defer cancel()
			w.run(ctx)
			require.Equal(t, lists, w.lists, "%s a list", took)
		})
	}
}

func TestAListThatFailsEndsEachWait(t *testing.T) {
	failed := errors.New("the node is in state clean failed")
	w := newWatcher(func(context.Context) (map[string]string, error) { return nil, failed })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go w.run(ctx)
	require.ErrorIs(t, parallel(3, func(i int) error { return w.await(ctx, string(rune('a'+i)), "available") }), failed)
}

func TestProcessorTimeIsReadBehindTheName(t *testing.T) {
	s, err := parseStat("7 (a) b (c) S 1 42 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0")
	require.NoError(t, err)
	require.Equal(t, processStat{group: 42, used: 2 * time.Second}, s)
	_, err = parseStat("7 (a) S 1 42")
	require.ErrorContains(t, err, "3 fields")
}

// A process's children count too, while they run.
func TestAGroupsProcessorTimeIncludesChildren(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "(while :; do :; done) & wait")
	p, err := proc.Start("group", filepath.Join(dir, "log"), cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.KillGroup()) })
	var own, group time.Duration
	require.NoError(t, proc.Await(t.Context(), time.Minute, proc.PollEvery, "the child to run", func() (bool, string) {
		var err, err2 error
		group, err = groupTime(p)
		own, err2 = cpuTime(p)
		require.NoError(t, errors.Join(err, err2))
		return group >= 100*time.Millisecond, group.String()
	}))
	require.Less(t, own, 50*time.Millisecond, "the parent only waits")
	require.NoError(t, p.KillGroup())
	_, err = groupTime(p)
	require.ErrorContains(t, err, "has ended")
}
