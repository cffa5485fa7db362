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

	"burnish/internal/api/guest"
	"burnish/internal/device"
	"burnish/internal/nova/metadata"
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
func (b *bench) instances(ctx context.Context) error {
	p, err := b.place(ctx, "instances")
	if err != nil {
		return err
	}
	files, err := fileStore(ctx, p.Dir)
	if err != nil {
		return err
	}
	r := &instanceRun{place: p}
	slow := inventorytest.NewFaulty(files)
	slow.Do(inventorytest.BeforeCall(0), func() error { time.Sleep(time.Duration(r.delay.Load())); return nil })
	if _, err := b.start(p, crew{queue: contract.Queue, store: slow, hosts: []string{p.Host},
		steps: noSteps()}); err != nil {
		return err
	}
	if err := parallel(instanceDevices, instanceDevices, func(i int) error {
		_, err := p.enrollFake(ctx, r.name(i))
		return err
	}); err != nil {
		return err
	}
	if _, err := interleave(ctx, 2, r.bindSome(instanceDevices, 0)); err != nil {
		return err
	}
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
		found, err := interleave(ctx, rounds, r.bindSome(instanceDevices, m.delay), r.bindSome(1, m.delay))
		if err != nil {
			return err
		}
		b.add(compared(m.name, "ms", found[0]["bind"], found[1]["bind"]).ratioAtMost(m.limit))
	}
	return b.guestReads(ctx, r, rounds)
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
func (r *instanceRun) release(ctx context.Context, id string) error {
	if _, err := r.burnish.DoInstance(ctx, id, contract.VerbInstanceRelease, contract.ReasonInput{}); err != nil {
		return err
	}
	return parallel(instanceDevices, instanceDevices, func(i int) error {
		return r.await(ctx, contract.WorkflowID(r.name(i)), device.Available)
	})
}

// bindSome measures the bind of n devices to a new instance, while each inventory call takes delay,
// and gives them back.
func (r *instanceRun) bindSome(n int, delay time.Duration) measurement {
	return func(ctx context.Context) (values, error) {
		id := uuid.NewString()
		r.delay.Store(int64(delay))
		began := time.Now()
		result, err := r.burnish.DoInstance(ctx, id, contract.VerbInstanceBind, r.input(n))
		bound := milliseconds(time.Since(began))
		r.delay.Store(0)
		if err == nil && len(result.Instance.Devices) != n {
			err = fmt.Errorf("%d of %d devices are bound", len(result.Instance.Devices), n)
		}
		if err != nil {
			return nil, err
		}
		return values{"bind": bound}, r.release(ctx, id)
	}
}

// guestReads measures what a guest's read of its document, with all devices, takes beyond the query
// of the instance.
func (b *bench) guestReads(ctx context.Context, r *instanceRun, rounds int) error {
	id := uuid.NewString()
	if _, err := r.burnish.DoInstance(ctx, id, contract.VerbInstanceBind, r.input(instanceDevices)); err != nil {
		return err
	}
	listener, err := guest.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return err
	}
	web := guest.NewServer(guest.Options{
		Instances: r.burnish, Secret: func() ([]byte, error) {
			return []byte(readSecret),
				nil
		}, Log: slog.New(slog.DiscardHandler),
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+listener.Addr().String()+"/openstack/latest/meta_data.json", nil)
	if err != nil {
		return err
	}
	request.Header.Set("X-Instance-ID", id)
	request.Header.Set("X-Tenant-ID", readProject)
	request.Header.Set("X-Instance-ID-Signature", hex.EncodeToString(mac.Sum(nil)))
	found, err := interleave(ctx, 10*rounds,
		timed(func(context.Context) error { return readDocument(request) }),
		timed(func(ctx context.Context) error {
			_, err := r.burnish.Instance(ctx, id)
			return err
		}))
	if err != nil {
		return err
	}
	b.add(beyond(fmt.Sprintf("a guest's read of %d devices beyond the query", instanceDevices), found[0][took],
		found[1][took], maxReadExtra))
	return nil
}

// readDocument reads a document that must have all devices.
func readDocument(request *http.Request) error {
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	var doc metadata.Document
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.Devices) != instanceDevices {
		return fmt.Errorf("the metadata service answered %d %s", answer.StatusCode, text)
	}
	return nil
}
