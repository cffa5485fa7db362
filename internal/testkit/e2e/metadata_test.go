package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/nova/metadata"
	"burnish/internal/testkit/proc"
)

const metadataSecret = "a metadata_proxy_shared_secret"

// metadataService is the address of a control worker's metadata service.
type metadataService struct{ url string }

// get gives the answer to a request with the headers of Neutron's proxy; with project "" to
// that of a guest, which has none.
func (m metadataService) get(t testing.TB, path, instance, project string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.url+path, nil)
	require.NoError(t, err)
	if project != "" {
		signAs(r.Header, instance, project)
	}
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.StatusCode, string(text)
}

func signAs(h http.Header, instance, project string) {
	mac := hmac.New(sha256.New, []byte(metadataSecret))
	mac.Write([]byte(instance))
	h.Set("X-Instance-ID", instance)
	h.Set("X-Tenant-ID", project)
	h.Set("X-Instance-ID-Signature", hex.EncodeToString(mac.Sum(nil)))
}

// tags are those of a document, by serial or MAC; it is checked against the schema.
func tags(t testing.TB, document string) map[string]string {
	t.Helper()
	require.NoError(t, metadata.Validate([]byte(document)))
	var doc metadata.Document
	require.NoError(t, json.Unmarshal([]byte(document), &doc))
	found := map[string]string{}
	for _, d := range doc.Devices {
		found[d.Serial+d.MAC] = strings.Join(d.Tags, "|")
	}
	return found
}

// metadataService gives the address of a metadata service, and what its control worker is started with.
func (s *Site) metadataService(t testing.TB) (metadataService, []string) {
	t.Helper()
	address, err := proc.FreeAddress()
	require.NoError(t, err)
	return metadataService{"http://" + address}, []string{"BURNISH_METADATA_ADDRESS=" + address,
		"BURNISH_METADATA_SECRET_FILE=" + s.writeFile(t, "metadata.secret", metadataSecret+"\n")}
}

// A guest reads its devices and their roles from the metadata service, as Neutron's proxy or
// from its own address, and cloud-init does; what was detached is gone, and when release has
// returned there is no document. The API has the same one.
func TestAGuestReadsWhichDeviceIsWhich(t *testing.T) {
	t.Parallel()
	const latest = "/openstack/latest/meta_data.json"
	s := newSite(t)
	service, env := s.metadataService(t)
	s.Run(t, "host")
	_, api := s.ServeAPI(t, env...)
	s.EnrollAll(t, map[string]string{
		"d1": `type: NVME, provide: true, set: {size: 1MiB, serial: S1}`,
		"n1": `type: NIC, provide: true, set: {size: 1MiB, serial: S3, mac: "52:54:00:00:00:01"}`,
	})
	for _, name := range []string{"d1", "n1"} {
		s.AwaitState(t, name, time.Minute, device.Available)
	}
	vm, other := Instance("vm"), Instance("other")
	status, _ := service.get(t, latest, vm, "p1")
	require.Equal(t, 404, status, "it has no devices yet")
	s.Must(t, "instance", "bind", vm, "--project", "p1", "--address", "127.0.0.1",
		"--device", "d1=database: \"main\"", "--guest", "bus=pci,address=0000:00:05.0", "--device", "n1=uplink")

	all := map[string]string{"S1": `database: "main"`, "52:54:00:00:00:01": "uplink"}
	for name, project := range map[string]string{"by the proxy": "p1", "by its address": ""} {
		status, text := service.get(t, latest, vm, project)
		require.Equal(t, 200, status, "%s: %s", name, text)
		require.Equal(t, all, tags(t, text), name)
		require.Contains(t, text, `"0000:00:05.0"`)
		require.Contains(t, text, vm)
	}
	for _, wrong := range [][2]string{{vm, "p2"}, {other, "p1"}} {
		status, _ = service.get(t, latest, wrong[0], wrong[1])
		require.Equal(t, 404, status, wrong)
	}
	for _, path := range []string{"/v2/devices", "/v2/instances/" + vm + "/meta_data.json", "/metrics", "/healthz",
		"/openstack/latest/user_data"} {
		status, _ = service.get(t, path, vm, "p1")
		require.Equal(t, 404, status, path)
	}
	_, text := service.get(t, latest, vm, "p1")
	answer := api.Ask(t, "GET", "/v2/instances/"+vm+"/meta_data.json", "")
	require.Equal(t, 200, answer.Status, answer.Body)
	require.Equal(t, text, answer.Body, "the API has the same document")

	// cloud-init, by Neutron's proxy at the address that guests know, and by its own address.
	for _, arguments := range [][]string{nil, {service.url}} {
		var found struct {
			Version  int
			Metadata map[string]any
			Userdata string
		}
		require.NoError(t, json.Unmarshal([]byte(crawl(t, service, vm, arguments...)), &found))
		require.Equal(t, 2, found.Version)
		require.Empty(t, found.Userdata)
		require.Equal(t, vm, found.Metadata["instance-id"])
		devices, err := json.Marshal(map[string]any{"uuid": vm, "devices": found.Metadata["devices"]})
		require.NoError(t, err)
		require.JSONEq(t, text, string(devices))
	}

	answer = api.Ask(t, "POST", "/v2/instances/"+vm+"/release", `{"reason":"deleted"}`)
	require.Equal(t, 200, answer.Status, answer.Body)
	for _, project := range []string{"p1", ""} {
		status, text = service.get(t, latest, vm, project)
		require.Equal(t, 404, status, text)
	}
	require.Equal(t, 404, api.Ask(t, "GET", "/v2/instances/"+vm+"/meta_data.json", "").Status)
}

// crawl gives what cloud-init finds as the guest of an instance, whose requests Neutron's
// proxy signs; those to the addresses, if there are any, are sent there directly.
func crawl(t testing.TB, service metadataService, instance string, addresses ...string) string {
	t.Helper()
	target, err := url.Parse(service.url)
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = "169.254.169.254"
		signAs(r.Out.Header, instance, "p1")
		r.Out.Header.Set("X-Forwarded-For", "192.0.2.7")
	}})
	defer proxy.Close()
	program, err := filepath.Abs(filepath.Join("testdata", "metadata", "crawl.py"))
	require.NoError(t, err)
	cmd := exec.Command("/usr/bin/python3", append([]string{program}, addresses...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/nonexistent", "PYTHONDONTWRITEBYTECODE=1", "http_proxy=" + proxy.URL,
		"no_proxy=127.0.0.1"}
	r, err := proc.Run(cmd)
	require.NoError(t, err)
	require.Zero(t, r.Code, r)
	return r.Stdout
}
