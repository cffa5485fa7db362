package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/keystone"
)

// registry is a Keystone whose clock a test sets.
type registry struct {
	mu     sync.Mutex
	now    time.Time
	owners map[string]keystone.Owner
	err    error
	asked  int
	hold   chan struct{} // nil: answers at once
}

func (k *registry) Owner(ctx context.Context, token string) (keystone.Owner, error) {
	k.mu.Lock()
	k.asked++
	hold := k.hold
	k.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return keystone.Owner{}, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return keystone.Owner{}, k.err
	}
	if owner, ok := k.owners[token]; ok {
		return owner, nil
	}
	return keystone.Owner{}, keystone.ErrNoToken
}

func (k *registry) set(change func(k *registry)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change(k)
}

func (k *registry) questions() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

func newRegistry(t *testing.T) (*registry, *Gate, *journal) {
	t.Helper()
	start := time.Now()
	k := &registry{now: start, owners: map[string]keystone.Owner{
		"good": {UserID: "u1", UserName: "olga", ProjectID: "p1", Roles: []string{"admin"}, ExpiresAt: start.Add(time.Hour)},
	}}
	log, lines := newJournal()
	by := NewKeystone(k, log)
	by.now = func() time.Time {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.now
	}
	return k, newGate(t, Settings{Keystone: by}), lines
}

func ask(t *testing.T, g *Gate, token string) (Principal, error) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("X-Auth-Token", token)
	return g.Authenticate(r)
}

func TestARevokedTokenIsRefusedWithinTenSeconds(t *testing.T) {
	k, g, _ := newRegistry(t)
	for range 100 {
		who, err := ask(t, g, "good")
		require.NoError(t, err)
		require.Equal(t, Principal{ID: "keystone:u1", Name: "olga", Project: "p1", Roles: []string{"admin"}}, who)
	}
	require.Equal(t, 1, k.questions(), "each question costs Keystone a request")
	k.set(func(k *registry) { delete(k.owners, "good"); k.now = k.now.Add(cacheTime) })
	require.LessOrEqual(t, cacheTime, 10*time.Second)
	_, err := ask(t, g, "good")
	requireCode(t, device.CodeNotAuthenticated, err)
	require.Equal(t, 2, k.questions())
}

func TestATokenEndsWithItsOwnTime(t *testing.T) {
	k, g, _ := newRegistry(t)
	k.set(func(k *registry) {
		owner := k.owners["good"]
		owner.ExpiresAt = k.now.Add(2 * time.Second)
		k.owners["good"] = owner
	})
	_, err := ask(t, g, "good")
	require.NoError(t, err)
	k.set(func(k *registry) { delete(k.owners, "good"); k.now = k.now.Add(2 * time.Second) })
	_, err = ask(t, g, "good")
	requireCode(t, device.CodeNotAuthenticated, err)
}

// An answer counts from when it was asked for: what was revoked while Keystone took its
// time may not be in it.
func TestASlowAnswerCountsFromItsQuestion(t *testing.T) {
	k, g, _ := newRegistry(t)
	hold := make(chan struct{})
	k.set(func(k *registry) { k.hold = hold })
	done := make(chan error, 1)
	go func() {
		_, err := ask(t, g, "good")
		done <- err
	}()
	require.Eventually(t, func() bool { return k.questions() == 1 }, time.Minute, time.Millisecond)
	k.set(func(k *registry) { k.now = k.now.Add(cacheTime) })
	close(hold)
	require.NoError(t, <-done)
	_, err := ask(t, g, "good")
	require.NoError(t, err)
	require.Equal(t, 2, k.questions())
}

func TestWithoutKeystoneKnownTokensLastTheirTime(t *testing.T) {
	k, g, lines := newRegistry(t)
	_, err := ask(t, g, "good")
	require.NoError(t, err)
	k.set(func(k *registry) { k.err = errors.New("connection refused"); k.now = k.now.Add(9 * time.Second) })
	_, err = ask(t, g, "good")
	require.NoError(t, err)
	_, err = ask(t, g, "other")
	requireCode(t, device.CodeAuthenticationUnavailable, err)
	k.set(func(k *registry) { k.now = k.now.Add(time.Second) })
	for range 5 {
		_, err = ask(t, g, "good")
		requireCode(t, device.CodeAuthenticationUnavailable, err)
	}
	require.LessOrEqual(t, k.questions(), 3, "a Keystone that does not answer is left alone for a while")
	k.set(func(k *registry) { k.err = nil; k.now = k.now.Add(keystonePause) })
	_, err = ask(t, g, "good")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(lines.String(), "cannot be asked"), lines.String())
	require.Equal(t, 1, strings.Count(lines.String(), "can be asked about tokens again"), lines.String())
	require.NotContains(t, lines.String(), "good")
}

func TestSimultaneousRequestsWithOneTokenAreOneQuestion(t *testing.T) {
	k, g, _ := newRegistry(t)
	hold := make(chan struct{})
	k.set(func(k *registry) { k.hold = hold })
	// The first of them gives up: the others still get their answer.
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.Header.Set("X-Auth-Token", "good")
		_, err := g.Authenticate(r)
		first <- err
	}()
	require.Eventually(t, func() bool { return k.questions() == 1 }, time.Minute, time.Millisecond)
	var all sync.WaitGroup
	failed := make(chan error, 50)
	for range 50 {
		all.Go(func() {
			_, err := ask(t, g, "good")
			failed <- err
		})
	}
	cancel()
	requireCode(t, device.CodeAuthenticationUnavailable, <-first)
	close(hold)
	all.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	require.LessOrEqual(t, k.questions(), 2)
}

func TestTheAnswersKeptAreBounded(t *testing.T) {
	kept, now := make(map[hashed]answer), time.Now()
	for i := range 2 * cacheSize {
		keep(kept, hashed{byte(i), byte(i >> 8), byte(i >> 16)}, answer{until: now.Add(time.Second)}, now)
		require.LessOrEqual(t, len(kept), cacheSize)
	}
	for i := 0; len(kept) < cacheSize; i++ {
		keep(kept, hashed{byte(i), byte(i >> 8), 1, 1}, answer{until: now.Add(time.Second)}, now)
	}
	keep(kept, hashed{255, 255, 255}, answer{until: now.Add(time.Minute)}, now.Add(time.Second))
	require.Len(t, kept, 1, "what has ended goes first")
}

// A stranger who tries tokens costs Keystone a bounded number of questions, and does not
// keep out who has a token that is known.
func TestAnAddressWithManyFailuresIsNotAskedAbout(t *testing.T) {
	k, g, _ := newRegistry(t)
	_, err := ask(t, g, "good")
	require.NoError(t, err)
	refused := map[device.Code]int{}
	for i := range 500 {
		_, err := ask(t, g, fmt.Sprintf("guess-%d", i))
		f, ok := device.AsFault(err)
		require.True(t, ok)
		refused[f.Code]++
	}
	require.Less(t, refused[device.CodeNotAuthenticated], 2*failureBurst)
	require.Greater(t, refused[device.CodeTooManyRequests], 300)
	require.Less(t, k.questions(), 2*failureBurst)
	_, err = ask(t, g, "good")
	require.NoError(t, err)

	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.RemoteAddr = "198.51.100.7:1234"
	r.Header.Set("X-Auth-Token", "other-guess")
	_, err = g.Authenticate(r)
	requireCode(t, device.CodeNotAuthenticated, err)
}

func TestATokenOfTheFileIsTheFiles(t *testing.T) {
	k, _, _ := newRegistry(t)
	file := writeTokens(t, "- {user: alice, roles: reader, token: good}\n")
	tokens, err := OpenTokens(file, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	k.owners["other"] = k.owners["good"]
	g := newGate(t, Settings{Tokens: tokens, Keystone: NewKeystone(k, slog.New(slog.DiscardHandler))})
	who, err := ask(t, g, "good")
	require.NoError(t, err)
	require.Equal(t, "token:alice", who.ID)
	require.Zero(t, k.questions())
	who, err = ask(t, g, "other")
	require.NoError(t, err)
	require.Equal(t, "keystone:u1", who.ID)
	_, err = ask(t, g, "none")
	requireCode(t, device.CodeNotAuthenticated, err)
	writeFile(t, file, "tokens: {")
	who, err = ask(t, g, "other")
	require.NoError(t, err, "Keystone's tokens do not need the file")
	require.Equal(t, "keystone:u1", who.ID)
	_, err = ask(t, g, "none")
	requireCode(t, device.CodeAuthenticationUnavailable, err)
}
