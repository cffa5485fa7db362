package openstack

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMissingIronicNamesThePackage(t *testing.T) {
	dir := t.TempDir()
	require.Equal(t, "no "+dir+"/api.py (apt-get install --no-install-recommends python3-ironic)", missingIronic(dir))
	for _, name := range []string{"api.py", "conductor.py", "dbsync.py"} {
		require.NotEmpty(t, missingIronic(dir), "without %s", name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.Empty(t, missingIronic(dir))
}

// recordedIronic answers as Ironic 21.4.4 did: a reservation is null where no conductor has the node.
func recordedIronic(t *testing.T) *Ironic {
	const free = `{"uuid": "f136e13d", "provision_state": "available", "reservation": null, "last_error": null, "links": []}`
	const failed = `{"uuid": "0d5f8c1e", "provision_state": "clean failed", "reservation": "127.0.0.1", "last_error": "Failed to tear down", "links": []}`
	mux := http.NewServeMux()
	answer := func(pattern string, status int, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			require.NotEmpty(t, r.Header.Get("X-OpenStack-Ironic-API-Version"), "without it the fields are those of 2014")
			w.WriteHeader(status)
			_, err := w.Write([]byte(body))
			require.NoError(t, err)
		})
	}
	answer("GET /v1/nodes/f136e13d", http.StatusOK, free)
	answer("GET /v1/nodes", http.StatusOK, `{"nodes": [`+free+`, `+failed+`]}`)
	answer("PUT /v1/nodes/f136e13d/states/provision", http.StatusAccepted, "")
	answer("PUT /v1/nodes/0d5f8c1e/states/provision", http.StatusConflict,
		`{"error_message": "Node 0d5f8c1e is locked by host 127.0.0.1"}`)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &Ironic{URL: server.URL}
}

func TestIronicsAnswersAreRead(t *testing.T) {
	i := recordedIronic(t)
	n, err := i.Node(t.Context(), "f136e13d")
	require.NoError(t, err)
	require.Equal(t, Node{UUID: "f136e13d", State: "available"}, n)
	require.NoError(t, n.Failed())
	all, err := i.Nodes(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "127.0.0.1", all[1].Reservation)
	require.EqualError(t, all[1].Failed(), "node 0d5f8c1e is in state clean failed: Failed to tear down")
	require.NoError(t, i.Provision(t.Context(), "f136e13d", "active"))
	require.ErrorContains(t, i.Provision(t.Context(), "0d5f8c1e", "active"), "is locked by host 127.0.0.1")
}
