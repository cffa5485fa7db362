package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	maxPageExtra   = 50 // milliseconds of a page beyond Temporal's own list call
	maxShowExtra   = 10 // milliseconds of one device beyond the query
	maxPagesMemory = 32 // MiB of all pages above those of the first

	apiPage    = 100  // devices, as without a limit
	apiLargest = 1000 // of all pages
	apiReaders = 200
	// bindsAtOnce are the binds between two changes of the readers.
	bindsAtOnce = 10
	// apiDevices are those with a real workflow, which readers show.
	apiDevices = 20
)

// apiUser is an installation with the API, and its callers.
type apiUser struct {
	*installation
	url  string
	http *http.Client
	ids  []string // of the devices with a real workflow
}

// startAPI starts a worker with the API, a large fleet whose workflows no worker runs, and a
// few devices whose workflows it does run.
func (b *bench) startAPI(ctx context.Context) (*apiUser, error) {
	dir, err := b.folder("api")
	if err != nil {
		return nil, err
	}
	var tokens strings.Builder
	tokens.WriteString("tokens:\n")
	for i := range apiReaders {
		fmt.Fprintf(&tokens, "- {user: reader%d, roles: [admin], token: %s}\n", i, apiToken(i))
	}
	file := filepath.Join(dir, "tokens.yaml")
	if err := os.WriteFile(file, []byte(tokens.String()), 0o600); err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	u := &apiUser{url: "http://" + address, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: apiReaders}}}
	b.atEnd(func() error { u.http.CloseIdleConnections(); return nil })
	if u.installation, err = b.install(ctx, "api-server", "BURNISH_DRIVERS=fake", "BURNISH_API_ADDRESS="+address, "BURNISH_API_TOKENS="+file); err != nil {
		return nil, err
	}
	for i := range apiDevices {
		id, err := u.enroll(ctx, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
			Name: fmt.Sprintf("real%02d", i), Host: u.Host, Driver: "fake", Type: "DISK", Owner: device.OwnerSelf, Settings: map[string]string{"size": "4096"},
		}})
		if err != nil {
			return nil, err
		}
		u.ids = append(u.ids, id)
	}
	return u, seedDevices(ctx, u.client, b.apiDevices, u.idleDevice)
}

func apiToken(reader int) string { return fmt.Sprintf("bench-token-of-reader-%d", reader) }

// freeAddress is an address of this machine on which nothing listens.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// idleDevice is how the workflow of an available server starts.
func (u *apiUser) idleDevice(i int) (sdkclient.StartWorkflowOptions, contract.DeviceInput) {
	name := fmt.Sprintf("server-%05d", i)
	options := client.DeviceStart(contract.Enrollment{Name: name}, contract.Hardware{})
	options.TypedSearchAttributes = temporal.NewSearchAttributes(
		contract.AttrState.ValueSet(string(device.Available)), contract.AttrUUID.ValueSet(contract.DeviceUUID(name)),
		contract.AttrSerial.ValueSet("SN-"+name), contract.AttrType.ValueSet(contract.TypeNode), contract.AttrHost.ValueSet(fmt.Sprintf("rack%d", i%40)),
		contract.AttrNeedsOperator.ValueSet(false), contract.AttrDirty.ValueSet(false), contract.AttrUpdated.ValueSet(time.Now()))
	options.Memo = map[string]any{contract.MemoStatus: contract.StatusMemo{
		Name: name, Model: "PowerEdge R750", Vendor: "Dell Inc.", Status: device.Enabled, Driver: "redfish", Owner: device.OwnerSelf, CreatedAt: time.Now(),
		Operation: device.Shred, Steps: []contract.CleanStep{
			{Step: "erase_drives", Priority: 75, Interface: "management"}, {Step: "bios_reset", Priority: 40, Interface: "bios"},
			{Step: "verify_properties", Priority: 30, Interface: "management"},
		},
	}}
	return options, contract.DeviceInput{Name: name}
}

// seedDevices starts workflows of devices that no worker runs: what a listing reads of them is
// real. It waits until all are listed.
func seedDevices(ctx context.Context, c sdkclient.Client, n int, device func(i int) (sdkclient.StartWorkflowOptions, contract.DeviceInput)) error {
	const batch, queue = 50, "burnish-bench-idle"
	for from := 0; from < n; from += batch {
		err := parallel(min(batch, n-from), func(i int) error {
			options, in := device(from + i)
			options.TaskQueue = queue
			_, err := c.ExecuteWorkflow(ctx, options, contract.WorkflowDeviceLifecycle, in)
			return err
		})
		if err != nil {
			return err
		}
	}
	return proc.Await(ctx, 5*time.Minute, time.Second, "all devices to be listed", func() (bool, string) {
		found, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: "TaskQueue = '" + queue + "' AND DeviceType = 'NODE'"})
		return err == nil && found.GetCount() == int64(n), fmt.Sprintf("%d of %d, %v", found.GetCount(), n, err)
	})
}

// get reads one path as a reader; the error names another status than 200.
func (u *apiUser) get(ctx context.Context, reader int, path string) (body []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url+path, nil)
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("X-Auth-Token", apiToken(reader))
	r.Header.Set("OpenStack-API-Version", "accelerator latest")
	answer, err := u.http.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(answer.Body)
	return body, answer.StatusCode, err
}

// page reads one page, and returns the path of the next; "" after the last.
func (u *apiUser) page(ctx context.Context, path string) (devices int, next string, err error) {
	body, status, err := u.get(ctx, 0, path)
	if err != nil || status != http.StatusOK {
		return 0, "", fmt.Errorf("%s: %d %.200s: %w", path, status, body, err)
	}
	var page struct {
		Devices []struct{ UUID string } `json:"devices"`
		Links   []struct{ Href string } `json:"devices_links"`
	}
	if err := json.Unmarshal(body, &page); err != nil {
		return 0, "", err
	}
	if len(page.Links) > 0 {
		next = page.Links[0].Href
	}
	return len(page.Devices), next, nil
}

// allPages reads all pages, and adds their times.
func (u *apiUser) allPages(ctx context.Context, path, what string, into series) (devices int, err error) {
	for path != "" {
		began := time.Now()
		n, next, err := u.page(ctx, path)
		if err != nil {
			return devices, err
		}
		into[what] = append(into[what], milliseconds(time.Since(began)))
		devices, path = devices+n, next
	}
	return devices, nil
}

// timed adds the time of one call.
func (s series) timed(what string, do func() error) error {
	began := time.Now()
	err := do()
	s[what] = append(s[what], milliseconds(time.Since(began)))
	return err
}

// list is Temporal's own list of as many devices as a page has.
func (u *apiUser) list(ctx context.Context) error {
	found, err := u.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: (client.Filter{}).Query(), PageSize: apiPage})
	if err == nil && len(found.GetExecutions()) != apiPage {
		err = fmt.Errorf("a list of %d devices", len(found.GetExecutions()))
	}
	return err
}

// first is the API's first page.
func (u *apiUser) first(ctx context.Context) error {
	_, _, err := u.page(ctx, fmt.Sprintf("/v2/devices?limit=%d", apiPage))
	return err
}

// cost is the processor time of server and worker for one call, in milliseconds.
func (u *apiUser) cost(ctx context.Context, times int, do func(context.Context) error) (server, worker float64, err error) {
	var before, after [2]time.Duration
	measure := func(into *[2]time.Duration) error {
		var errs [2]error
		into[0], errs[0] = cpuTime(u.Server.Process)
		into[1], errs[1] = cpuTime(u.worker)
		return errors.Join(errs[:]...)
	}
	if err := measure(&before); err != nil {
		return 0, 0, err
	}
	for range times {
		if err := do(ctx); err != nil {
			return 0, 0, err
		}
	}
	err = measure(&after)
	each := func(i int) float64 { return milliseconds(after[i]-before[i]) / float64(times) }
	return each(0), each(1), err
}

// readOnce measures a first page and one device, each beside what Temporal itself needs.
func (u *apiUser) readOnce(ctx context.Context, into series) error {
	name := strings.TrimPrefix(u.ids[rand.IntN(len(u.ids))], contract.WorkflowID(""))
	query := func() error {
		_, err := client.New(u.client).Query(ctx, name)
		return err
	}
	show := func() error {
		body, status, err := u.get(ctx, 0, "/v2/devices/"+contract.DeviceUUID(name))
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%s: %d %.200s", name, status, body)
		}
		return err
	}
	for what, do := range map[string]func() error{
		"list": func() error { return u.list(ctx) }, "first": func() error { return u.first(ctx) }, "query": query, "show": show,
	} {
		if err := into.timed(what, do); err != nil {
			return err
		}
	}
	return nil
}

// read has readers read pages and devices, one request after the other each, until stop is
// called, which returns their times in milliseconds and the other statuses than 200.
func (u *apiUser) read(ctx context.Context, fleet int) (stop func() (times []float64, refused map[int]int, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		times  []float64
		others = map[int]int{}
		failed error
	)
	for reader := range apiReaders {
		wait.Go(func() {
			for ctx.Err() == nil {
				path := "/v2/devices/" + contract.DeviceUUID(fmt.Sprintf("real%02d", rand.IntN(apiDevices)))
				if rand.IntN(2) == 0 {
					path = "/v2/devices?limit=100&marker=" + contract.DeviceUUID(fmt.Sprintf("server-%05d", rand.IntN(fleet)))
				}
				began := time.Now()
				_, status, err := u.get(ctx, reader, path)
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case err != nil:
					failed = err
				case status == http.StatusOK:
					times = append(times, milliseconds(time.Since(began)))
				default:
					others[status]++
				}
				mu.Unlock()
			}
		})
	}
	return func() ([]float64, map[int]int, error) {
		cancel()
		wait.Wait()
		return times, others, failed
	}
}

// beyond is what the product takes more than its baseline. The bound is broken only beyond the
// noise of both.
func beyond(name string, product, baseline []float64, limit float64) figure {
	more, r := median(product)-median(baseline), quantileRatio(product, baseline, 0.5)
	return single(name, "ms", more).bounded(fmt.Sprintf("≤ %g ms", limit), more > limit, r.reliable && median(baseline)*(r.low-1) > limit)
}

// api measures the HTTP API of one control worker with a large fleet.
func (b *bench) api(ctx context.Context) error {
	b.progress("api: %d devices", b.apiDevices)
	u, err := b.startAPI(ctx)
	if err != nil {
		return err
	}
	times := series{}
	for range 5 { // warm up
		if err := u.readOnce(ctx, series{}); err != nil {
			return err
		}
	}
	if _, err := peakMemory(u.worker); err != nil { // from here on
		return err
	}
	b.progress("api: first pages and single devices")
	for range b.apiRounds {
		if err := u.readOnce(ctx, times); err != nil {
			return err
		}
	}
	firstMemory, err := peakMemory(u.worker)
	if err != nil {
		return err
	}
	listServer, listWorker, err := u.cost(ctx, b.apiRounds, u.list)
	if err != nil {
		return err
	}
	pageServer, pageWorker, err := u.cost(ctx, b.apiRounds, u.first)
	if err != nil {
		return err
	}
	b.progress("api: all pages")
	total := b.apiDevices + apiDevices
	for _, way := range []string{"", "&sort=hostname:desc"} {
		found, err := u.allPages(ctx, fmt.Sprintf("/v2/devices?limit=%d%s", apiLargest, way), "page"+way, times)
		if err == nil && found != total {
			err = fmt.Errorf("the pages show %d devices of %d", found, total)
		}
		if err != nil {
			return err
		}
	}
	allMemory, err := peakMemory(u.worker)
	if err != nil {
		return err
	}
	b.progress("api: binds, with and without %d readers", apiReaders)
	idle, busy := series{}, series{}
	if err := u.bindTimes(ctx, u.ids[0], b.poolBinds, series{}); err != nil { // warm up
		return err
	}
	var reads []float64
	var took time.Duration
	refused := map[int]int{}
	for range b.readRounds { // in turns, so that whatever else the machine does affects both
		if err := u.bindTimes(ctx, u.ids[0], bindsAtOnce, idle); err != nil {
			return err
		}
		stop, began := u.read(ctx, b.apiDevices), time.Now()
		err := u.bindTimes(ctx, u.ids[0], bindsAtOnce, busy)
		took += time.Since(began)
		times, others, failed := stop()
		if err := errors.Join(err, failed); err != nil {
			return err
		}
		reads = append(reads, times...)
		for status, n := range others {
			refused[status] += n
		}
	}
	b.note("api: %d devices; pages of %d; %d readers made %d requests in %.0f s, other statuses than 200: %v", total, apiPage, apiReaders, len(reads), took.Seconds(), refused)
	mib := func(bytes int64) float64 { return float64(bytes) / (1 << 20) }
	b.add(
		beyond("api: first page beyond Temporal's own list, median", times["first"], times["list"], maxPageExtra),
		single("  of it Temporal's list", "ms", median(times["list"])),
		counted("  processor time of the server for it, beside Temporal's list", "ms", pageServer, listServer),
		single("  processor time of the worker for it", "ms", pageWorker-listWorker),
		single("  a page of all, median", "ms", median(times["page"])),
		single("  a page of all in another order, median", "ms", median(times["page&sort=hostname:desc"])),
		single("  memory of the worker for all pages, above that for the first", "MiB", mib(allMemory-firstMemory)).atMost(maxPagesMemory),
		beyond("  one device beyond the query, median", times["show"], times["query"], maxShowExtra),
		single("  of it the query", "ms", median(times["query"])),
		latencyFigure("bind answered while 200 read, median", busy, idle, "bind", 0.5),
		latencyFigure("bind answered while 200 read, p95", busy, idle, "bind", 0.95),
		single("  requests of the readers", "1/s", float64(len(reads))/took.Seconds()),
		single("  their time, median", "ms", median(reads)),
	)
	return nil
}
