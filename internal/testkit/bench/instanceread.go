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
	"time"

	"github.com/google/uuid"

	"burnish/internal/api/guest"
	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

const (
	// maxReadExtra are the milliseconds of a guest's read beyond the query of its instance.
	maxReadExtra = 20
	// documentReads are how many reads one round has.
	documentReads = 10

	readSecret, readProject = "the secret of the bench", "p1"
)

// documents measures what a guest's read of its document, with all devices, takes beyond the
// query of the instance, by the metadata service and by the query alone.
func (r *instanceRun) documents(ctx context.Context) (read, query measurement, stop func(context.Context) error, err error) {
	stop = func(context.Context) error { return nil }
	in := contract.InstanceBindInput{Project: readProject}
	for i := range instanceDevices {
		in.Devices = append(in.Devices, contract.DeviceChoice{Name: r.name(i), Tag: fmt.Sprint("role ", i)})
	}
	id := uuid.NewString()
	if _, err := r.devices.DoInstance(ctx, id, contract.VerbInstanceBind, in); err != nil {
		return nil, nil, stop, err
	}
	listener, err := guest.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, nil, stop, err
	}
	web := guest.NewServer(guest.Options{Instances: r.devices, Secret: func() ([]byte, error) { return []byte(readSecret), nil }, Log: slog.New(slog.DiscardHandler)})
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(listener) }()
	stop = func(ctx context.Context) error {
		err := web.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		_, released := r.devices.DoInstance(ctx, id, contract.VerbInstanceRelease, contract.ReasonInput{})
		return errors.Join(err, released, r.awaitFree(ctx))
	}
	mac := hmac.New(sha256.New, []byte(readSecret))
	mac.Write([]byte(id))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+listener.Addr().String()+"/openstack/latest/meta_data.json", nil)
	if err != nil {
		return nil, nil, stop, err
	}
	request.Header.Set("X-Instance-ID", id)
	request.Header.Set("X-Tenant-ID", readProject)
	request.Header.Set("X-Instance-ID-Signature", hex.EncodeToString(mac.Sum(nil)))
	read = timedReads(func(context.Context) error { return readDocument(request) })
	query = timedReads(func(ctx context.Context) error {
		_, err := r.devices.Instance(ctx, id)
		return err
	})
	return read, query, stop, nil
}

// timedReads measures the mean of several reads.
func timedReads(do func(context.Context) error) measurement {
	return func(ctx context.Context) (values, error) {
		began := time.Now()
		for range documentReads {
			if err := do(ctx); err != nil {
				return nil, err
			}
		}
		return values{"read": milliseconds(time.Since(began)) / documentReads}, nil
	}
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

// guestReads measures the reads of guests.
func (b *bench) guestReads(ctx context.Context, r *instanceRun) (err error) {
	read, query, stop, err := r.documents(ctx)
	defer func() { err = errors.Join(err, stop(ctx)) }()
	if err != nil {
		return err
	}
	found, err := interleave(ctx, b.instanceRounds, read, query)
	if err != nil {
		return err
	}
	b.add(beyond(fmt.Sprintf("a guest's read of %d devices beyond the query", instanceDevices), found[0]["read"], found[1]["read"], maxReadExtra))
	return nil
}
