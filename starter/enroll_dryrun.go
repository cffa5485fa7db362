package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// serverNow is what the server knows before an enrollment: the devices that are enrolled, and
// when a worker of each host polled last.
type serverNow struct {
	enrolled map[string]contract.DeviceStatus

	mu    sync.Mutex
	hosts map[string]func() (time.Time, error) // asks once
}

// enrolledNow asks for the devices that are enrolled, if a dry run needs them.
func (a *app) enrolledNow(ctx context.Context, l deviceClient, dry bool) (*serverNow, error) {
	s := &serverNow{enrolled: map[string]contract.DeviceStatus{}, hosts: map[string]func() (time.Time, error){}}
	if !dry || l == nil { // no entry is valid
		return s, nil
	}
	found, err := a.find(ctx, l, &filter{all: true})
	for _, v := range found {
		s.enrolled[v.Name] = v
	}
	return s, err
}

// lastPoll says when a worker of the host polled last.
func (s *serverNow) lastPoll(ctx context.Context, a *app, l deviceClient, host string) (time.Time, error) {
	s.mu.Lock()
	once, ok := s.hosts[host]
	if !ok {
		once = sync.OnceValues(func() (time.Time, error) {
			rctx, cancel := a.requestContext(ctx)
			defer cancel()
			return l.LastPoll(rctx, contract.HostQueue(host))
		})
		s.hosts[host] = once
	}
	s.mu.Unlock()
	return once()
}

// wouldEnroll says what an enrollment would do, as far as the server knows it: whether the host
// finds the device shows only when it is enrolled.
func (s *serverNow) wouldEnroll(ctx context.Context, a *app, l deviceClient, in contract.EnrollInput) outcome {
	e := in.Enrollment
	if have, ok := s.enrolled[e.Name]; ok {
		if what := differs(have, e); what != "" {
			return failed("enroll", e.Name, &failure{
				exit: exitFailed, code: device.CodeAlreadyExists, state: have.DeviceState,
				message: "would be refused: the device is already enrolled with " + what, remedy: "retire " + e.Name +
					" and forget it first",
			})
		}
		line := fmt.Sprintf("%s: is already enrolled (state: %s)", e.Name, have.DeviceState)
		if in.Provide && have.DeviceState == device.Manageable {
			line += "; would be provided"
		}
		return done(e.Name, oneLine(line))
	}
	last, err := s.lastPoll(ctx, a, l, e.Host)
	if err != nil {
		return failed("enroll", e.Name, a.explain(ctx, l, e.Name, err))
	}
	if a.now().Sub(last) > pollerMaxAge {
		return failed("enroll", e.Name, &failure{
			exit: exitFailed, code: device.CodeHostUnreachable, message: "would be refused: no worker of host " +
				e.Host + " polls",
			remedy: "start burnish-worker there with BURNISH_HOST=" + e.Host + ", or correct the host",
		})
	}
	line := fmt.Sprintf("%s: would be enrolled on host %s with driver %s", e.Name, e.Host, e.Driver)
	if in.Provide {
		line += ", and provided"
	}
	return done(e.Name, oneLine(line+"; if its host finds the device, and allows it"))
}

// differs says in what an enrolled device differs from an enrollment; "": in nothing that the
// listing shows.
func differs(have contract.DeviceStatus, want contract.Enrollment) string {
	switch {
	case !strings.EqualFold(have.Hostname, want.Host):
		return "another host: " + have.Hostname
	case have.Driver != want.Driver:
		return "another driver: " + have.Driver
	case have.Owner != want.Owner:
		return "another owner: " + string(have.Owner)
	case have.OneTimeUse != want.OneTimeUse:
		return fmt.Sprintf("another one-time-use: %t", have.OneTimeUse)
	}
	return ""
}
