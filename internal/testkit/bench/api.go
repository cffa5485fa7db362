package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/proc"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	maxPageExtra    = 50  // milliseconds of a page beyond Temporal's own list call
	maxShowExtra    = 10  // milliseconds of one device beyond the query
	maxPagesMemory  = 32  // MiB of all pages above those of the first
	maxReadersRatio = 1.5 // of a bind's latency while readers read, to that without

	apiPage    = 100  // devices, as without a limit
	apiLargest = 1000 // of all pages
	apiReaders = 200
	// apiDevices are those with a real workflow, which readers show.
	apiDevices = 20
)

// apiUser is an installation with the API, and its callers.
type apiUser struct {
	*place
	url  string
	http *http.Client
	ids  []string // of the devices with a real workflow
	idle int      // devices whose workflows no worker runs
}

// startAPI starts a worker with the API, and its devices.
func (b *bench) startAPI(ctx context.Context) *apiUser {
	dir := must.Get(b.folder("api"))
	tokens := "tokens:\n"
	for i := range apiReaders {
		tokens += fmt.Sprintf("- {user: reader%d, roles: [admin], token: %s}\n", i, apiToken(i))
	}
	file := filepath.Join(dir, "tokens.yaml")
	must.Do(os.WriteFile(file, []byte(tokens), 0o600))
	address := must.Get(proc.FreeAddress())
	u := &apiUser{
		url: "http://" + address, idle: scale(b, 10000, 1000),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: apiReaders}},
	}
	b.atEnd(func() error { u.http.CloseIdleConnections(); return nil })
	u.place = must.Get(b.installation(ctx, "api-server", noSweep, "BURNISH_DRIVERS=fake", "BURNISH_API_ADDRESS="+address,
		"BURNISH_API_TOKENS="+file))
	for i := range apiDevices {
		u.ids = append(u.ids, must.Get(u.enrollFake(ctx, realName(i))))
	}
	u.seed(ctx, u.idle, func(i int) (string, sdkclient.StartWorkflowOptions) {
		name := idleName(i)
		return name, idleNode(name, fmt.Sprintf("rack%d", i%40), "SN-"+name, contract.StatusMemo{
			Model: "PowerEdge R750", Vendor: "Dell Inc.", Driver: "redfish", CreatedAt: time.Now(),
			Operation: device.Shred, Steps: []contract.CleanStep{
				{Step: "erase_drives", Priority: 75, Interface: "management"}, {Step: "bios_reset", Priority: 40,
					Interface: "bios"},
				{Step: "verify_properties", Priority: 30, Interface: "management"},
			},
		})
	})
	return u
}

func apiToken(reader int) string { return fmt.Sprintf("bench-token-of-reader-%d", reader) }
func realName(i int) string      { return fmt.Sprintf("real%02d", i) }
func idleName(i int) string      { return fmt.Sprintf("server-%05d", i) }

// idleNode is how the workflow of an available server starts.
func idleNode(name, host, serial string, memo contract.StatusMemo) sdkclient.StartWorkflowOptions {
	memo.Name, memo.Status, memo.Owner = name, device.Enabled, device.OwnerSelf
	options := availableStart(name, host, serial, contract.TypeNode)
	options.Memo = map[string]any{contract.MemoStatus: memo}
	return options
}

// seed starts workflows of devices that no worker runs: what a listing reads of them is real. It
// waits until all are listed.
func (p *place) seed(ctx context.Context, n int,
	node func(i int) (name string, options sdkclient.StartWorkflowOptions)) {
	const queue = "burnish-bench-idle"
	must.Do(parallel(50, n, func(i int) error {
		name, options := node(i)
		options.TaskQueue = queue
		_, err := p.sdk.ExecuteWorkflow(ctx, options, contract.WorkflowDeviceLifecycle, contract.DeviceInput{Name: name})
		return err
	}))
	query := &workflowservice.CountWorkflowExecutionsRequest{Query: "TaskQueue = '" + queue + "' AND DeviceType = 'NODE'"}
	must.Do(awaitNoError(ctx, time.Second, "all devices to be listed", func() (bool, string, error) {
		found, err := p.sdk.CountWorkflow(ctx, query)
		return found.GetCount() == int64(n), fmt.Sprintf("%d of %d", found.GetCount(), n), err
	}))
}

// get reads one path as a reader.
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

// read is get with a good answer.
func (u *apiUser) read(ctx context.Context, path string) []byte {
	body, status, err := u.get(ctx, 0, path)
	must.Be(err == nil && status == http.StatusOK, "%s: %d %.200s: %w", path, status, body, err)
	return body
}

// page reads one page, and returns the path of the next; "" after the last.
func (u *apiUser) page(ctx context.Context, path string) (devices int, next string) {
	body := u.read(ctx, path)
	var page struct {
		Devices []struct{ UUID string } `json:"devices"`
		Links   []struct{ Href string } `json:"devices_links"`
	}
	must.Do(json.Unmarshal(body, &page))
	if len(page.Links) > 0 {
		next = page.Links[0].Href
	}
	return len(page.Devices), next
}

// allPages reads all pages, which must show all devices.
func (u *apiUser) allPages(ctx context.Context, path string) {
	found := 0
	for path != "" {
		n, next := u.page(ctx, path)
		found, path = found+n, next
	}
	total := u.idle + apiDevices
	must.Be(found == total, "the pages show %d devices of %d", found, total)
}

// list is Temporal's own list of as many devices as a page has.
func (u *apiUser) list(ctx context.Context) {
	n := len(must.Get(u.sdk.ListWorkflow(ctx,
		&workflowservice.ListWorkflowExecutionsRequest{Query: (client.Filter{}).Query(), PageSize: apiPage})).GetExecutions())
	must.Be(n == apiPage, "a list of %d devices", n)
}

// first is the API's first page.
func (u *apiUser) first(ctx context.Context) {
	u.page(ctx, fmt.Sprintf("/v2/devices?limit=%d", apiPage))
}

func (u *apiUser) query(ctx context.Context) {
	must.Get(u.burnish.Query(ctx, realName(rand.IntN(apiDevices))))
}

func (u *apiUser) show(ctx context.Context) {
	u.read(ctx, "/v2/devices/"+contract.DeviceUUID(realName(rand.IntN(apiDevices))))
}

// readers has readers read pages and devices, one request after the other each, until stop is called. A
// request may be refused, but not fail.
func (u *apiUser) readers(ctx context.Context) (stop func() (answered int)) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		wait     sync.WaitGroup
		mu       sync.Mutex
		answered int
		failed   error
	)
	for reader := range apiReaders {
		wait.Go(func() {
			for ctx.Err() == nil {
				path := "/v2/devices/" + contract.DeviceUUID(realName(rand.IntN(apiDevices)))
				if rand.IntN(2) == 0 {
					path = fmt.Sprintf("/v2/devices?limit=%d&marker=%s", apiPage, contract.DeviceUUID(idleName(rand.IntN(u.idle))))
				}
				_, status, err := u.get(ctx, reader, path)
				mu.Lock()
				switch {
				case ctx.Err() != nil:
				case err != nil:
					failed = err
				case status == http.StatusOK:
					answered++
				}
				mu.Unlock()
			}
		})
	}
	return func() int { cancel(); wait.Wait(); must.Do(failed); return answered }
}

// api measures the HTTP API of one control worker with a large fleet.
func (b *bench) api(ctx context.Context) {
	u := b.startAPI(ctx)
	b.progress("api: first pages and single devices of %d", u.idle)
	all := []measurement{timed(u.first), timed(u.list), timed(u.show), timed(u.query)}
	must.Get(interleave(ctx, 5, all...)) // warm up
	peakMemory(u.worker)                 // from here on
	got := must.Get(interleave(ctx, scale(b, 60, 15), all...))
	b.progress("api: all pages")
	used := memoryAbove(u.worker, 3, func() {
		path := fmt.Sprintf("/v2/devices?limit=%d", apiLargest)
		u.allPages(ctx, path)
		u.allPages(ctx, path+"&sort=hostname:desc")
	})
	b.add(
		beyond("first page of the API beyond Temporal's own list, median", got[0][took], got[1][took], maxPageExtra),
		beyond("  one device beyond the query, median", got[2][took], got[3][took], maxShowExtra),
		single("  memory of the worker for all pages, above that for the first", "MiB", used).atMost(maxPagesMemory),
	)
	b.bindsBesideReaders(ctx, u)
}

// bindsBesideReaders measures binds without and with readers, in turns, so that whatever else the
// machine does affects both.
func (b *bench) bindsBesideReaders(ctx context.Context, u *apiUser) {
	const atOnce = 10 // binds between two changes of the readers
	b.progress("api: binds, with and without %d readers", apiReaders)
	u.binds(ctx, u.ids[0], scale(b, 30, 10)) // warm up
	var idle, busy []float64
	reads := 0
	for range scale(b, 8, 3) {
		idle = append(idle, u.binds(ctx, u.ids[0], atOnce)...)
		stop := u.readers(ctx)
		err := must.Try(func() { busy = append(busy, u.binds(ctx, u.ids[0], atOnce)...) })
		reads += stop()
		must.Do(err)
	}
	b.note("api: %d devices in pages of %d; %d answers to %d readers during the binds", u.idle+apiDevices, apiPage,
		reads, apiReaders)
	name := fmt.Sprintf("  bind answered while %d read, median (baseline: without)", apiReaders)
	b.add(compared(name, "ms", busy, idle).ratioAtMost(maxReadersRatio))
}
