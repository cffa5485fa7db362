package remote

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/client"
)

// keystoneOf answers each login with another token, those of the user ada with this password.
func keystoneOf(t *testing.T, password string) (address string, logins func() int) {
	t.Helper()
	given := &seen{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Auth struct {
				Identity struct {
					Password struct{ User struct{ Password string } }
				}
			}
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Auth.Identity.Password.User.Password != password {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"code":401,"message":"wrong: %s"}}`, body.Auth.Identity.Password.User.Password)
			return
		}
		w.Header().Set("X-Subject-Token", fmt.Sprintf("token-%d", given.add(r)))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":{"expires_at":%q}}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v3", func() int { return len(given.requests()) }
}

func credentials(address, password string) func(string) string {
	return env(map[string]string{"OS_AUTH_URL": address, "OS_USERNAME": "ada", "OS_PASSWORD": password,
		"OS_PROJECT_NAME": "admin"})
}

// Without a token Keystone gives one; one that has expired meanwhile is replaced, once.
func TestKeystoneGivesTheToken(t *testing.T) {
	address, logins := keystoneOf(t, "s3cret")
	valid := "token-1"
	c, got := serve(t, credentials(address, "s3cret"), func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Auth-Token") != valid {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"code":"not_authenticated","message":"the token is not valid"}}`)
			return
		}
		fmt.Fprint(w, `{"name":"d1"}`)
	})
	_, err := c.Query(within(t, time.Minute), "d1")
	require.NoError(t, err)
	require.Equal(t, 1, logins())

	valid = "token-2"
	_, err = c.Query(within(t, time.Minute), "d1")
	require.NoError(t, err)
	require.Equal(t, 2, logins())

	valid = "none"
	before := len(got.requests())
	_, err = c.Query(within(t, time.Minute), "d1")
	refusal, ok := client.Fault(err)
	require.True(t, ok)
	require.Equal(t, device.CodeNotAuthenticated, refusal.Fault.Code)
	require.Equal(t, 3, logins())
	require.Len(t, got.requests(), before+2)
}

// Neither the password nor what Keystone writes about it is in an error.
func TestKeystoneRefuses(t *testing.T) {
	address, _ := keystoneOf(t, "another")
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, versions)
	}))
	t.Cleanup(api.Close)
	_, err := New(t.Context(), api.URL, credentials(address, "s3cret"))
	require.EqualError(t, err, "Keystone at "+address+" refuses these credentials; correct the OS_ variables or "+
		"clouds.yaml")

	_, err = New(t.Context(), api.URL, credentials("http://127.0.0.1:1/v3", "s3cret"))
	require.ErrorContains(t, err, "Keystone at http://127.0.0.1:1/v3 does not answer: ")
	require.NotContains(t, err.Error(), "s3cret")

	_, err = New(t.Context(), api.URL, env(map[string]string{"OS_AUTH_URL": address}))
	require.ErrorContains(t, err, "the credentials of OpenStack are not valid: ")
}
