package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	sdkclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
	"burnish/internal/testkit/site"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

const (
	benchRack    = "rack1"
	poolPageSize = 100
	// takenServers are the servers that other users take before the last round.
	takenServers = 10

	maxPollMemory    = 64        // MiB, of the worker in a round
	maxPollPayload   = 256       // KiB, of the largest event
	maxPollBindRatio = 1.5       // of a bind's latency during rounds, to that without
	pollRoundWithin  = time.Hour // of one round
)

// pool is a simulated appliance, and a worker that polls it on request.
type pool struct {
	*installation
	rack *oneviewsim.Appliance
	ids  []string // of the enrolled devices' workflows, by server
}

// startPool starts both. The enrolled devices are workflows that no worker runs: what a
// poll reads of them, and each signal that they get, is real.
func (b *bench) startPool(ctx context.Context) (*pool, error) {
	dir, err := b.folder("oneview")
	if err != nil {
		return nil, err
	}
	p := &pool{rack: oneviewsim.New(oneviewsim.Servers(b.poolServers))}
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
	text := fmt.Sprintf("appliances:\n  %s:\n    url: https://%s\n    username: %s\n    password: %q\n    ca: %s\n    periodic_check_interval: 0\n    page_size: %d\n",
		benchRack, listener.Addr(), user.Name, user.Password, ca, poolPageSize)
	if err := os.WriteFile(ca, authority, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	if p.installation, err = b.install(ctx, "oneview-server", "BURNISH_DRIVERS=fake", "BURNISH_ONEVIEW="+file); err != nil {
		return nil, err
	}
	return p, p.enrollServers(ctx, b.poolServers)
}

// enrollServers starts a device's workflow for each server, available and in the pool.
func (p *pool) enrollServers(ctx context.Context, n int) error {
	servers := p.rack.State().Hardware
	p.ids = make([]string, n)
	return seedDevices(ctx, p.client, n, func(i int) (sdkclient.StartWorkflowOptions, contract.DeviceInput) {
		server := servers[i]
		options := client.DeviceStart(contract.Enrollment{Name: server.Name}, contract.Hardware{})
		options.TypedSearchAttributes = temporal.NewSearchAttributes(
			contract.AttrState.ValueSet(string(device.Available)), contract.AttrUUID.ValueSet(contract.DeviceUUID(server.Name)),
			contract.AttrSerial.ValueSet(server.Serial), contract.AttrType.ValueSet(contract.TypeNode), contract.AttrHost.ValueSet(p.Host),
			contract.AttrNeedsOperator.ValueSet(false), contract.AttrDirty.ValueSet(false), contract.AttrUpdated.ValueSet(time.Now()))
		options.Memo = map[string]any{contract.MemoStatus: contract.StatusMemo{
			Name: server.Name, Model: server.Model, Status: device.Enabled, Driver: "redfish", Owner: device.OwnerSelf,
			Pool: &contract.StatusPool{Pool: contract.Pool{Appliance: benchRack, Hardware: server.URI(), Template: oneviewsim.TemplateURI, Dynamic: true}},
		}}
		p.ids[i] = options.ID
		return options, contract.DeviceInput{Name: server.Name}
	})
}

// round asks for a round and waits for its end.
func (p *pool) round(ctx context.Context) (contract.OneViewState, error) {
	c := client.New(p.client)
	before, err := c.OneViewState(ctx, benchRack)
	if err == nil { // without an input, as Temporal's own command line sends it
		_, err = p.client.WorkflowService().SignalWorkflowExecution(ctx, &workflowservice.SignalWorkflowExecutionRequest{
			Namespace: site.DefaultNamespace, SignalName: contract.SignalLookNow,
			WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: contract.OneViewWorkflowID(benchRack)},
		})
	}
	if err != nil {
		return before, err
	}
	var after contract.OneViewState
	err = proc.Await(ctx, pollRoundWithin, 200*time.Millisecond, "a round of the polls", func() (bool, string) {
		after, err = c.OneViewState(ctx, benchRack)
		return err == nil && after.Rounds > before.Rounds, fmt.Sprintf("%d rounds, %v", after.Rounds, err)
	})
	if err == nil && after.Fault != nil {
		err = after.Fault
	}
	return after, err
}

// bindTimes binds a device that is in no pool, so many times.
func (p *installation) bindTimes(ctx context.Context, id string, times int, into series) error {
	for range times {
		began := time.Now()
		instance, err := p.bind(ctx, id)
		if err != nil {
			return err
		}
		into["bind"] = append(into["bind"], milliseconds(time.Since(began)))
		if err := p.unbind(ctx, id, instance); err != nil {
			return err
		}
		if err := p.awaitAvailable(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// duringRounds does something while one round follows the other.
func (p *pool) duringRounds(ctx context.Context, do func() error) error {
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() {
		for !over.Load() {
			if _, err := p.round(ctx); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	err := do()
	over.Store(true)
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

// oneview measures rounds of the polls over a large appliance.
func (b *bench) oneview(ctx context.Context) error {
	b.progress("oneview: %d servers", b.poolServers)
	p, err := b.startPool(ctx)
	if err != nil {
		return err
	}
	plain, err := p.enroll(ctx, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
		Name: "plain", Host: p.Host, Driver: "fake", Type: "DISK", Owner: device.OwnerSelf, Settings: map[string]string{"size": "4096"},
	}})
	if err != nil {
		return err
	}
	idle, busy := series{}, series{}
	if err := p.bindTimes(ctx, plain, b.poolBinds, series{}); err != nil { // warm up
		return err
	}
	b.progress("oneview: the first round")
	requests := len(p.rack.Requests())
	idleMemory, err := peakMemory(p.worker)
	if err != nil {
		return err
	}
	began := time.Now()
	state, err := p.round(ctx)
	if err != nil {
		return err
	}
	took := time.Since(began)
	busyMemory, err := peakMemory(p.worker)
	if err != nil {
		return err
	}
	pages, logins := 0, 0
	for _, r := range p.rack.Requests()[requests:] {
		switch {
		case r.Method == "GET" && r.Path == "/rest/server-hardware":
			pages++
		case r.Method == "POST" && r.Path == "/rest/login-sessions":
			logins++
		default:
			b.note("oneview: beside pages and logins: %s %s", r.Method, r.Path)
		}
	}
	b.progress("oneview: binds, with and without rounds")
	err = p.bindTimes(ctx, plain, b.poolBinds, idle)
	if err == nil {
		err = p.duringRounds(ctx, func() error { return p.bindTimes(ctx, plain, 2*b.poolBinds, busy) })
	}
	if err == nil {
		err = p.bindTimes(ctx, plain, b.poolBinds, idle)
	}
	if err != nil {
		return err
	}
	for i := range takenServers {
		if err := p.rack.Take(fmt.Sprintf("server-%d", 1+i*b.poolServers/takenServers)); err != nil {
			return err
		}
	}
	last, err := p.round(ctx)
	if err != nil {
		return err
	}
	signaled, unchanged, err := p.signals(ctx)
	if err != nil {
		return err
	}
	largest, err := p.largestEvent(ctx)
	if err != nil {
		return err
	}
	b.note("oneview: %d servers, all of them enrolled, %d to a page; the first round took %.1f s; %d rounds in all", state.Last.Devices, poolPageSize, took.Seconds(), last.Rounds)
	b.add(
		single("oneview: requests of a round, pages", "", float64(pages)).atMost(float64((b.poolServers+poolPageSize-1)/poolPageSize)),
		single("  logins of it", "", float64(logins)).atMost(1),
		single("  time of it", "s", took.Seconds()),
		single("  memory of the worker above idle in it", "MiB", float64(busyMemory-idleMemory)/(1<<20)).atMost(maxPollMemory),
		single("  largest event of its workflow", "KiB", largest).atMost(maxPollPayload),
		single("  signals to devices of which nothing changed", "", float64(unchanged)).atMost(0),
		single("  devices of taken servers that were signaled", "", float64(signaled)).atLeast(takenServers),
		latencyFigure("bind answered during rounds, median", busy, idle, "bind", 0.5).ratioAtMost(maxPollBindRatio),
		latencyFigure("bind answered during rounds, p95", busy, idle, "bind", 0.95),
	)
	return nil
}

// signals counts the devices that were signaled: of the taken servers, and of the others.
func (p *pool) signals(ctx context.Context) (taken, unchanged int, err error) {
	const batch = 50
	changed := map[int]bool{}
	for i := range takenServers {
		changed[i*len(p.ids)/takenServers] = true
	}
	var others, theirs atomic.Int64
	for from := 0; from < len(p.ids) && err == nil; from += batch {
		err = parallel(min(batch, len(p.ids)-from), func(i int) error {
			found, err := p.client.DescribeWorkflowExecution(ctx, p.ids[from+i], "")
			// Its start and its first workflow task: each signal is one event more.
			extra := found.GetWorkflowExecutionInfo().GetHistoryLength() - 2
			if changed[from+i] {
				theirs.Add(extra)
			} else {
				others.Add(extra)
			}
			return err
		})
	}
	return int(theirs.Load()), int(others.Load()), err
}

// largestEvent is the size of the largest event of the appliance's workflow, in KiB.
func (p *pool) largestEvent(ctx context.Context) (kib float64, err error) {
	for run := ""; ; {
		events, err := p.history(ctx, contract.OneViewWorkflowID(benchRack), run)
		if err != nil {
			return 0, err
		}
		for _, e := range events {
			kib = max(kib, float64(e.Size())/1024)
		}
		if run = events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId(); run == "" {
			return kib, nil
		}
	}
}
