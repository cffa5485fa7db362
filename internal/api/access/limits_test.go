package access

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// S3.38
func TestChangesAreLimitedForEachCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes
		log, lines := newJournal()
		g := newGate(t, Settings{Rate: 5, Concurrency: 100, Log: log})
		alice, bob := Principal{ID: "token:alice"}, Principal{ID: "token:bob"}
		accepted := func(who Principal, change bool, n int) int {
			count := 0
			for range n {
				if leave, err := g.Enter(who, change); err == nil {
					leave()
					count++
				} else {
					requireCode(t, "too_many_requests", err)
				}
			}
			return count
		}
		first := accepted(alice, true, 50)
		require.GreaterOrEqual(t, first, 5)
		require.Less(t, first, 15)
		require.Equal(t, 50, accepted(alice, false, 50), "reading is not limited by it")
		require.GreaterOrEqual(t, accepted(bob, true, 5), 5, "nor are other callers")
		require.Zero(t, g.running.all)
		require.Empty(t, g.running.of)
		require.Equal(t, 1, strings.Count(lines.String(), "\n"), "the log is not filled: %s", lines)
		require.Contains(t, lines.String(), "principal=token:alice")
	})
}

func TestRequestsInFlightAreLimited(t *testing.T) {
	g := newGate(t, Settings{Rate: 1, Concurrency: 3})
	alice := Principal{ID: "token:alice"}
	var leaves []func()
	for range 3 {
		leave, err := g.Enter(alice, false)
		require.NoError(t, err)
		leaves = append(leaves, leave)
	}
	_, err := g.Enter(alice, false)
	requireCode(t, "too_many_requests", err)
	leave, err := g.Enter(Principal{ID: "token:bob"}, false)
	require.NoError(t, err)
	leave()
	leave() // once more is no more
	leaves[0]()
	again, err := g.Enter(alice, false)
	require.NoError(t, err)
	again()
	leaves[1]()
	leaves[2]()
	require.Zero(t, g.running.all)

	few := NewRunning(4, 3)
	for i := range 4 {
		_, err := few.Enter(fmt.Sprint(i))
		require.NoError(t, err)
	}
	_, err = few.Enter("5")
	require.ErrorIs(t, err, errFull)
}

func TestTheTableOfCallersIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes
		b := newBuckets(1, 2)
		for i := range tableSize + 100 {
			b.take(fmt.Sprint(i))
		}
		require.Equal(t, tableSize, len(b.of))
		// Callers without a place are limited together, and not at all free.
		for range 5 {
			b.take("late")
		}
		require.False(t, b.take("later"))
		require.True(t, b.empty("latest"))
		require.False(t, b.empty("1"))
		// A caller who has done nothing for a while gives its place away.
		for _, l := range b.of {
			l.SetBurst(1)
		}
		b.burst, b.swept = 0, b.swept.AddDate(-1, 0, 0)
		b.take("last")
		require.Len(t, b.of, 1)
	})
}

func TestAnAddressOfIPv6IsItsNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:99": "192.0.2.1", "[::ffff:192.0.2.1]:99": "192.0.2.1", "[2001:db8:1:2:3::4]:9": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:9": "fe80::/64",
		"[::1]:9":          "::1", "@": "@",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = remote
		require.Equal(t, want, addressOf(r))
	}
}

func TestRequestsWithoutATokenAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes
		handler := answering(fileGate(t, twoTokens))
		ask := func(header, value string) string {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
			r.RemoteAddr = "192.0.2.1:99"
			r.Header.Set(header, value)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			return w.Body.String()
		}
		answers := map[string]int{}
		for i := range 2 * failureBurst {
			header, value := "X-Auth-Token", "guess"
			if i%2 == 0 {
				header, value = "X-Forwarded-For", "198.51.100."+fmt.Sprint(i) // does not make it another address
			}
			answers[ask(header, value)]++
		}
		require.Equal(t, map[string]int{"not_authenticated": failureBurst, "too_many_requests": failureBurst}, answers)
		require.Equal(t, okAlice, ask("X-Auth-Token", "alice-token"))
	})
}
