package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
	"burnish/internal/testkit/must"
	"burnish/workflows/contract"
)

const (
	minWriteZeroesRatio = 0.95 // of the rate, to that of blkdiscard -z

	// The limit of the drives whose zeroing is measured, in bytes a second.
	limitedRate = 64 << 20
	// The drives that are cleaned at once, and their limit.
	slowDrives, slowRate = 8, 16 << 20
)

// machine is a guest whose worker cleans its drives. Server and control run outside of it.
type machine struct {
	*place
	*guest.Guest
	blkdiscard string
}

// guestDrives measures the step zero by the driver nvme in a guest, with a real kernel and
// a real nvme-cli, compared with blkdiscard -z on the same drive in the same boot; and how
// several drives of one host are cleaned concurrently.
func (b *bench) guestDrives(ctx context.Context) {
	missing := guest.Missing()
	blkdiscard, err := exec.LookPath("blkdiscard")
	if missing == "" && err != nil {
		missing = "no blkdiscard (package util-linux)"
	}
	if missing != "" {
		b.note("nvme: zeroing in a guest is skipped: %s", missing)
		return
	}
	// What a step does once, whatever the size, is in the time of both: their difference is the rate.
	sizes := [2]int64{64 << 20, scale[int64](b, 1<<30, 320<<20)}
	m := b.boot(ctx, blkdiscard, sizes, scale[int64](b, 128<<20, 64<<20))
	err = must.Try(func() { b.zeroing(ctx, m, sizes); b.cleansAtOnce(ctx, m) })
	end := func(log string) string { return log[max(0, len(log)-1500):] }
	must.Be(err == nil, "%w\nthe guest's worker: %s\nits console: %s", err, end(m.WorkerLog()), end(m.Console()))
	// QEMU 7.2 was seen to lose commands of drives that have a limit; the guest's kernel aborts them.
	if lost := strings.Count(m.Console(), "timeout, aborting"); lost > 0 {
		b.note("nvme: the emulator lost %d commands of drives: the times of those say nothing", lost)
	}
}

func limitedSerial(i int) string { return fmt.Sprintf("LIMITED%d", i) }
func slowSerial(i int) string    { return fmt.Sprintf("SLOW%d", i) }

// boot starts server, control and guest until the end of the part.
func (b *bench) boot(ctx context.Context, blkdiscard string, sizes [2]int64, slowSize int64) *machine {
	b.progress("nvme: booting a guest")
	// Verification is sampled: reading everything back is not measured here.
	p := must.Get(b.installation(ctx, "guest", "BURNISH_VERIFY=sample:1000"))
	p.pollEvery = time.Second // rarely: the guest has little processor time
	m := &machine{place: p, blkdiscard: blkdiscard}
	dir := must.Get(b.folder("guest", "machine"))
	var controllers []guest.Controller
	add := func(serial string, size, rate int64) {
		controllers = append(controllers, guest.Controller{
			Serial: serial, Address: fmt.Sprintf("0000:00:%02x.0", 2+len(controllers)), // every free slot
			Namespaces: []guest.Namespace{{Image: filepath.Join(dir, serial+".img"), Size: size, WriteBytesPerSecond: rate}},
		})
	}
	for i, size := range sizes {
		add(limitedSerial(i), size, limitedRate)
	}
	for i := range slowDrives {
		add(slowSerial(i), slowSize, slowRate)
	}
	var err error
	m.Guest, err = guest.Start(ctx, guest.Config{
		Dir: dir, Controllers: controllers, Worker: b.programs.Worker, Programs: []string{blkdiscard}, MemoryMB: 1024,
		HostYAML: `allow: {device_spec: [{vendor_id: "1b36", product_id: "0010"}]}`,
		Env: map[string]string{
			"TEMPORAL_ADDRESS": fmt.Sprintf("%s:%d", guest.Host,
				p.Server.Port), "BURNISH_ROLE": "host", "BURNISH_HOST": m.machineHost(),
			"BURNISH_DRIVERS": "nvme", "BURNISH_MAX_CLEANS_PER_HOST": fmt.Sprint(slowDrives),
		},
	})
	if m.Guest != nil {
		b.atEnd(m.Kill)
	}
	must.Do(err)
	must.Do(m.WaitReady(ctx))
	return m
}

func (m *machine) machineHost() string { return m.Host + "-machine" }

// enrollDrive enrolls the drive with this serial and waits for its first clean.
func (m *machine) enrollDrive(ctx context.Context, serial string) (id string) {
	address := m.Address(serial)
	return must.Get(m.enroll(ctx, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
		Name: m.machineHost() + "_" + address, Host: m.machineHost(), Address: address,
		Driver: "nvme", Type: "NVME", Owner: device.OwnerSelf,
	}}))
}

// zeroing measures two drives of different sizes, whose speed is limited, as every real drive's is.
func (b *bench) zeroing(ctx context.Context, m *machine, sizes [2]int64) {
	var all []measurement
	for i := range sizes {
		serial := limitedSerial(i)
		id := m.enrollDrive(ctx, serial)
		all = append(all, func(ctx context.Context) (values, error) {
			return values{took: runTime(m.cleaned(ctx, id), "zero").Seconds()}, nil
		}, func(ctx context.Context) (values, error) { return values{took: m.discarded(ctx, serial)}, nil })
	}
	rounds := scale(b, 3, 1)
	b.progress("nvme: zeroing of drives of %d and %d MiB, %d rounds", sizes[0]>>20, sizes[1]>>20, rounds)
	got := must.Get(interleave(ctx, rounds, all...))
	more := float64((sizes[1] - sizes[0]) >> 20)
	rate := func(i int) (rates []float64) {
		for round := range rounds {
			rates = append(rates, more/(got[2+i][took][round]-got[i][took][round]))
		}
		return rates
	}
	name := fmt.Sprintf("rate of zero, an NVMe drive of %d MiB/s (baseline: blkdiscard -z)", limitedRate>>20)
	b.add(compared(name, "MiB/s", rate(0), rate(1)).ratioAtLeast(minWriteZeroesRatio))
}

// discarded is the baseline on this drive while it is available: seconds by the guest's clock.
func (m *machine) discarded(ctx context.Context, serial string) float64 {
	disks := must.Get(m.Disks(ctx, serial))
	must.Be(len(disks) == 1, "it has %d disks", len(disks))
	const clock = "cut -d ' ' -f 1 /proc/uptime"
	out := must.Get(m.Run(ctx, clock+" && "+m.blkdiscard+" -z "+disks[0]+" && "+clock))
	var began, ended float64
	_, err := fmt.Sscan(out.Stdout, &began, &ended)
	must.Be(err == nil, "the guest's clock reads %q: %w", out.Stdout, err)
	return ended - began
}

// cleansAtOnce measures that as many drives are cleaned together as the host may clean.
func (b *bench) cleansAtOnce(ctx context.Context, m *machine) {
	b.progress("nvme: %d drives at once", slowDrives)
	ids := collect(slowDrives, slowDrives, func(i int) string { return m.enrollDrive(ctx, slowSerial(i)) })
	cleans := collect(slowDrives, slowDrives, func(i int) contract.CleanSummary { return m.cleaned(ctx, ids[i]) })
	began, ended := cleans[0].StartedAt, cleans[0].EndedAt // the last that began, the first that ended
	for _, c := range cleans {
		began = later(began, c.StartedAt)
		if c.EndedAt.Before(ended) {
			ended = c.EndedAt
		}
	}
	together := ended.Sub(began).Seconds()
	b.add(single(fmt.Sprintf("time that %d NVMe drives of a host were all in cleaning", slowDrives), "s", together).
		bounded("> 0 s", together <= 0, true))
}
