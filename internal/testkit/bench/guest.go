package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/testkit/guest"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// drivePair is two drives with the same limit in bytes a second, 0 for none. The times of
// both include what a step does once, whatever the size; their difference is the rate.
type drivePair struct {
	name  string // of the serials
	sizes [2]int64
	rate  int64
}

func (p drivePair) serial(i int) string { return fmt.Sprintf("%s%d", p.name, i) }

// slowSerial is that of one of the drives that are cleaned concurrently.
func slowSerial(i int) string { return fmt.Sprintf("SLOW%d", i) }

// What a guest does is bounded, so that a run that cannot go on ends, and says why.
const (
	bootWithin = 3 * time.Minute
	// driveWithin bounds the enrollment of a drive with its first clean, and a turnover: several
	// times the 80 s that eight at once take on two processors.
	driveWithin = 10 * time.Minute
	// commandWithin bounds a command in the guest, of which the longest takes 16 s.
	commandWithin = 3 * time.Minute
)

// machine is a guest whose worker cleans its drives. Server and control run outside of it.
type machine struct {
	*installation
	*guest.Guest
	host string
}

// ended is why the guest cleans nothing any more, "" while it may.
func (m *machine) ended() string {
	switch {
	case !m.Running():
		return "the guest ended"
	case !m.worker.Alive():
		return "the control worker ended"
	case !m.Server.Alive():
		return "the server ended"
	case strings.Contains(m.WorkerLog(), "guest: the worker ended"):
		return "the guest's worker ended"
	}
	return ""
}

// evidence is what the guest says last, and the state of a drive, "" for none.
func (m *machine) evidence(serial string) string {
	text := "the guest's worker: " + last(m.WorkerLog()) + "\nthe guest's console: " + last(m.Console())
	if serial == "" {
		return text
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	status, err := client.New(m.client).Query(ctx, m.name(serial))
	if err != nil {
		return fmt.Sprintf("the drive does not say its state: %v; %s", err, text)
	}
	step := ""
	if status.CleanStep != nil {
		step = " in step " + status.CleanStep.Step
	}
	return fmt.Sprintf("the drive %s is %s%s, fault %q; %s", serial, status.DeviceState, step, status.Fault, text)
}

// last is the end of a log.
func last(log string) string {
	const length = 1500
	log = strings.TrimSpace(log)
	return log[max(0, len(log)-length):]
}

// drive bounds what is done with a drive of the guest.
func (m *machine) drive(ctx context.Context, serial, what string, do func(ctx context.Context) error) error {
	return within(ctx, driveWithin, "drive "+serial+" "+what, m.ended, func() string { return m.evidence(serial) }, do)
}

// cleaned is the turnover of a drive.
func (m *machine) cleaned(ctx context.Context, serial, id string) (clean contract.CleanSummary, err error) {
	err = m.drive(ctx, serial, "to be bound, unbound and cleaned", func(ctx context.Context) (err error) {
		clean, err = m.turnover(ctx, id)
		return err
	})
	return clean, err
}

// cleaning is cleaned as a measurement.
func (m *machine) cleaning(serial, id string) measurement {
	return func(ctx context.Context) (values, error) {
		clean, err := m.cleaned(ctx, serial, id)
		return runTimes(clean), err
	}
}

// guestDrives measures the step zero by the driver nvme in a guest, with a real kernel and
// a real nvme-cli, compared with blkdiscard -z on the same drive in the same boot; and how
// several drives of one host are cleaned concurrently.
func (b *bench) guestDrives(ctx context.Context) error {
	missing := guest.Missing()
	blkdiscard, err := exec.LookPath("blkdiscard")
	if missing == "" && err != nil {
		missing = "no blkdiscard (package util-linux)"
	}
	if missing != "" {
		b.note("nvme: zeroing in a guest is skipped: %s", missing)
		return nil
	}
	m, err := b.boot(ctx, blkdiscard)
	if err != nil {
		return err
	}
	defer b.noteLostCommands(m)
	for _, p := range []drivePair{b.free, b.limited} {
		if err := b.zeroing(ctx, m, p, blkdiscard); err != nil {
			return err
		}
	}
	return b.concurrentCleans(ctx, m)
}

// zeroing measures the drives of a pair. A bound exists only where the drive's own speed
// limits it, as with every real drive.
func (b *bench) zeroing(ctx context.Context, m *machine, p drivePair, blkdiscard string) error {
	var all []measurement
	for i := range p.sizes {
		id, err := m.enrollDrive(ctx, p.serial(i))
		if err != nil {
			return err
		}
		all = append(all, m.cleaning(p.serial(i), id), func(ctx context.Context) (values, error) { return m.blkdiscard(ctx, blkdiscard, p.serial(i)) })
	}
	b.progress("nvme: zeroing of drives of %d and %d MiB, %d rounds", p.sizes[0]>>20, p.sizes[1]>>20, b.guestRounds)
	got, err := interleave(ctx, exactly(b.guestRounds), all...)
	if err != nil {
		return err
	}
	limit := "without a limit"
	if p.rate > 0 {
		limit = fmt.Sprintf("of %d MiB/s", p.rate>>20)
	}
	ours, theirs := make([]float64, b.guestRounds), make([]float64, b.guestRounds) // what the larger drive took longer
	for i, size := range p.sizes {
		step, base := got[2*i]["zero"], got[2*i+1]["zero"]
		b.add(compared(fmt.Sprintf("zero, an NVMe drive of %d MiB %s (baseline: blkdiscard -z)", size>>20, limit), "s",
			median(step), median(base), pairedRatio(step, base)))
		for round := range ours {
			sign := float64(2*i - 1)
			ours[round], theirs[round] = ours[round]+sign*step[round], theirs[round]+sign*base[round]
		}
	}
	more := float64((p.sizes[1] - p.sizes[0]) >> 20)
	rate := compared("  rate of what the larger has more", "MiB/s", more/median(ours), more/median(theirs), pairedRatio(theirs, ours))
	if p.rate > 0 {
		b.add(rate.ratioAtLeast(minWriteZeroesRatio))
		return nil
	}
	chunk := float64(steps.Chunk>>20) / more * 1000
	b.add(rate, compared("  time of a chunk of 64 MiB", "ms", median(ours)*chunk, median(theirs)*chunk, pairedRatio(ours, theirs)))
	return nil
}

// noteLostCommands says that the emulator did not carry out commands of a drive. QEMU 7.2 was seen to do so
// with a drive that has a limit, while others were reset: it was idle, and the guest's kernel
// aborted the commands after 30 s and reset the controller after 60, and again, until the drive went
// on two minutes later.
func (b *bench) noteLostCommands(m *machine) {
	if lost := strings.Count(m.Console(), "timeout, aborting"); lost > 0 {
		b.note("nvme: the emulator lost %d commands of drives, which the guest's kernel aborted after 30 s: the times of those drives say nothing", lost)
	}
}

// concurrentCleans measures as many cleans at once as the host may run, compared with one.
func (b *bench) concurrentCleans(ctx context.Context, m *machine) error {
	b.progress("nvme: %d drives, one and then all at once", b.slowDrives)
	ids := make([]string, b.slowDrives)
	if err := parallel(len(ids), func(i int) (err error) {
		ids[i], err = m.enrollDrive(ctx, slowSerial(i))
		return err
	}); err != nil {
		return err
	}
	one, err := m.cleaned(ctx, slowSerial(0), ids[0])
	if err != nil {
		return err
	}
	cleans := make([]contract.CleanSummary, len(ids))
	if err := parallel(len(ids), func(i int) (err error) {
		cleans[i], err = m.cleaned(ctx, slowSerial(i), ids[i])
		return err
	}); err != nil {
		return err
	}
	var starts, ends []time.Time
	var ran time.Duration
	for _, c := range cleans {
		starts, ends, ran = append(starts, c.StartedAt), append(ends, c.EndedAt), ran+c.RunTime
	}
	slices.SortFunc(starts, time.Time.Compare)
	slices.SortFunc(ends, time.Time.Compare)
	last := len(cleans) - 1
	whole, together := ends[last].Sub(starts[0]).Seconds(), ends[0].Sub(starts[last]).Seconds()
	if together <= 0 {
		return fmt.Errorf("the %d drives were never in state cleaning together: the last began %.1f s after the first had ended", len(cleans), -together)
	}
	b.note("nvme: %d drives of one host, %d MiB at %d MiB/s each, all in cleaning together for %.1f s; their steps ran for %.1f s in %.1f s",
		len(cleans), b.slowSize>>20, b.slowRate>>20, together, ran.Seconds(), whole)
	b.add(counted(fmt.Sprintf("%d NVMe drives cleaned at once (baseline: one)", len(cleans)), "s", whole, one.EndedAt.Sub(one.StartedAt).Seconds()))
	return nil
}

// boot starts server, control and guest until the end of the part.
func (b *bench) boot(ctx context.Context, programs ...string) (*machine, error) {
	b.progress("nvme: booting a guest")
	b.note("nvme: a guest in software emulation, with its own kernel and nvme-cli; %d rounds; blkdiscard -z in the same boot, in turn", b.guestRounds)
	// Verification is sampled: reading everything back is not measured here.
	i, err := b.install(ctx, "guest", "BURNISH_VERIFY=sample:1000")
	if err != nil {
		return nil, err
	}
	i.pollEvery = time.Second
	m := &machine{installation: i, host: fmt.Sprintf("bench-%d-machine", os.Getpid())}
	dir, err := b.folder("guest", "machine")
	if err != nil {
		return nil, err
	}
	var controllers []guest.Controller
	add := func(serial string, size, rate int64) {
		controllers = append(controllers, guest.Controller{
			Serial: serial, Address: fmt.Sprintf("0000:00:%02x.0", 2+len(controllers)), // every free slot
			Namespaces: []guest.Namespace{{Image: filepath.Join(dir, serial+".img"), Size: size, WriteBytesPerSecond: rate}},
		})
	}
	for _, p := range []drivePair{b.free, b.limited} {
		for i, size := range p.sizes {
			add(p.serial(i), size, p.rate)
		}
	}
	for i := range b.slowDrives {
		add(slowSerial(i), b.slowSize, b.slowRate)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bootWithin, fmt.Errorf("the guest's boot takes longer than %s", bootWithin))
	defer cancel()
	m.Guest, err = guest.Start(ctx, guest.Config{
		Dir: dir, Controllers: controllers, Worker: b.programs.Worker, Programs: programs, MemoryMB: 1024,
		HostYAML: `allow: {device_spec: [{vendor_id: "1b36", product_id: "0010"}]}`,
		Env: map[string]string{
			"TEMPORAL_ADDRESS": fmt.Sprintf("%s:%d", guest.Host, i.Server.Port), "BURNISH_ROLE": "host", "BURNISH_HOST": m.host,
			"BURNISH_DRIVERS": "nvme", "BURNISH_MAX_CLEANS_PER_HOST": fmt.Sprint(b.slowDrives),
		},
	})
	if m.Guest != nil {
		b.atEnd(m.Kill)
	}
	if err != nil {
		return nil, err
	}
	return m, m.WaitReady(ctx)
}

// enrollDrive enrolls the drive with this serial and waits for its first clean.
func (m *machine) enrollDrive(ctx context.Context, serial string) (id string, err error) {
	err = m.drive(ctx, serial, "to be enrolled and cleaned", func(ctx context.Context) (err error) {
		id, err = m.enroll(ctx, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
			Name: m.name(serial), Host: m.host, Address: m.Address(serial), Driver: "nvme", Type: "NVME", Owner: device.OwnerSelf,
		}})
		return err
	})
	return id, err
}

// name is that of the device with this serial.
func (m *machine) name(serial string) string { return m.host + "_" + m.Address(serial) }

// blkdiscard is the baseline on this drive while it is available: seconds by the guest's clock.
func (m *machine) blkdiscard(ctx context.Context, program, serial string) (values, error) {
	var out guest.Output
	err := within(ctx, commandWithin, "blkdiscard of drive "+serial, m.ended, func() string { return m.evidence(serial) }, func(ctx context.Context) error {
		disks, err := m.Disks(ctx, serial)
		if err != nil || len(disks) != 1 {
			return errors.Join(err, fmt.Errorf("drive %s has %d disks", serial, len(disks)))
		}
		out, err = m.Run(ctx, "cut -d ' ' -f 1 /proc/uptime && "+program+" -z "+disks[0]+" && cut -d ' ' -f 1 /proc/uptime")
		return err
	})
	if err != nil {
		return nil, err
	}
	var began, ended float64
	if _, err := fmt.Sscan(out.Stdout, &began, &ended); err != nil {
		return nil, fmt.Errorf("the guest's clock reads %q: %w", out.Stdout, err)
	}
	return values{"zero": ended - began}, nil
}
