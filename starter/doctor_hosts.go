package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"burnish/internal/doctor"
	"burnish/workflows/client"
)

// checkInstallation checks what the server shows of all devices: that each of their hosts has
// a worker, and that none has lost its workflow. It gives the hosts' last polls.
func (a *app) checkInstallation(ctx context.Context, f *doctor.Findings, l deviceClient,
	now func() time.Time) (polls []time.Time) {
	if !a.timeout.given {
		before := a.timeout.limit
		a.timeout.limit = walkTimeout
		defer func() { a.timeout.limit = before }()
	}
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	found, err := l.Diagnosis(rctx)
	if err != nil {
		fail := a.explain(ctx, nil, "", err)
		f.Fail("hosts", fail.remedy, "the server does not list the devices and the workers of their hosts: %s", fail.message)
		return nil
	}
	for _, h := range found.Hosts {
		checkHost(f, h, now())
		polls = append(polls, h.LastPoll)
	}
	for _, lost := range found.Lost {
		f.Warn("workflow", "check that its host's worker runs, which brings it back; a device without that host: enroll "+
			"it again",
			"no workflow runs for %s: %s", lost.Device, lost.HowEnded)
	}
	if found.MoreLost {
		f.Warn("workflow", "see temporal workflow list --query \"ExecutionStatus = 'Terminated'\"",
			"more devices have no workflow than are named here")
	}
	return polls
}

// checkHost reports one host. Without a worker it fails if a device waits for it.
func checkHost(f *doctor.Findings, h client.HostDiagnosis, now time.Time) {
	const check = "host"
	ago := now.Sub(h.LastPoll)
	devices := fmt.Sprintf("%d devices", h.Devices)
	if h.Devices == 1 {
		devices = "1 device"
	}
	if !h.LastPoll.IsZero() && ago <= pollerMaxAge {
		f.OK(check, "%s: its worker polled %s ago, %s", h.Host, roundDuration(max(ago, 0)), devices)
		return
	}
	text := h.Host + ": no worker polls"
	if !h.LastPoll.IsZero() {
		text = fmt.Sprintf("%s: no worker has polled for %s", h.Host, roundDuration(ago))
	}
	start := "start burnish-worker on " + h.Host + " with BURNISH_ROLE=host or all"
	if h.Waiting == 0 {
		f.Warn(check, start, "%s, %s", text, devices)
		return
	}
	names := strings.Join(h.Names, ", ")
	if h.Waiting > len(h.Names) {
		names += fmt.Sprintf(" and %d more", h.Waiting-len(h.Names))
	}
	wait := "wait"
	if h.Waiting == 1 {
		wait = "waits"
	}
	f.Fail(check, start, "%s, and %d of %s %s for it: %s", text, h.Waiting, devices, wait, names)
}

// pollsForgottenAfter is how long a Temporal server remembers a poll, by its own clock.
const pollsForgottenAfter = 5 * time.Minute

// checkClock compares the clocks where the server's cannot be read, as over the API: by the times
// of polls. No poll is later than the server's clock, and none that it remembers is older than
// pollsForgottenAfter. A difference that they do not show is not found.
func checkClock(f *doctor.Findings, polls []time.Time, now time.Time) {
	var ahead, behind time.Duration
	for _, poll := range polls {
		if !poll.IsZero() {
			ahead, behind = max(ahead, poll.Sub(now)), max(behind, now.Sub(poll)-pollsForgottenAfter)
		}
	}
	const check, remedy = "clock", "set this machine's clock and the server's, for example by NTP"
	if ahead > maxClockSkew {
		f.Warn(check, remedy, "the server's clock is %s ahead of this machine's", roundDuration(ahead))
	}
	if behind > maxClockSkew {
		f.Warn(check, remedy, "the server's clock is at least %s behind this machine's", roundDuration(behind))
	}
}
