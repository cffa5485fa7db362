package access

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

func openTokens(t *testing.T, text string) (*TokenFile, error) {
	t.Helper()
	return OpenTokens(writeTokens(t, text), slog.New(slog.DiscardHandler))
}

func TestTheFormsOfATokenFile(t *testing.T) {
	sum := sha256.Sum256([]byte("s3cret"))
	hash := hex.EncodeToString(sum[:])
	alice := Principal{ID: "token:alice", Name: "alice", Roles: []string{"admin"}}
	for name, tt := range map[string]struct {
		text string
		want Principal
	}{
		"a mapping":        {"tokens:\n- {user: alice, roles: [admin], token: s3cret}\n", alice},
		"a list":           {"- {user: alice, roles: [admin], token: s3cret}\n", alice},
		"roles in a text":  {"- {user: alice, roles: 'admin, reader', token: s3cret}\n", Principal{ID: "token:alice", Name: "alice", Roles: []string{"admin", "reader"}}},
		"a hash":           {"- {user: alice, roles: [admin], sha256: " + hash + "}\n", alice},
		"a hash, capitals": {"- {user: alice, roles: [admin], sha256: " + strings.ToUpper(hash) + "}\n", alice},
		"a project":        {"- {user: alice, roles: [admin], token: s3cret, project: ops}\n", Principal{ID: "token:alice", Name: "alice", Roles: []string{"admin"}, Project: "ops"}},
		"two of one user":  {"- {user: alice, roles: [reader], token: other}\n- {user: alice, roles: [admin], token: s3cret}\n", alice},
		"JSON":             {`[{"user": "alice", "roles": ["admin"], "token": "s3cret"}]`, alice},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := openTokens(t, tt.text)
			require.NoError(t, err)
			who, ok, err := f.find("s3cret")
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, tt.want, who)
			for _, wrong := range []string{"s3cre", "S3cret", "s3cret ", hash, ""} {
				_, ok, err := f.find(wrong)
				require.NoError(t, err)
				require.False(t, ok, "%q", wrong)
			}
		})
	}
}

func TestAWrongTokenFileIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                                       "there are no tokens",
		"tokens:\n":                              "there are no tokens",
		"tokens: []\n":                           "has no token",
		"tokens: x5ecret\n":                      "tokens must be a list",
		"x5ecret\n":                              "must be a mapping",
		"x5ecret: {user: a}\n":                   "unknown key: the only key is tokens",
		"- {user: a, roles: b, tokn: x5ecret}\n": "line 1: unknown key in an entry of tokens",
		"- {user: a, roles: b}\n":                "must have one of token and sha256",
		"- {user: a, roles: b, token: x5ecret, sha256: x5ecret}\n":                             "sha256 must be 64 hexadecimal digits",
		"- {user: a, roles: b, sha256: x5ecret}\n":                                             "sha256 must be 64 hexadecimal digits",
		"- {roles: b, token: x5ecret}\n":                                                       "has no user",
		"- {user: '', roles: b, token: x5ecret}\n":                                             "user must be",
		"- {user: \"a\\nb\", roles: b, token: x5ecret}\n":                                      "user must be",
		"- {user: ' a', roles: b, token: x5ecret}\n":                                           "user must be",
		"- {user: a, token: x5ecret}\n":                                                        "has no roles",
		"- {user: a, roles: [], token: x5ecret}\n":                                             "roles",
		"- {user: a, roles: 'b c', token: x5ecret}\n":                                          "roles: the name of a role",
		"- {user: a, roles: b, token: ''}\n":                                                   "token must be",
		"- {user: a, roles: b, token: 'x5ecret '}\n":                                           "token must be",
		"- {user: a, roles: b, token: x5ecret}\n- {user: c, roles: b, token: x5ecret}\n":       "line 2: it has the token of line 1",
		"- {user: a, roles: b, token: &t x5ecret}\n":                                           "token",
		"- {user: a, roles: b, token: x5ecret}\n---\n- {user: c, roles: b, token: x5ecret2}\n": "not valid YAML",
		"- {user: a, roles: b, token: x5ecret\n":                                               "not valid YAML",
	} {
		t.Run(strings.ReplaceAll(text, "x5ecret", "T"), func(t *testing.T) {
			f, err := openTokens(t, text)
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "x5ecret", "no token, nor what may be one")
			require.NotContains(t, err.Error(), "\n")
			if f != nil && len(f.tokens) == 0 && f.err == nil {
				t.Fatal("it is used")
			}
		})
	}
}

// Who may read the file has all its tokens, who may write it gives himself one.
func TestATokenFileForOthersIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"readable by the group":       func(file string) error { return os.Chmod(file, 0o640) },
		"readable by all":             func(file string) error { return os.Chmod(file, 0o604) },
		"writable by all":             func(file string) error { return os.Chmod(file, 0o602) },
		"executable by all":           func(file string) error { return os.Chmod(file, 0o601) },
		"in a directory for everyone": func(file string) error { return os.Chmod(filepath.Dir(file), 0o777) },
		"a link": func(file string) error {
			if err := os.Rename(file, file+".real"); err != nil {
				return err
			}
			return os.Symlink(file+".real", file)
		},
		"of another user": func(file string) error {
			if os.Geteuid() != 0 {
				return os.Chmod(file, 0o644) // what this user can do
			}
			return os.Chown(file, 12345, -1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeTokens(t, twoTokens)
			f, err := OpenTokens(file, slog.New(slog.DiscardHandler))
			require.NoError(t, err)
			require.NoError(t, spoil(file))
			_, err = OpenTokens(file, slog.New(slog.DiscardHandler))
			require.ErrorContains(t, err, filepath.Dir(file))
			_, _, err = f.find("alice-token")
			requireCode(t, device.CodeAuthenticationUnavailable, err)
		})
	}
}

func requireCode(t *testing.T, code device.Code, err error) {
	t.Helper()
	f, ok := device.AsFault(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, f.Code)
}

func TestAChangedTokenFileCountsAtOnce(t *testing.T) {
	log, lines := newJournal()
	file := writeTokens(t, twoTokens)
	f, err := OpenTokens(file, log)
	require.NoError(t, err)
	gate := newGate(t, Settings{Tokens: f})
	answer := func(token string) string {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.Header.Set("X-Auth-Token", token)
		who, err := gate.Authenticate(r)
		if fault, ok := device.AsFault(err); ok {
			return string(fault.Code)
		}
		return who.ID
	}
	require.Equal(t, "token:alice", answer("alice-token"))

	// The same size, in place, within one tick of the clock.
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(twoTokens, "alice-token", "alice-tokem", 1)), 0o600))
	require.Equal(t, "not_authenticated", answer("alice-token"))
	require.Equal(t, "token:alice", answer("alice-tokem"))

	// A content that is not valid may have taken a token away.
	require.NoError(t, os.WriteFile(file, []byte("tokens: {\n"), 0o600))
	for range 3 {
		require.Equal(t, "authentication_unavailable", answer("alice-tokem"))
	}
	require.NoError(t, os.Remove(file))
	require.Equal(t, "authentication_unavailable", answer("alice-tokem"))
	require.NoError(t, os.WriteFile(file, []byte(twoTokens), 0o600))
	require.Equal(t, "token:alice", answer("alice-token"))
	require.NoError(t, os.WriteFile(file, []byte("tokens: []\n"), 0o600))
	require.Equal(t, "not_authenticated", answer("alice-token"), "all tokens are taken away")

	text := lines.String()
	require.Equal(t, 2, strings.Count(text, "level=ERROR"), text)
	require.Equal(t, 1, strings.Count(text, "can be read again"), text)
	require.NotContains(t, text, "alice-tok")
}
