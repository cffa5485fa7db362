package access

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const okAlice = "token:alice admin"

func TestATokenIsTakenFromTwoHeadersAndNowhereElse(t *testing.T) {
	url := "http://" + serve(t, answering(fileGate(t, twoTokens)), "127.0.0.1:0", nil) + "/v2/devices"
	client := newClient(t, "")
	for name, tt := range map[string]struct {
		query   string
		headers []string
		answer  string
	}{
		"X-Auth-Token":       {"", []string{"X-Auth-Token: alice-token"}, okAlice},
		"Bearer":             {"", []string{"Authorization: Bearer alice-token"}, okAlice},
		"bearer":             {"", []string{"Authorization: bearer  alice-token"}, okAlice},
		"both, the same":     {"", []string{"X-Auth-Token: alice-token", "Authorization: Bearer alice-token"}, okAlice},
		"both, different":    {"", []string{"X-Auth-Token: alice-token", "Authorization: Bearer viewer-token"}, "invalid"},
		"twice, different":   {"", []string{"X-Auth-Token: alice-token", "X-Auth-Token: viewer-token"}, "invalid"},
		"one right":          {"", []string{"X-Auth-Token: alice-token", "Authorization: Bearer nonsense"}, "invalid"},
		"another scheme":     {"", []string{"Authorization: Basic alice-token"}, "not_authenticated"},
		"none":               {"", nil, "not_authenticated"},
		"empty":              {"", []string{"X-Auth-Token: ", "Authorization: Bearer "}, "not_authenticated"},
		"unknown":            {"", []string{"X-Auth-Token: alice-tokem"}, "not_authenticated"},
		"longer":             {"", []string{"X-Auth-Token: alice-token2"}, "not_authenticated"},
		"shorter":            {"", []string{"X-Auth-Token: alice-toke"}, "not_authenticated"},
		"huge":               {"", []string{"X-Auth-Token: " + strings.Repeat("a", 5000)}, "not_authenticated"},
		"with spaces":        {"", []string{"X-Auth-Token: alice token"}, "not_authenticated"},
		"not ASCII":          {"", []string{"X-Auth-Token: alicé"}, "not_authenticated"},
		"its hash":           {"", []string{"X-Auth-Token: 9c220f200955d76c0a38d308225e0ef10c5f971acaf2f8d1d8f732affa5bd1dc"}, "not_authenticated"},
		"a query":            {"?token=alice-token&X-Auth-Token=alice-token&x-auth-token=alice-token&access_token=alice-token&auth_token=alice-token", nil, "not_authenticated"},
		"a cookie":           {"", []string{"Cookie: token=alice-token; X-Auth-Token=alice-token; Authorization=Bearer alice-token"}, "not_authenticated"},
		"claims":             {"", []string{"X-User-Id: alice", "X-User-Name: alice", "X-Roles: admin", "X-Role: admin", "X-Project-Id: ops", "X-Identity-Status: Confirmed"}, "not_authenticated"},
		"claims of a viewer": {"", []string{"X-Auth-Token: viewer-token", "X-Roles: admin", "X-User-Id: alice", "X-Is-Admin-Project: True"}, "token:viewer reader"},
		"a service's token":  {"", []string{"X-Service-Token: alice-token"}, "not_authenticated"},
	} {
		t.Run(name, func(t *testing.T) {
			_, answer := get(t, client, http.MethodGet, url+tt.query, tt.headers...)
			require.Equal(t, tt.answer, answer)
		})
	}
}
