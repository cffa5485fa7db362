package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/doctor"
	"burnish/internal/host"
	"burnish/starter/internal/terminal"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// doctorTimeout is the default limit of a single request.
const doctorTimeout = 5 * time.Second

// walkTimeout is the default limit of the walk over all devices and hosts: many requests, of
// which a large fleet needs hundreds.
const walkTimeout = time.Minute

// maxClockSkew is how far the server's clock may be from this machine's.
const maxClockSkew = 5 * time.Second

// defaultStateDir shows that this is a worker's machine if the environment has no setting.
const defaultStateDir = "/var/lib/burnish"

func (a *app) doctorCommand() *cobra.Command {
	var try bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "check this machine and the server",
		Long: `Run it as the worker's user, with the worker's environment. It checks Temporal: the
namespace, the search attributes, that workers poll their queues, each host of an enrolled
device with the age of its worker's last poll, and the devices whose workflow was lost. With
--api it asks the API instead, and says what that leaves unchecked. If a BURNISH_ variable of a worker
is set or the default state directory exists, it also checks what a worker needs on this
machine: the settings, the state directory, host.yaml, the kernel, and each driver and its
devices. It changes nothing. Only with --placement it tries, on a provider of its own in Placement
that it deletes again, whether instances with a one-time-use device can be moved. Exit code 0 if
no check fails (a WARN is not a failure), otherwise 1. Without --timeout each request may take 5s,
and the walk over all devices and hosts a minute.`,
		Example: "  BURNISH_ROLE=host BURNISH_HOST_FILE=/etc/burnish/host.yaml burnish doctor",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !a.timeout.given {
				a.timeout.limit = doctorTimeout
			}
			var f doctor.Findings
			worker, isWorker := config.Worker{}, isWorkerMachine()
			usable := false
			if isWorker {
				worker, usable = f.Settings()
			} else {
				f.OK("settings", "no variable of a worker is set: only the server is checked")
			}
			server := a.checkTemporal(cmd.Context(), &f, worker, usable)
			if usable {
				f.Machine(worker, server)
			}
			if try {
				f.PlacementTrial(cmd.Context(), worker)
			}
			found := map[string]doctor.Findings{"findings": f}
			if err := a.emit(found, func() string { return a.findingsTable(f) }); err != nil {
				return err
			}
			if cmd.Context().Err() != nil {
				return a.explain(cmd.Context(), nil, "", cmd.Context().Err())
			}
			if f.Failures() > 0 {
				return failf(device.CodeInvalid, "follow the advice on each line, then run doctor again",
					"%d of %d checks failed", f.Failures(), len(f))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&try, "placement", false,
		"also try whether Placement lets instances with a one-time-use device be moved")
	return cmd
}

// isWorkerMachine says whether a worker is meant to run on this machine.
func isWorkerMachine() bool {
	known, unknown := config.Given()
	if len(known)+len(unknown) > 0 {
		return true
	}
	_, err := os.Stat(defaultStateDir)
	return err == nil
}

// checkTemporal checks the server. If the worker's settings are unknown, it checks only what
// every device needs. It gives the server's cluster and namespace, as far as it answers.
func (a *app) checkTemporal(ctx context.Context, f *doctor.Findings, w config.Worker, known bool) (server host.Server) {
	l, err := a.dialed(ctx)
	if err != nil {
		fail := asFailure(err)
		f.Fail(a.nameOfServer(), fail.remedy, "%s", fail.message)
		return server
	}
	defer l.Close()
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	found, err := l.Server(rctx)
	if a.api != "" && !a.checkAPI(ctx, f, err, known) {
		return server
	}
	f.OK("temporal", "%s answers, namespace %s exists", found.Address, found.Namespace)
	a.checkAttributes(ctx, f, l)
	a.checkLimits(ctx, f, l)
	a.checkPolls(ctx, f, l)
	// The times of polls are the server's.
	ahead := a.checkClock(rctx, f, l)
	now := func() time.Time { return a.now().Add(ahead) }
	a.checkQueue(ctx, f, l, now, contract.Queue, "start burnish-worker with BURNISH_ROLE=control or all")
	a.checkInstallation(ctx, f, l, now)
	if known && w.Role.Hosts() {
		a.checkQueue(ctx, f, l, now, contract.HostQueue(w.Host), "start burnish-worker on "+w.Host+
			" with BURNISH_ROLE=host or all")
	}
	if err != nil {
		fail := a.explain(ctx, nil, "", err)
		f.Fail("temporal", fail.remedy, "the server does not give the ID of its cluster: %s", fail.message)
		return server
	}
	return host.Server{Cluster: found.Cluster, Namespace: found.Namespace}
}

// nameOfServer is the check of the connection.
func (a *app) nameOfServer() string {
	if a.api != "" {
		return "api"
	}
	return "temporal"
}

// checkAPI reports whether the API answers. What follows is then as its control worker sees
// it, which says nothing of this machine's own connection.
func (a *app) checkAPI(ctx context.Context, f *doctor.Findings, err error, isWorker bool) bool {
	check := a.nameOfServer()
	if err != nil {
		fail := a.explain(ctx, nil, "", err)
		f.Fail(check, fail.remedy, "%s", fail.message)
		return false
	}
	f.OK(check, "%s answers; Temporal and the workers are checked through it", a.api)
	if isWorker {
		f.Warn(check, "run doctor without --api and "+config.VarAPI+" too",
			"the connection to Temporal that this machine's worker needs is not checked")
	}
	return true
}

// checkAttributes checks the search attributes that listings and filters need.
func (a *app) checkAttributes(ctx context.Context, f *doctor.Findings, l deviceClient) {
	const check = "search attributes"
	have, err := ask(ctx, a, nil, "", l.SearchAttributes)
	if err != nil {
		f.Warn(check, "see: temporal operator search-attribute list", "the server does not list its search attributes: %s",
			asFailure(err).message)
		return
	}
	want := contract.Attributes()
	var create []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch got, ok := have[name]; {
		case !ok:
			create = append(create, "--name "+name+" --type "+want[name].String())
		case got != want[name].String():
			f.Fail(check, "use a separate namespace for Burnish", "%s is %s and must be %s", name, got, want[name])
		}
	}
	if len(create) > 0 {
		f.Fail(check, "temporal operator search-attribute create "+strings.Join(create, " "), "%d of %d are missing",
			len(create), len(want))
		return
	}
	f.OK(check, "all %d exist", len(want))
}

// checkQueue checks that a worker polls a task queue.
func (a *app) checkQueue(ctx context.Context, f *doctor.Findings, l deviceClient, now func() time.Time, queue,
	start string) {
	const check = "worker"
	last, err := ask(ctx, a, nil, "", func(ctx context.Context) (time.Time, error) { return l.LastPoll(ctx, queue) })
	ago := now().Sub(last)
	switch {
	case err != nil:
		fail := asFailure(err)
		f.Fail(check, fail.remedy, "the server does not list the pollers of queue %s: %s", queue, fail.message)
	case last.IsZero():
		f.Fail(check, start, "no worker polls queue %s", queue)
	case ago > pollerMaxAge:
		f.Fail(check, start, "no worker has polled queue %s for %s", queue, roundDuration(ago))
	default:
		f.OK(check, "queue %s is polled", queue)
	}
}

// findingsTable is one line a finding.
func (a *app) findingsTable(findings doctor.Findings) string {
	var b strings.Builder
	for _, f := range findings {
		text := f.Message
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		level := strings.ToUpper(string(f.Level))
		fmt.Fprintf(&b, "%s%*s %s\n", a.palette().Paint(terminal.Verdict(level), level), max(5-len(level), 0), "",
			oneLine(f.Check+": "+text))
	}
	return b.String()
}

// checkInstallation checks what the server shows of all devices: that each of their hosts has
// a worker, and that none has lost its workflow.
func (a *app) checkInstallation(ctx context.Context, f *doctor.Findings, l deviceClient, now func() time.Time) {
	if !a.timeout.given {
		before := a.timeout.limit
		a.timeout.limit = walkTimeout
		defer func() { a.timeout.limit = before }()
	}
	found, err := ask(ctx, a, nil, "", l.Diagnosis)
	if err != nil {
		fail := asFailure(err)
		f.Fail("hosts", fail.remedy, "the server does not list the devices and the workers of their hosts: %s", fail.message)
		return
	}
	for _, h := range found.Hosts {
		checkHost(f, h, now())
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
}

// checkHost reports one host. Without a worker it fails if a device waits for it.
func checkHost(f *doctor.Findings, h client.HostDiagnosis, now time.Time) {
	const check = "host"
	ago := now.Sub(h.LastPoll)
	devices := countOf(h.Devices)
	if !h.LastPoll.IsZero() && ago <= pollerMaxAge {
		f.OK(check, "%s: its worker polled %s ago, %s", h.Host, roundDuration(max(ago, 0)), devices)
		if len(h.Machines) > 1 {
			f.Warn(check, "stop the worker on the one that is not "+h.Host+"; if nobody started it there, see docs/security.md",
				"%s: workers of %d machines poll for it: %s", h.Host, len(h.Machines), strings.Join(h.Machines, ", "))
		}
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

// checkClock reports how far the server's clock is ahead of this machine's, or behind it if that is
// less than zero, where the client can read it. What the reading takes counts as no difference.
func (a *app) checkClock(ctx context.Context, f *doctor.Findings, l deviceClient) (ahead time.Duration) {
	const check, remedy = "clock", "set this machine's clock and the server's, for example by NTP"
	reader, ok := l.(clockReader)
	if !ok {
		return 0
	}
	before := a.now()
	server, err := reader.ServerTime(ctx)
	if err != nil { // its credential may not poll
		return 0
	}
	switch ahead = max(server.Sub(a.now()), 0) + min(server.Sub(before), 0); {
	case ahead > maxClockSkew:
		f.Warn(check, remedy, "the server's clock is %s ahead of this machine's", roundDuration(ahead))
	case ahead < -maxClockSkew:
		f.Warn(check, remedy, "the server's clock is %s behind this machine's", roundDuration(-ahead))
	default:
		f.OK(check, "within %s of the server's", maxClockSkew)
	}
	return ahead
}

// checkLimits reports the alarms of the limits.
func (a *app) checkLimits(ctx context.Context, f *doctor.Findings, l deviceClient) {
	const check = "limits"
	status := client.Limits(ctx, l, "")
	for _, alarm := range status.Alarms {
		f.Warn(check, alarm.Remedy, "%d cleans wait: %s", alarm.Waiting, alarm.Message)
	}
	if status.Limits != nil && len(status.Alarms) == 0 {
		f.OK(check, "%d cleans run, %d wait", status.Running, status.Queued)
	}
}

// checkPolls reports the polls of each appliance.
func (a *app) checkPolls(ctx context.Context, f *doctor.Findings, l deviceClient) {
	const check = "polls"
	ctx, cancel := context.WithTimeout(ctx, client.QueryTimeout)
	defer cancel()
	names, err := l.Appliances(ctx)
	if err != nil {
		return // the connection has a check of its own
	}
	for _, name := range names {
		s, err := l.OneViewState(ctx, name)
		switch {
		case err != nil:
			f.Warn(check, "start a control worker", "%s: its workflow does not answer: %s", name, err)
		case s.NeedsOperator && s.Fault != nil:
			f.Warn(check, s.Fault.Remedy, "%s: no good round since %s: %s", name, local(s.Failing), s.Fault.Message)
		case s.Interval == 0:
			f.OK(check, "%s: off", name)
		case s.LastGood.IsZero():
			f.OK(check, "%s: no good round yet", name)
		default:
			f.OK(check, "%s: last good round %s ago, %d devices, %d failed", name, age(a.now(), s.LastGood), s.Last.Devices,
				s.Last.Failed)
		}
	}
}
