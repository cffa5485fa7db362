package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"burnish/internal/api/access"
	"burnish/workflows/contract"
)

// S1.22: who reads what.
func TestTheInstanceIsIdentifiedAsNovasProxyDoes(t *testing.T) {
	right := signed(instance, "p1")
	for name, tt := range map[string]struct {
		headers []string
		status  int
	}{
		"signed":                              {right, 200},
		"names of headers in another case":    {[]string{"x-instance-id: " + instance, "X-TENANT-ID: p1", "x-Instance-Id-signature: " + sign(instance)}, 200},
		"and an address, which counts less":   {append(slices.Clone(right), "X-Forwarded-For: 192.0.2.8"), 200},
		"no instance":                         {right[1:], 400},
		"no tenant":                           {[]string{right[0], right[2]}, 400},
		"no signature":                        {right[:2], 400},
		"a signature alone":                   {right[2:], 400},
		"an empty instance":                   {[]string{"X-Instance-ID: ", right[1], right[2]}, 400},
		"an empty tenant":                     {[]string{right[0], "X-Tenant-ID: ", right[2]}, 400},
		"the instance twice":                  {append(slices.Clone(right), right[0]), 400},
		"two instances":                       {append(slices.Clone(right), "X-Instance-ID: "+other), 400},
		"the tenant twice":                    {append(slices.Clone(right), right[1]), 400},
		"two tenants":                         {append(slices.Clone(right), "X-Tenant-ID: p2"), 400},
		"the signature twice":                 {append(slices.Clone(right), right[2]), 400},
		"two signatures":                      {append([]string{"X-Instance-ID-Signature: 0"}, right...), 400},
		"a wrong signature":                   {[]string{right[0], right[1], "X-Instance-ID-Signature: " + sign(other)}, 403},
		"an upper-case signature":             {[]string{right[0], right[1], "X-Instance-ID-Signature: " + strings.ToUpper(sign(instance))}, 403},
		"half a signature":                    {[]string{right[0], right[1], "X-Instance-ID-Signature: " + sign(instance)[:32]}, 403},
		"two signatures in one value":         {[]string{right[0], right[1], "X-Instance-ID-Signature: " + sign(instance) + ", " + sign(instance)}, 403},
		"another project's":                   {signed(instance, "p2"), 404},
		"the project in another case":         {signed(instance, "P1"), 404},
		"an instance without a project":       {signed(other, "p1"), 404},
		"an unknown instance":                 {signed("3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a99", "p1"), 404},
		"an instance in upper case":           {signed(strings.ToUpper(instance), "p1"), 404},
		"no UUID":                             {signed("../instance", "p1"), 404},
		"nothing":                             {nil, 404},
		"an address without a signature":      {[]string{"X-Forwarded-For: 192.0.2.7"}, 404},
		"other names for the guest's address": {[]string{"Forwarded: for=192.0.2.7", "X-Real-IP: 192.0.2.7", "X-Remote-Addr: 192.0.2.7"}, 404},
	} {
		t.Run(name, func(t *testing.T) {
			s, lines := serviceOf(newFleet())
			w := get(t, s, "GET", latest, proxy, tt.headers...)
			require.Equal(t, tt.status, w.Code, w.Body)
			require.NotContains(t, lines.String()+w.Body.String(), sign(instance), "the right signature stands nowhere")
			require.NotContains(t, lines.String()+w.Body.String(), secret)
			if tt.status != 200 {
				require.NotContains(t, w.Body.String(), "S1")
				return
			}
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.JSONEq(t, `{"uuid":"`+instance+
				`","devices":[{"type":"disk","bus":"none","serial":"S1","tags":["database"]}]}`, w.Body.String())
		})
	}
}

// A request without a signature is the guest's that has the address.
func TestAGuestIsKnownByItsAddress(t *testing.T) {
	for peer, status := range map[string]int{
		"192.0.2.7:1": 200, "[::ffff:192.0.2.7]:1": 200, "[2001:db8::7]:1": 200, "[2001:0db8:0::7]:1": 200,
		"192.0.2.9:1": 404, "[2001:db8::8]:1": 404, "[2001:db8::7%eth0]:1": 404, "@": 404, "": 404, "192.0.2.7": 404,
	} {
		s, _ := serviceOf(newFleet())
		w := get(t, s, "GET", latest, peer)
		require.Equal(t, status, w.Code, peer)
		if status == 200 {
			require.Contains(t, w.Body.String(), instance)
		}
	}
	// What it signs counts more than its address.
	s, _ := serviceOf(newFleet())
	require.Equal(t, 400, get(t, s, "GET", latest, "192.0.2.7:1", "X-Instance-ID: "+instance).Code)
	require.Equal(t, 403, get(t, s, "GET", latest, "192.0.2.7:1", "X-Instance-ID: "+instance, "X-Tenant-ID: p1",
		"X-Instance-ID-Signature: 0").Code)
	// The instance itself must know the address: a lease may be about to end.
	f := newFleet()
	s, _ = serviceOf(f)
	s.Instances = leaseOf{f, other}
	require.Equal(t, 404, get(t, s, "GET", latest, "192.0.2.7:1").Code)
}

// leaseOf says that one instance has all addresses.
type leaseOf struct {
	*fleet
	instance string
}

func (l leaseOf) InstanceByAddress(ctx context.Context, _ string) (contract.InstanceStatus, error) {
	return l.Instance(ctx, l.instance)
}

// Without a secret no signature can be right, and a signed request never falls back to the
// proxy's own address.
func TestWithoutASecretOnlyAddressesCount(t *testing.T) {
	s, _ := serviceOf(newFleet())
	s.Secret = nil
	require.Equal(t, 403, get(t, s, "GET", latest, "192.0.2.7:1", signed(instance, "p1")...).Code)
	require.Equal(t, 200, get(t, s, "GET", latest, "192.0.2.7:1").Code)
	s.Secret = func() ([]byte, error) { return nil, errors.New("no such file") }
	w := get(t, s, "GET", latest, "192.0.2.7:1", signed(instance, "p1")...)
	require.Equal(t, 503, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}

func TestNothingElseIsServed(t *testing.T) {
	f := newFleet()
	s, _ := serviceOf(f)
	for path, status := range map[string]int{
		"/openstack": 200, "/openstack/": 200, latest: 200, "/openstack/2016-06-30/meta_data.json": 200,
		"/openstack/2020-10-14/meta_data.json":     200,
		"/openstack/2018-08-27/meta_data.json?a=b": 200,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			w := get(t, s, method, path, "192.0.2.7:1")
			require.Equal(t, status, w.Code, path)
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Equal(t, method == "HEAD", w.Body.Len() == 0, "%s %s", method, path)
			require.NotEqual(t, "0", w.Header().Get("Content-Length"))
		}
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"} {
			w := get(t, s, method, path, "192.0.2.7:1")
			require.Equal(t, 405, w.Code, method)
			require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
		}
	}
	w := get(t, s, "GET", "/openstack", "192.0.2.7:1")
	require.Equal(t, "2016-06-30\n2016-10-06\n2017-02-22\n2018-08-27\n2020-10-14\nlatest\n", w.Body.String())
	require.Equal(t, 404, get(t, s, "GET", "/openstack", proxy).Code, "the versions are an instance's as well")
	f.asked = 0
	for _, path := range []string{
		"/", "/v2", "/v2/devices", "/v2/instances/" + instance, "/v2/instances/" + instance + "/meta_data.json", "/metrics",
		"/healthz", "/readyz", "/openapi.json",
		"/latest", "/latest/meta-data/", "/2009-04-04/meta-data/", "/openstack/latest", "/openstack/latest/",
		"/openstack/latest/user_data", "/openstack/latest/vendor_data.json",
		"/openstack/latest/vendor_data2.json", "/openstack/latest/network_data.json", "/openstack/latest/password",
		"/openstack/latest/meta_data.json/", "/openstack/content/0000",
		"/openstack/2012-08-10/meta_data.json", "/openstack/2015-10-15/meta_data.json", "/openstack//meta_data.json",
		"/openstack/meta_data.json", "/openstack/latest/../latest/meta_data.json",
		"/openstack/%6catest/meta_data.json", "//openstack", "/openstacklatest/meta_data.json", "/OpenStack",
		"/openstack/LATEST/meta_data.json", "/debug/pprof/",
	} {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			w := get(t, s, method, path, "192.0.2.7:1")
			require.Equal(t, 404, w.Code, path)
		}
	}
	require.Zero(t, f.asked, "it is refused before anything is asked")
}

// S1.36: an instance that gives its devices back has no document.
func TestOnlyALivingInstanceHasADocument(t *testing.T) {
	for phase, status := range map[contract.InstancePhase]int{
		contract.InstanceBinding: 200, contract.InstanceActive: 200, contract.InstanceMigrating: 200,
		contract.InstanceReleasing: 404, contract.InstanceReleased: 404, "": 404, "later": 404,
	} {
		f := newFleet()
		i := f.instances[instance]
		i.Phase = phase
		f.instances[instance] = i
		s, _ := serviceOf(f)
		require.Equal(t, status, get(t, s, "GET", latest, proxy, signed(instance, "p1")...).Code, phase)
		require.Equal(t, status, get(t, s, "GET", latest, "192.0.2.7:1").Code, phase)
		require.Equal(t, status, get(t, s, "GET", "/openstack", "192.0.2.7:1").Code, phase)
	}
}

// S1.36: a device is shown only while it says itself that the instance has it.
func TestADeviceThatTheInstanceDoesNotHaveIsNotShown(t *testing.T) {
	for name, v := range map[string]*contract.DeviceStatus{
		"free":                       {},
		"unknown":                    nil,
		"of another instance":        new(boundTo(other)),
		"claimed by it, not its own": {ClaimedBy: instance},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet()
			delete(f.devices, "h1_d1")
			if v != nil {
				f.devices["h1_d1"] = *v
			}
			s, _ := serviceOf(f)
			w := get(t, s, "GET", latest, "192.0.2.7:1")
			require.Equal(t, 200, w.Code)
			require.JSONEq(t, `{"uuid":"`+instance+`","devices":[]}`, w.Body.String())
		})
	}
}

// A device or an instance that cannot be asked for a moment costs the guest no error:
// cloud-init does not repeat a request that was answered by one.
func TestAShortAbsenceIsWaitedFor(t *testing.T) {
	away := serviceerror.NewUnavailable("no worker")
	for _, name := range []string{"h1_d1", instance} {
		f := newFleet()
		f.errs[name] = []error{away, context.DeadlineExceeded}
		s, _ := serviceOf(f)
		w := get(t, s, "GET", latest, "192.0.2.7:1")
		require.Equal(t, 200, w.Code, name)
		require.Contains(t, w.Body.String(), "database")

		f.errs[name] = slices.Repeat([]error{away}, 1000)
		s.timeout = 300 * time.Millisecond
		w = get(t, s, "GET", latest, "192.0.2.7:1")
		require.Equal(t, 503, w.Code, name)
		require.Equal(t, "5", w.Header().Get("Retry-After"))
		require.NotContains(t, w.Body.String(), "no worker")
	}
}

// What the schema does not allow is not sent.
func TestADocumentThatIsNotValidIsNotSent(t *testing.T) {
	f := newFleet()
	i := f.instances[instance]
	i.Devices = []contract.HeldDevice{{Name: "h1_d1", Type: "NVME", Binding: 3,
		Guest: []contract.GuestAddress{{Bus: "pci", Address: "not an address"}}}}
	f.instances[instance] = i
	s, lines := serviceOf(f)
	w := get(t, s, "GET", latest, "192.0.2.7:1")
	require.Equal(t, 500, w.Code, w.Body)
	require.NotContains(t, w.Body.String(), "not an address")
	require.Contains(t, lines.String(), "deviates from its schema")
	require.Contains(t, lines.String(), "instance="+instance)
}

// serve serves the fleet.
func serve(t *testing.T, f *fleet) string {
	t.Helper()
	s, _ := serviceOf(f)
	web := NewServer(s.Options)
	l, err := access.Listen(t.Context(), "127.0.0.1:0", nil)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, web.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	return l.Addr().String()
}

// The identity is the request's: one connection of the proxy serves many guests.
func TestEachRequestOfAConnectionHasItsOwnIdentity(t *testing.T) {
	f := newFleet()
	i := f.instances[other]
	i.Project = "p2"
	f.instances[other] = i
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", serve(t, f))
	require.NoError(t, err)
	defer c.Close()
	answers := bufio.NewReader(c)
	for _, tt := range []struct {
		headers []string
		status  int
		says    string
	}{
		{signed(instance, "p1"), 200, instance}, {signed(other, "p2"), 200, other}, {signed(other, "p1"), 404, "not found"}, {nil, 404, "not found"},
		{signed(instance, "p1"), 200, instance},
	} {
		_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: metadata\r\n%s\r\n", latest,
			strings.Join(append(slices.Clone(tt.headers), ""), "\r\n"))
		require.NoError(t, err)
		answer, err := http.ReadResponse(answers, nil)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, tt.status, answer.StatusCode)
		require.Contains(t, string(text), tt.says)
	}
}

// A sender that is slow is cut off, whatever it is slow with; an answer that takes long is not.
func TestSlowSendersAreCutOff(t *testing.T) {
	web := NewServer(Options{Log: slog.New(slog.DiscardHandler)})
	for _, limit := range []time.Duration{web.ReadHeaderTimeout, web.ReadTimeout, web.IdleTimeout, web.WriteTimeout} {
		require.Positive(t, limit)
		require.Less(t, limit, 30*time.Second)
	}
	require.Less(t, timeout, web.WriteTimeout)
	require.LessOrEqual(t, web.MaxHeaderBytes, 96<<10)
}

// What is not served is refused at once, also to who announces a body that does not come.
func TestARefusalDoesNotWaitForABody(t *testing.T) {
	address := serve(t, newFleet())
	for sent, status := range map[string]int{
		"GET /none HTTP/1.1\r\nHost: metadata\r\nContent-Length: 100\r\n\r\nx":                404,
		"POST " + latest + " HTTP/1.1\r\nHost: metadata\r\nContent-Length: 100\r\n\r\nx":      405,
		"GET " + latest + " HTTP/1.1\r\nHost: metadata\r\nTransfer-Encoding: chunked\r\n\r\n": 400,
	} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		_, err = io.WriteString(c, sent)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err, sent)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, status, answer.StatusCode, sent)
		require.True(t, answer.Close, "the rest of the connection is no request")
		require.NoError(t, c.Close())
	}
}

// A caller has a bounded number of requests in flight, and all callers together have.
func TestRequestsInFlightAreBounded(t *testing.T) {
	turns := newTurns(3, 2)
	first, err := turns.enter(t.Context(), "a")
	require.NoError(t, err)
	_, err = turns.enter(t.Context(), "a")
	require.NoError(t, err)
	_, err = turns.enter(t.Context(), "a")
	require.Equal(t, &refusal{429, "too many requests at once"}, err)
	_, err = turns.enter(t.Context(), "b")
	require.NoError(t, err)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 { // as many as c may have: they are not counted any more
		_, err = turns.enter(ended, "c")
		require.Equal(t, &refusal{503, "too many requests at once"}, err)
	}
	first()
	leave, err := turns.enter(t.Context(), "c")
	require.NoError(t, err)
	leave()
	_, err = turns.enter(t.Context(), "a")
	require.NoError(t, err)

	require.Equal(t, "2001:db8::/64", mustIdentify(t, "[2001:db8::7]:1").caller(), "a guest may have a whole network")
	require.Equal(t, "192.0.2.7", mustIdentify(t, "192.0.2.7:1").caller())
}

func mustIdentify(t *testing.T, peer string) identity {
	t.Helper()
	s, _ := serviceOf(newFleet())
	r := httptest.NewRequestWithContext(t.Context(), "GET", latest, nil)
	r.RemoteAddr = peer
	who, err := s.identify(r)
	require.NoError(t, err)
	return who
}

// The secret's file is the worker's own, and read again for each request.
func TestTheSecretsFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	file := filepath.Join(dir, "secret")
	for content, says := range map[string]string{
		"s3cret\n": "", "s3cret": "", "s 3 \r\n": "", "": "one line", "\n \n": "one line", "s3cret\ntwo": "one line",
		"s3\x00": "one line",
	} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		got, err := ReadSecret(file)
		if says == "" {
			require.NoError(t, err)
			require.Equal(t, strings.TrimSpace(content), string(got))
			continue
		}
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "s3")
	}
	require.NoError(t, os.Chmod(file, 0o640))
	_, err := ReadSecret(file)
	require.ErrorContains(t, err, "may be read by others than its owner")
}
