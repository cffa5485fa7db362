package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
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
	// What a step does once, whatever the size, is in the time of both: their difference is the rate.
	sizes := [2]int64{64 << 20, scale[int64](b, 1<<30, 320<<20)}
	m, err := b.boot(ctx, blkdiscard, sizes, scale[int64](b, 128<<20, 64<<20))
	if err != nil {
		return err
	}
	if err = b.zeroing(ctx, m, sizes); err == nil {
		err = b.cleansAtOnce(ctx, m)
	}
	if err != nil {
		end := func(log string) string { return log[max(0, len(log)-1500):] }
		return fmt.Errorf("%w\nthe guest's worker: %s\nits console: %s", err, end(m.WorkerLog()), end(m.Console()))
	}
	// QEMU 7.2 was seen to lose commands of drives that have a limit; the guest's kernel aborts them.
	if lost := strings.Count(m.Console(), "timeout, aborting"); lost > 0 {
		b.note("nvme: the emulator lost %d commands of drives: the times of those say nothing", lost)
	}
	return nil
}

func limitedSerial(i int) string { return fmt.Sprintf("LIMITED%d", i) }
func slowSerial(i int) string    { return fmt.Sprintf("SLOW%d", i) }

// boot starts server, control and guest until the end of the part.
func (b *bench) boot(ctx context.Context, blkdiscard string, sizes [2]int64, slowSize int64) (*machine, error) {
	b.progress("nvme: booting a guest")
	// Verification is sampled: reading everything back is not measured here.
	p, err := b.installation(ctx, "guest", "BURNISH_VERIFY=sample:1000")
	if err != nil {
		return nil, err
	}
	p.pollEvery = time.Second // rarely: the guest has little processor time
	m := &machine{place: p, blkdiscard: blkdiscard}
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
	for i, size := range sizes {
		add(limitedSerial(i), size, limitedRate)
	}
	for i := range slowDrives {
		add(slowSerial(i), slowSize, slowRate)
	}
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
	if err != nil {
		return nil, err
	}
	return m, m.WaitReady(ctx)
}

func (m *machine) machineHost() string { return m.Host + "-machine" }

// enrollDrive enrolls the drive with this serial and waits for its first clean.
func (m *machine) enrollDrive(ctx context.Context, serial string) (id string, err error) {
	address := m.Address(serial)
	return m.enroll(ctx, contract.EnrollInput{Provide: true, Enrollment: contract.Enrollment{
		Name: m.machineHost() + "_" + address, Host: m.machineHost(), Address: address,
		Driver: "nvme", Type: "NVME", Owner: device.OwnerSelf,
	}})
}

// zeroing measures two drives of different sizes, whose speed is limited, as every real drive's is.
func (b *bench) zeroing(ctx context.Context, m *machine, sizes [2]int64) error {
	var all []measurement
	for i := range sizes {
		serial := limitedSerial(i)
		id, err := m.enrollDrive(ctx, serial)
		if err != nil {
			return err
		}
		all = append(all, func(ctx context.Context) (values, error) {
			clean, err := m.cleaned(ctx, id)
			return values{took: runTime(clean, "zero").Seconds()}, err
		}, func(ctx context.Context) (values, error) { return m.discarded(ctx, serial) })
	}
	rounds := scale(b, 3, 1)
	b.progress("nvme: zeroing of drives of %d and %d MiB, %d rounds", sizes[0]>>20, sizes[1]>>20, rounds)
	got, err := interleave(ctx, rounds, all...)
	if err != nil {
		return err
	}
	more := float64((sizes[1] - sizes[0]) >> 20)
	rate := func(i int) (rates []float64) {
		for round := range rounds {
			rates = append(rates, more/(got[2+i][took][round]-got[i][took][round]))
		}
		return rates
	}
	name := fmt.Sprintf("rate of zero, an NVMe drive of %d MiB/s (baseline: blkdiscard -z)", limitedRate>>20)
	b.add(compared(name, "MiB/s", rate(0), rate(1)).ratioAtLeast(minWriteZeroesRatio))
	return nil
}

// discarded is the baseline on this drive while it is available: seconds by the guest's clock.
func (m *machine) discarded(ctx context.Context, serial string) (values, error) {
	disks, err := m.Disks(ctx, serial)
	if err != nil || len(disks) != 1 {
		return nil, errors.Join(err, fmt.Errorf("it has %d disks", len(disks)))
	}
	const clock = "cut -d ' ' -f 1 /proc/uptime"
	out, err := m.Run(ctx, clock+" && "+m.blkdiscard+" -z "+disks[0]+" && "+clock)
	if err != nil {
		return nil, err
	}
	var began, ended float64
	if _, err := fmt.Sscan(out.Stdout, &began, &ended); err != nil {
		return nil, fmt.Errorf("the guest's clock reads %q: %w", out.Stdout, err)
	}
	return values{took: ended - began}, nil
}

// cleansAtOnce measures that as many drives are cleaned together as the host may clean.
func (b *bench) cleansAtOnce(ctx context.Context, m *machine) error {
	b.progress("nvme: %d drives at once", slowDrives)
	ids, cleans := make([]string, slowDrives), make([]contract.CleanSummary, slowDrives)
	if err := parallel(slowDrives, slowDrives, func(i int) (err error) {
		ids[i], err = m.enrollDrive(ctx, slowSerial(i))
		return err
	}); err != nil {
		return err
	}
	if err := parallel(slowDrives, slowDrives, func(i int) (err error) {
		cleans[i], err = m.cleaned(ctx, ids[i])
		return err
	}); err != nil {
		return err
	}
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
	return nil
}
