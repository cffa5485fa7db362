package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/testkit/must"
	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/simserver"
	"burnish/workflows/contract"
)

const (
	benchRack    = "rack1"
	poolPageSize = 100
	// takenServers are the servers that other users take before the last round.
	takenServers = 10

	maxPollMemory    = 64  // MiB, of the worker in a round
	maxPollPayload   = 256 // KiB, of the largest event
	maxPollBindRatio = 1.5 // of a bind's latency during rounds, to that without
)

// pool is a simulated appliance, and a worker that polls it on request.
type pool struct {
	*place
	rack    *oneviewsim.Appliance
	servers []*oneviewsim.Hardware
}

// startPool starts both. The enrolled devices are workflows that no worker runs: what a
// poll reads of them, and each signal that they get, is real.
func (b *bench) startPool(ctx context.Context, servers int) *pool {
	dir := must.Get(b.folder("oneview"))
	p := &pool{rack: oneviewsim.New(oneviewsim.Servers(servers))}
	p.servers = p.rack.State().Hardware
	certificate, authority, _, err := simserver.Certificate("bench OneView")
	must.Do(err)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	stop := p.rack.Serve(listener, certificate)
	b.atEnd(func() error { stop(); return nil })
	user := p.rack.Config().Users[0]
	ca, file := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "oneview.yaml")
	text := fmt.Sprintf(
		"appliances: {%s: {url: 'https://%s', username: %s, password: %q, ca: %s, periodic_check_interval: 0, "+
			"page_size: %d}}",
		benchRack, listener.Addr(), user.Name, user.Password, ca, poolPageSize)
	must.Do(errors.Join(os.WriteFile(ca, authority, 0o600), os.WriteFile(file, []byte(text), 0o600)))
	p.place = must.Get(b.installation(ctx, "oneview-server", noSweep, "BURNISH_DRIVERS=fake", "BURNISH_ONEVIEW="+file))
	p.seed(ctx, servers, func(i int) (string, sdkclient.StartWorkflowOptions) {
		server := p.servers[i]
		return server.Name, idleNode(server.Name, p.Host, server.Serial, contract.StatusMemo{
			Model: server.Model, Driver: "redfish",
			Pool: &contract.StatusPool{Pool: contract.Pool{
				Appliance: benchRack, Hardware: server.URI(), Template: oneviewsim.TemplateURI, Dynamic: true,
			}},
		})
	})
	return p
}

// round asks for a round and waits for its end.
func (p *pool) round(ctx context.Context) {
	before := must.Get(p.burnish.OneViewState(ctx, benchRack))
	must.Do(p.burnish.LookNow(ctx, benchRack, contract.LookRequest{Source: "bench"}))
	must.Do(awaitNoError(ctx, 200*time.Millisecond, "a round of the polls", func() (bool, string, error) {
		after, err := p.burnish.OneViewState(ctx, benchRack)
		if err == nil && after.Fault != nil {
			err = after.Fault
		}
		return after.Rounds > before.Rounds, fmt.Sprintf("%d rounds", after.Rounds), err
	}))
}

// duringRounds does something while one round follows the other.
func (p *pool) duringRounds(ctx context.Context, do func()) {
	var over atomic.Bool
	must.Do(parallel(2, 2, func(i int) error {
		if i == 0 {
			defer over.Store(true)
			do()
		}
		for i == 1 && !over.Load() {
			p.round(ctx)
		}
		return nil
	}))
}

// oneview measures rounds of the polls over a large appliance.
func (b *bench) oneview(ctx context.Context) {
	servers, binds := scale(b, 10000, 1000), scale(b, 30, 10)
	p := b.startPool(ctx, servers)
	plain := must.Get(p.enrollFake(ctx, "plain")) // in no pool
	p.binds(ctx, plain, binds)                    // warm up
	b.progress("oneview: the first round of %d servers", servers)
	requests := len(p.rack.Requests())
	used := memoryAbove(p.worker, 1, func() { p.round(ctx) })
	pages, logins := 0, 0
	for _, r := range p.rack.Requests()[requests:] {
		switch r.Method + " " + r.Path {
		case "GET /rest/server-hardware":
			pages++
		case "POST /rest/login-sessions":
			logins++
		default:
			b.note("oneview: beside pages and logins: %s %s", r.Method, r.Path)
		}
	}
	b.progress("oneview: binds, with and without rounds")
	var busy []float64
	idle := p.binds(ctx, plain, binds)
	p.duringRounds(ctx, func() { busy = p.binds(ctx, plain, 2*binds) })
	idle = append(idle, p.binds(ctx, plain, binds)...)
	taken := map[string]bool{}
	for i := range takenServers {
		n := i * servers / takenServers
		taken[p.servers[n].Name] = true
		must.Do(p.rack.Take(fmt.Sprintf("server-%d", n+1)))
	}
	p.round(ctx)
	signaled, unchanged := p.signals(ctx, taken)
	var largest float64
	must.Get(p.runs(ctx, contract.OneViewWorkflowID(benchRack), func(events []*historypb.HistoryEvent) bool {
		for _, e := range events {
			largest = max(largest, float64(e.Size())/1024)
		}
		return false
	}))
	b.note("oneview: %d servers, all of them enrolled, %d to a page", servers, poolPageSize)
	b.add(
		single("requests of a round of a OneView appliance, pages", "",
			float64(pages)).atMost(float64((servers+poolPageSize-1)/poolPageSize)),
		single("  logins of it", "", float64(logins)).atMost(1),
		single("  memory of the worker above idle in it", "MiB", used).atMost(maxPollMemory),
		single("  largest event of its workflow", "KiB", largest).atMost(maxPollPayload),
		single("  signals to devices of which nothing changed", "", float64(unchanged)).atMost(0),
		single("  signals to devices of taken servers", "", float64(signaled)).atLeast(takenServers),
		compared("  bind answered during rounds, median (baseline: without)", "ms", busy,
			idle).ratioAtMost(maxPollBindRatio),
	)
}

// signals counts those of the polls: to devices of taken servers, and to the others. The sweeps of the inventory send
// theirs to the same devices.
func (p *pool) signals(ctx context.Context, taken map[string]bool) (theirs, others int64) {
	var of [2]atomic.Int64
	must.Do(parallel(50, len(p.servers), func(i int) error {
		name := p.servers[i].Name
		found, err := p.sdk.DescribeWorkflowExecution(ctx, contract.WorkflowID(name), "")
		// Its start and its first workflow task: each signal is one event more.
		if err != nil || found.GetWorkflowExecutionInfo().GetHistoryLength() == 2 {
			return err
		}
		events := p.sdk.GetWorkflowHistory(ctx, contract.WorkflowID(name), "", false,
			enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			e, err := events.Next()
			if err != nil {
				return err
			}
			switch e.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() {
			case contract.SignalTaken, contract.SignalFreed:
				of[map[bool]int{true: 0, false: 1}[taken[name]]].Add(1)
			}
		}
		return nil
	}))
	return of[0].Load(), of[1].Load()
}
