package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

func oneDevice() *fakeDevices {
	return &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: testStatus()}}
}

const (
	devicePath = "/v2/devices/" + testName
	cleanPath  = devicePath + "/clean"
)

// Every status has its meaning in the document, and a code that is no fault's tells of a defect.
func TestEveryFaultHasAStatus(t *testing.T) {
	for _, code := range device.Codes() {
		require.Contains(t, meanings, statusOf(code), code)
	}
	for code := range statuses {
		require.Contains(t, device.Codes(), code)
	}
	require.Equal(t, http.StatusInternalServerError, statusOf("PanicError"))
}

// The version header: several services, several lines, latest, and what is not supported.
func TestVersions(t *testing.T) {
	h := testServer(t, oneDevice())
	for name, tt := range map[string]struct {
		headers []string
		want    string // "": not supported
	}{
		"none":                   {nil, "2.0"},
		"2.0":                    {[]string{"accelerator 2.0"}, "2.0"},
		"2.1":                    {[]string{"accelerator 2.1"}, "2.1"},
		"latest":                 {[]string{"accelerator latest"}, "2.1"},
		"another service":        {[]string{"compute 2.79"}, "2.0"},
		"several services":       {[]string{"compute 2.79, accelerator 2.1,placement 1.30"}, "2.1"},
		"several lines":          {[]string{"compute 2.79", "accelerator 2.1"}, "2.1"},
		"twice the same":         {[]string{"accelerator 2.1", "accelerator latest"}, "2.1"},
		"a contradiction":        {[]string{"accelerator 2.0", "accelerator 2.1"}, ""},
		"a later one":            {[]string{"accelerator 2.2"}, ""},
		"another major version":  {[]string{"accelerator 3.0"}, ""},
		"without a number":       {[]string{"accelerator"}, ""},
		"no number":              {[]string{"accelerator two"}, ""},
		"more digits":            {[]string{"accelerator 2.01"}, ""},
		"only of another header": {[]string{"cyborg 2.1"}, "2.0"},
	} {
		t.Run(name, func(t *testing.T) {
			headers := []string{admin}
			for _, value := range tt.headers {
				headers = append(headers, versionHeader+": "+value)
			}
			w := send(t, h, "GET", devicePath, "", headers...)
			require.Contains(t, strings.Join(w.Header().Values("Vary"), ","), versionHeader)
			if tt.want == "" {
				p := requireProblem(t, w, http.StatusNotAcceptable, device.CodeVersionUnsupported)
				require.Contains(t, p.Message, "2.0 to 2.1")
				return
			}
			require.Equal(t, http.StatusOK, w.Code)
			require.Equal(t, "accelerator "+tt.want, w.Header().Get(versionHeader))
			require.Equal(t, tt.want == "2.1", strings.Contains(w.Body.String(), "device_state"))
		})
	}
}

// Paths that there are not, and methods that a path has not.
func TestPathsAndMethods(t *testing.T) {
	h := testServer(t, oneDevice())
	for _, tt := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/v3", 404, ""},
		{"GET", "/v2/devices/a/b/c", 404, ""},
		{"GET", "/v2/devices//clean", 404, ""},
		{"DELETE", devicePath, 405, "GET, HEAD"},
		{"GET", cleanPath, 405, "POST"},
		{"PUT", "/v2/devices", 405, "GET, HEAD, POST"},
		{"OPTIONS", "/v2/devices", 405, "GET, HEAD, POST"},
		{"POST", "/", 405, "GET, HEAD"},
		{"HEAD", devicePath, 200, ""},
		{"GET", "/v2/", 200, ""},
		{"GET", "/", 200, ""},
		{"GET", "/healthz", 200, ""},
		{"GET", "/openapi.json", 200, ""},
	} {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			w := send(t, h, tt.method, tt.path, "", admin)
			require.Equal(t, tt.status, w.Code, w.Body.String())
			require.Equal(t, tt.allow, w.Header().Get("Allow"))
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, strings.HasPrefix(tt.path, "/v2/"), w.Header().Get(versionHeader) != "")
			for name := range w.Header() {
				require.False(t, strings.HasPrefix(name, "Access-Control"), name)
			}
		})
	}
}

// A body that is not exactly what the operation takes is refused, and nothing is sent.
func TestBodies(t *testing.T) {
	const jsonType = "application/json"
	for name, tt := range map[string]struct {
		body, kind string
		status     int
	}{
		"none":               {"", "", 202},
		"none, with a type":  {"", jsonType, 202},
		"white space":        {" \n", jsonType, 202},
		"empty":              {"{}", jsonType, 202},
		"a charset":          {"{}", jsonType + "; charset=utf-8", 202},
		"a reason":           {`{"reason":"r"}`, jsonType, 202},
		"no type":            {"{}", "", 415},
		"a form":             {"reason=r", "application/x-www-form-urlencoded", 415},
		"text":               {"{}", "text/plain", 415},
		"a patch":            {"{}", "application/json-patch+json", 415},
		"an unknown member":  {`{"why":"r"}`, jsonType, 400},
		"another case":       {`{"Reason":"r"}`, jsonType, 400},
		"twice":              {`{"reason":"a","reason":"b"}`, jsonType, 400},
		"more after it":      {`{} {}`, jsonType, 400},
		"unfinished":         {`{"reason":`, jsonType, 400},
		"a list":             {`[]`, jsonType, 400},
		"null":               {`null`, jsonType, 400},
		"another type":       {`{"reason":1}`, jsonType, 400},
		"not UTF-8":          {"{\"reason\":\"\xff\"}", jsonType, 400},
		"who asks":           {`{"by":"eve"}`, jsonType, 400},
		"from where":         {`{"from":"10.0.0.1"}`, jsonType, 400},
		"an unknown member2": {`{"clean_steps":[{"step":"zero","prio":1}]}`, jsonType, 400},
		"arguments twice":    {`{"clean_steps":[{"step":"zero","args":{"a":1,"a":2}}]}`, jsonType, 400},
		"64 KiB":             {`{"reason":"` + strings.Repeat("x", 64<<10-13) + `"}`, jsonType, 202},
		"one more":           {`{"reason":"` + strings.Repeat("x", 64<<10-12) + `"}`, jsonType, 413},
		"large white space":  {strings.Repeat(" ", 64<<10+1), jsonType, 413},
	} {
		t.Run(name, func(t *testing.T) {
			devices := oneDevice()
			w := send(t, testServer(t, devices), "POST", cleanPath, tt.body, admin, at21, "Content-Type: "+tt.kind)
			require.Equal(t, tt.status, w.Code, w.Body.String())
			require.Equal(t, tt.status == 202, len(devices.sent) == 1, "what is refused is not sent")
		})
	}
}

// A parameter that the operation does not have is refused, a token too.
func TestParameters(t *testing.T) {
	h := testServer(t, oneDevice())
	for _, query := range []string{"?limit=1", "?token=x", "?X-Auth-Token=admin", "?a;b", "?%zz"} {
		requireProblem(t, send(t, h, "GET", devicePath+query, "", admin), http.StatusBadRequest, device.CodeInvalid)
		requireProblem(t, send(t, h, "POST", cleanPath+query, "", admin, at21), http.StatusBadRequest, device.CodeInvalid)
	}
}

// A caller that sends too much must wait, as the answer says.
func TestTooManyRequests(t *testing.T) {
	devices := oneDevice()
	h := serverWith(devices, func(o *Options) {
		o.Guards = open{&device.Fault{Class: device.Transient, Code: device.CodeTooManyRequests, Message: "m", Remedy: "r"}}
	})
	w := send(t, h, "POST", cleanPath, "", admin, at21)
	requireProblem(t, w, http.StatusTooManyRequests, device.CodeTooManyRequests)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Empty(t, devices.sent)
}

// While Temporal is known to be away, a change is not sent: 503 says that nothing was done.
func TestNothingIsSentWhileNotReady(t *testing.T) {
	devices := oneDevice()
	h := serverWith(devices, func(o *Options) {
		o.Ready = func(context.Context) error { return errors.New("Temporal does not answer") }
	})
	for _, tt := range [][2]string{{"POST", cleanPath}, {"GET", "/readyz"}} {
		w := send(t, h, tt[0], tt[1], "", admin, at21)
		require.Contains(t, requireProblem(t, w, http.StatusServiceUnavailable, device.CodeUnreachable).Message,
			"Temporal does not answer")
		require.NotEmpty(t, w.Header().Get("Retry-After"))
	}
	require.Empty(t, devices.sent)
	require.Equal(t, http.StatusOK, send(t, h, "GET", "/healthz", "").Code)
}

// Keys of a request: what is no key is refused; the answer names the request.
func TestRequestKeys(t *testing.T) {
	h := testServer(t, oneDevice())
	for _, header := range []string{keyHeader + ": a\tb", keyHeader + ": " + strings.Repeat("x", 256),
		requestHeader + ": é"} {
		requireProblem(t, send(t, h, "POST", cleanPath, "", admin, at21, header), http.StatusBadRequest, device.CodeInvalid)
	}
	requireProblem(t, send(t, h, "POST", cleanPath, "", admin, at21, keyHeader+": a", keyHeader+": b"),
		http.StatusBadRequest, device.CodeInvalid)
	require.Equal(t, "req-1", send(t, h, "GET", devicePath, "", admin, requestHeader+": req-1").Header().
		Get(requestHeader))
	require.Regexp(t, "^req-", send(t, h, "GET", devicePath, "", admin).Header().Get(requestHeader))
}

// An unexpected end of a handler is an answer too, and stands in the log alone.
func TestAnUnexpectedEndIsAnAnswer(t *testing.T) {
	h := testServer(t, oneDevice()) // whose Clouds is missing
	requireProblem(t, send(t, h, "GET", "/v2/clouds", "", admin), http.StatusInternalServerError, device.CodeInternal)
}

// What openstacksdk and other clients discover the API by.
func TestVersionDocuments(t *testing.T) {
	h := testServer(t, oneDevice())
	const version = `{"id":"v2.0","status":"CURRENT","min_version":"2.0","max_version":"2.1","version":"2.1","links":[{"rel":"self","href":"/v2"}]}`
	require.JSONEq(t,
		`{"name":"Burnish","description":"Cleaning of passthrough devices between cloud tenants","versions":[`+version+
			`],"default_version":`+version+`}`,
		send(t, h, "GET", "/", "").Body.String())
	require.JSONEq(t, `{"version":`+version+`}`, send(t, h, "GET", "/v2", "").Body.String())
}

// Only what the rule get_details allows is shown: a reader sees Cyborg's own fields, also in the
// answer to a change, and in no error.
func TestReadersSeeCyborgsFields(t *testing.T) {
	secret := "secret-" + "text"
	instance := secret
	v := testStatus()
	v.Serial, v.InstanceUUID, v.LastError, v.LastRefusal, v.Remedy, v.Fault, v.Path = secret, &instance, secret, secret,
		secret, secret, secret
	devices := &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: v}}
	h := testServer(t, devices)
	require.Contains(t, send(t, h, "GET", devicePath, "", admin, at21).Body.String(), secret)
	w := send(t, h, "GET", devicePath, "", reader, at21)
	require.Equal(t, http.StatusOK, w.Code)
	require.NotContains(t, w.Body.String(), secret)
	for _, path := range []string{"/history", "/execution", "/discovery"} {
		requireProblem(t, send(t, h, "GET", devicePath+path, "", reader, at21), http.StatusForbidden, device.CodeForbidden)
	}
	cleaner := serverWith(devices, func(o *Options) { o.Policy = only{ruleOf(contract.VerbClean)} })
	w = send(t, cleaner, "POST", cleanPath, "", admin, at21)
	require.Equal(t, http.StatusAccepted, w.Code, w.Body.String())
	require.NotContains(t, w.Body.String(), secret)
}

// The document's two examples, member by member and in its order.
//
// S2.72, S2.81
func TestTheDocumentsExamples(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return parsed.Add(123 * time.Millisecond)
	}
	examples := []struct {
		v    contract.DeviceStatus
		text string
	}{
		{contract.DeviceStatus{UUID: "7c8a5f3b-2d4e-4a9c-b1e7-9f8d3c2a1b0e", Vendor: "8086", Model: "0001",
			Hostname: "compute-1", DeviceState: device.Available,
			StdBoardInfo: contract.BoardInfo{ProductID: "0001", PCIAddress: "0000:01:00.0"},
			CreatedAt:    at("2026-05-15T10:23:45Z"), UpdatedAt: at("2026-05-15T10:25:30Z")},
			`{"uuid":"7c8a5f3b-2d4e-4a9c-b1e7-9f8d3c2a1b0e","type":"NVME","vendor":"8086","model":"0001","std_board_info":"{\"product_id\": \"0001\", \"pci_address\": \"0000:01:00.0\"}","vendor_board_info":null,"hostname":"compute-1","status":"enabled","device_state":"available","created_at":"2026-05-15T10:23:45Z","updated_at":"2026-05-15T10:25:30Z"}`},
		{contract.DeviceStatus{UUID: "3f2a8b9c-1e5d-4c7b-a3f6-8d2e9c1b4a7f", Vendor: "144d", Model: "a808",
			Hostname: "compute-2", DeviceState: device.Error,
			StdBoardInfo: contract.BoardInfo{ProductID: "a808", PCIAddress: "0000:02:00.0"},
			CreatedAt:    at("2026-05-15T14:00:00Z"), UpdatedAt: at("2026-05-15T16:30:15Z")},
			`{"uuid":"3f2a8b9c-1e5d-4c7b-a3f6-8d2e9c1b4a7f","type":"NVME","vendor":"144d","model":"a808","std_board_info":"{\"product_id\": \"a808\", \"pci_address\": \"0000:02:00.0\"}","vendor_board_info":null,"hostname":"compute-2","status":"enabled","device_state":"error","created_at":"2026-05-15T14:00:00Z","updated_at":"2026-05-15T16:30:15Z"}`},
	}
	for _, example := range examples {
		v := example.v
		v.Name, v.Type, v.Status = testName, "NVME", device.Enabled
		w := send(t, testServer(t, &fakeDevices{statuses: map[string]contract.DeviceStatus{testName: v}}), "GET",
			"/v2/devices/"+v.UUID, "", reader, at21)
		require.Equal(t, example.text+"\n", w.Body.String())
	}
}
