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

	historypb "go.temporal.io/api/history/v1"
	sdkclient "go.temporal.io/sdk/client"

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
func (b *bench) startPool(ctx context.Context, servers int) (*pool, error) {
	dir, err := b.folder("oneview")
	if err != nil {
		return nil, err
	}
	p := &pool{rack: oneviewsim.New(oneviewsim.Servers(servers))}
	p.servers = p.rack.State().Hardware
	certificate, authority, _, err := simserver.Certificate("bench OneView")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	stop := oneviewsim.Serve(p.rack, p.rack, listener, certificate)
	b.atEnd(func() error { stop(); return nil })
	user := p.rack.Config().Users[0]
	ca, file := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "oneview.yaml")
	text := fmt.Sprintf(
		"appliances: {%s: {url: 'https://%s', username: %s, password: %q, ca: %s, periodic_check_interval: 0, "+
			"page_size: %d}}",
		benchRack, listener.Addr(), user.Name, user.Password, ca, poolPageSize)
	if err := errors.Join(os.WriteFile(ca, authority, 0o600), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		return nil, err
	}
	if p.place, err = b.installation(ctx, "oneview-server", noSweep, "BURNISH_DRIVERS=fake",
		"BURNISH_ONEVIEW="+file); err != nil {
		return nil, err
	}
	return p, p.seed(ctx, servers, func(i int) (string, sdkclient.StartWorkflowOptions) {
		server := p.servers[i]
		return server.Name, idleNode(server.Name, p.Host, server.Serial, contract.StatusMemo{
			Model: server.Model, Driver: "redfish",
			Pool: &contract.StatusPool{Pool: contract.Pool{
				Appliance: benchRack, Hardware: server.URI(), Template: oneviewsim.TemplateURI, Dynamic: true,
			}},
		})
	})
}

// round asks for a round and waits for its end.
func (p *pool) round(ctx context.Context) error {
	before, err := p.burnish.OneViewState(ctx, benchRack)
	if err == nil {
		err = p.burnish.LookNow(ctx, benchRack, contract.LookRequest{Source: "bench"})
	}
	if err != nil {
		return err
	}
	return awaitNoError(ctx, 200*time.Millisecond, "a round of the polls", func() (bool, string, error) {
		after, err := p.burnish.OneViewState(ctx, benchRack)
		if err == nil && after.Fault != nil {
			err = after.Fault
		}
		return after.Rounds > before.Rounds, fmt.Sprintf("%d rounds", after.Rounds), err
	})
}

// duringRounds does something while one round follows the other.
func (p *pool) duringRounds(ctx context.Context, do func() error) error {
	var over atomic.Bool
	return parallel(2, 2, func(i int) (err error) {
		if i == 0 {
			defer over.Store(true)
			return do()
		}
		for err == nil && !over.Load() {
			err = p.round(ctx)
		}
		return err
	})
}

// oneview measures rounds of the polls over a large appliance.
func (b *bench) oneview(ctx context.Context) error {
	servers, binds := scale(b, 10000, 1000), scale(b, 30, 10)
	p, err := b.startPool(ctx, servers)
	if err != nil {
		return err
	}
	plain, err := p.enrollFake(ctx, "plain") // in no pool
	if err != nil {
		return err
	}
	if _, err := p.binds(ctx, plain, binds); err != nil { // warm up
		return err
	}
	b.progress("oneview: the first round of %d servers", servers)
	requests := len(p.rack.Requests())
	used, err := memoryAbove(p.worker, func() error { return p.round(ctx) })
	if err != nil {
		return err
	}
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
	var busy, later []float64
	idle, err := p.binds(ctx, plain, binds)
	if err == nil {
		err = p.duringRounds(ctx, func() (err error) { busy, err = p.binds(ctx, plain, 2*binds); return err })
	}
	if err == nil {
		later, err = p.binds(ctx, plain, binds)
	}
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for i := range takenServers {
		n := i * servers / takenServers
		taken[p.servers[n].Name] = true
		if err := p.rack.Take(fmt.Sprintf("server-%d", n+1)); err != nil {
			return err
		}
	}
	if err := p.round(ctx); err != nil {
		return err
	}
	signaled, unchanged, err := p.signals(ctx, taken)
	if err != nil {
		return err
	}
	var largest float64
	if _, err := p.runs(ctx, contract.OneViewWorkflowID(benchRack), func(events []*historypb.HistoryEvent) bool {
		for _, e := range events {
			largest = max(largest, float64(e.Size())/1024)
		}
		return false
	}); err != nil {
		return err
	}
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
			append(idle, later...)).ratioAtMost(maxPollBindRatio),
	)
	return nil
}

// signals counts the devices that were signaled: of the taken servers, and of the others.
func (p *pool) signals(ctx context.Context, taken map[string]bool) (signaled, unchanged int64, err error) {
	var theirs, others atomic.Int64
	err = parallel(50, len(p.servers), func(i int) error {
		name := p.servers[i].Name
		found, err := p.sdk.DescribeWorkflowExecution(ctx, contract.WorkflowID(name), "")
		// Its start and its first workflow task: each signal is one event more.
		extra := found.GetWorkflowExecutionInfo().GetHistoryLength() - 2
		if taken[name] {
			theirs.Add(extra)
		} else {
			others.Add(extra)
		}
		return err
	})
	return theirs.Load(), others.Load(), err
}
