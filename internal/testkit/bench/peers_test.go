package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/proc"
)

// A wait is answered by a list that began after it, never by one that was under way: what that says
// may be older than the request before the wait.
func TestAWaitIsAnsweredByALaterList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began atomic.Int64
		w := newWatcher()
		ctx, cancel := context.WithCancel(t.Context())
		go w.run(ctx, func(context.Context) (map[string]string, error) {
			time.Sleep(time.Second) //nolint:forbidigo // it takes its time, on the test's own clock
			began.Add(1)
			return map[string]string{"a": "available", "b": "active"}, nil
		})
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // on the test's own clock: in the middle of the first list
		_, err := w.await(ctx, "a", "available")
		require.NoError(t, err)
		require.EqualValues(t, 2, began.Load(), "the first list was under way")
		_, err = w.await(ctx, "b", "available")
		require.ErrorContains(t, err, "no list showed b in state available")
		cancel()
		_, err = w.await(ctx, "b", "available")
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
	})
}

// Watching takes a twentieth of the time at most, however long a list takes, and never rests for
// more than a second.
func TestPausesBetweenLists(t *testing.T) {
	for took, expected := range map[time.Duration]int{
		0:                      501, // each 20 ms
		10 * time.Millisecond:  51,  // each 200 ms
		500 * time.Millisecond: 7,   // each 1.5 s
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
			defer cancel()
			lists := 0
			newWatcher().run(ctx, func(context.Context) (map[string]string, error) {
				if ctx.Err() == nil {
					lists++
				}
				time.Sleep(took) //nolint:forbidigo // it takes its time, on the test's own clock
				return nil, nil
			})
			require.Equal(t, expected, lists, "%s a list", took)
		})
	}
}

func TestAListThatFailsEndsEachWait(t *testing.T) {
	failed := errors.New("the node is in state clean failed")
	w := newWatcher()
	go w.run(t.Context(), func(context.Context) (map[string]string, error) { return nil, failed })
	require.ErrorIs(t, parallel(3, 3, func(i int) error {
		_, err := w.await(t.Context(), string(rune('a'+i)), "available")
		return err
	}), failed)
}

// lettingGo is an Ironic whose conductor lets go of a node one read after the node has its state. The
// read that shows it takes releaseTime.
type lettingGo struct {
	mu       sync.Mutex
	state    string
	reserved bool
	refused  int // requests that would have waited
}

const releaseTime = 300 * time.Millisecond

func (l *lettingGo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodPut {
		if l.reserved {
			l.refused++
		}
		var in struct{ Target string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		l.state, l.reserved = map[string]string{"active": "active", "deleted": "available"}[in.Target], true
		w.WriteHeader(http.StatusAccepted)
		return
	}
	reservation := "null"
	if l.reserved {
		reservation = `"127.0.0.1"`
	}
	fmt.Fprintf(w, `{"uuid": "a", "provision_state": %q, "reservation": %s}`, l.state, reservation)
	if l.reserved {
		l.reserved = false
	} else {
		time.Sleep(releaseTime) //nolint:forbidigo // the answer takes its time
	}
}

// A node is asked for nothing while its conductor holds it, and the time of its turnover does not
// count how long the conductor holds it after that.
func TestATurnoverOfIronicEndsWithAvailable(t *testing.T) {
	fake := &lettingGo{state: "available"}
	server := httptest.NewServer(fake)
	defer server.Close()
	p := ironicPeer(&openstack.Ironic{URL: server.URL})
	began := time.Now()
	available, err := p.turnover(t.Context(), "a", p.poll)
	elapsed, whole := available.Sub(began), time.Since(began)
	require.NoError(t, err)
	fake.mu.Lock()
	defer fake.mu.Unlock()
	require.Zero(t, fake.refused)
	require.GreaterOrEqual(t, elapsed, releaseTime/2, "active, until it was let go of")
	require.LessOrEqual(t, elapsed, whole-releaseTime/2)
}

// A process's children count too, while they run.
func TestAGroupsProcessorTimeIncludesChildren(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "(while :; do :; done) & wait")
	p, err := proc.Start("group", filepath.Join(dir, "log"), cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.KillGroup()) })
	require.NoError(t, proc.Await(t.Context(), time.Minute, proc.PollEvery, "the child to run", func() (bool, string) {
		group, err := groupTime(p)
		require.NoError(t, err)
		return group >= 100*time.Millisecond, group.String()
	}))
	require.NoError(t, p.KillGroup())
	_, err = groupTime(p)
	require.ErrorContains(t, err, "has ended")
}
