package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"burnish/internal/api/access"
	"burnish/internal/api/guest"
	"burnish/internal/device"
	"burnish/internal/nova/metadata"
	"burnish/internal/testkit/must"
	"burnish/internal/testkit/suites/inventorytest"
	"burnish/workflows/contract"
)

const (
	// instanceDevices are bound at once, by one request.
	instanceDevices = 8
	// slowInventory is the injected time of each inventory call.
	slowInventory = 250 * time.Millisecond
	// The bounds: a bind of instanceDevices compared with one of a single device, and the
	// milliseconds of a guest's read beyond the query of its instance.
	maxSlowBind, maxBind, maxReadExtra = 2, 6, 20

	readSecret, readProject = "the secret of the bench", "p1"
)

// instanceRun is a host with free devices, whose cleans take no time.
type instanceRun struct {
	*place
	delay atomic.Int64 // of each call of the inventory
}

func (r *instanceRun) name(i int) string { return fmt.Sprintf("drive%d", i) }

// instances measures how long the bind of several devices takes, compared with one, and a guest's
// read of what it has.
func (b *bench) instances(ctx context.Context) {
	p := must.Get(b.place(ctx, "instances"))
	r := &instanceRun{place: p}
	slow := inventorytest.NewFaulty(must.Get(fileStore(ctx, p.Dir)))
	slow.Do(inventorytest.BeforeCall(0), func() error { time.Sleep(time.Duration(r.delay.Load())); return nil })
	must.Get(b.start(p, crew{queue: contract.Queue, store: slow, hosts: []string{p.Host}, steps: noSteps()}))
	collect(instanceDevices, instanceDevices, func(i int) string { return must.Get(p.enrollFake(ctx, r.name(i))) })
	must.Get(interleave(ctx, 2, r.bindSome(instanceDevices, 0)))
	rounds := scale(b, 12, 4)
	b.progress("instances: binds of 1 and of %d devices", instanceDevices)
	for _, m := range []struct {
		name  string
		delay time.Duration
		limit float64
	}{
		{fmt.Sprintf("bind of %d devices, %s an inventory call (baseline: 1 device)", instanceDevices, slowInventory),
			slowInventory, maxSlowBind},
		{fmt.Sprintf("bind of %d devices (baseline: 1 device)", instanceDevices), 0, maxBind},
	} {
		found := must.Get(interleave(ctx, rounds, r.bindSome(instanceDevices, m.delay), r.bindSome(1, m.delay)))
		b.add(compared(m.name, "ms", found[0]["bind"], found[1]["bind"]).ratioAtMost(m.limit))
	}
	b.guestReads(ctx, r, rounds)
}

// input is a bind of n devices.
func (r *instanceRun) input(n int) (in contract.InstanceBindInput) {
	in.Project = readProject
	for i := range n {
		in.Devices = append(in.Devices, contract.DeviceChoice{Name: r.name(i), Tag: fmt.Sprint("role ", i)})
	}
	return in
}

// release gives an instance's devices back, and waits until all are available.
func (r *instanceRun) release(ctx context.Context, id string) {
	must.Get(r.burnish.DoInstance(ctx, id, contract.VerbInstanceRelease, contract.ReasonInput{}))
	must.Do(parallel(instanceDevices, instanceDevices, func(i int) error {
		return r.await(ctx, contract.WorkflowID(r.name(i)), device.Available)
	}))
}

// bindSome measures the bind of n devices to a new instance, while each inventory call takes delay,
// and gives them back.
func (r *instanceRun) bindSome(n int, delay time.Duration) measurement {
	return func(ctx context.Context) (values, error) {
		id := uuid.NewString()
		r.delay.Store(int64(delay))
		began := time.Now()
		result := must.Get(r.burnish.DoInstance(ctx, id, contract.VerbInstanceBind, r.input(n)))
		bound := milliseconds(time.Since(began))
		r.delay.Store(0)
		got := len(result.Instance.Devices)
		must.Be(got == n, "%d of %d devices are bound", got, n)
		r.release(ctx, id)
		return values{"bind": bound}, nil
	}
}

// guestReads measures what a guest's read of its document, with all devices, takes beyond the query
// of the instance.
func (b *bench) guestReads(ctx context.Context, r *instanceRun, rounds int) {
	id := uuid.NewString()
	must.Get(r.burnish.DoInstance(ctx, id, contract.VerbInstanceBind, r.input(instanceDevices)))
	listener := must.Get(access.Listen(ctx, "127.0.0.1:0", nil))
	web := guest.NewServer(guest.Options{
		Instances: r.burnish, Secret: func() ([]byte, error) { return []byte(readSecret), nil },
		Log: slog.New(slog.DiscardHandler),
	})
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	b.atEnd(func() error {
		err := web.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	mac := hmac.New(sha256.New, []byte(readSecret))
	mac.Write([]byte(id))
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+listener.Addr().String()+"/openstack/latest/meta_data.json", nil))
	request.Header.Set("X-Instance-ID", id)
	request.Header.Set("X-Tenant-ID", readProject)
	request.Header.Set("X-Instance-ID-Signature", hex.EncodeToString(mac.Sum(nil)))
	found := must.Get(interleave(ctx, 10*rounds,
		timed(func(context.Context) { readDocument(request) }),
		timed(func(ctx context.Context) { must.Get(r.burnish.Instance(ctx, id)) })))
	b.add(beyond(fmt.Sprintf("a guest's read of %d devices beyond the query", instanceDevices), found[0][took],
		found[1][took], maxReadExtra))
}

// readDocument reads a document that must have all devices.
func readDocument(request *http.Request) {
	answer := must.Get(http.DefaultClient.Do(request))
	text, err := io.ReadAll(answer.Body)
	must.Do(errors.Join(err, answer.Body.Close()))
	var doc metadata.Document
	err = json.Unmarshal(text, &doc)
	must.Be(err == nil && len(doc.Devices) == instanceDevices, "the metadata service answered %d %s", answer.StatusCode,
		text)
}
