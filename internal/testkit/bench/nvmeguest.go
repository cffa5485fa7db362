package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"burnish/internal/clean/steps"
	"burnish/internal/testkit/guest"
	"burnish/workflows/contract"
)

// writeZeroesAtLeast is the rate of the step zero by a drive's own Write Zeroes, to that
// of blkdiscard -z.
const writeZeroesAtLeast = 0.95

// guestScale is how much is measured in a guest: emulation is slow.
type guestScale struct {
	free, limited pair
	rounds        int
	several       int   // drives that are cleaned at once
	each, rate    int64 // their size, and the bytes a second that each writes
}

// pair is two drives that write so many bytes a second, 0 without a limit. What a step
// does once, whatever the size, is in the times of both; the difference is the rate.
type pair struct {
	name         string // of its serials
	small, large int64
	rate         int64
}

func (p pair) serials() []string { return []string{p.name + "0", p.name + "1"} }

func (p pair) size(i int) int64 { return []int64{p.small, p.large}[i] }

// guestWithin bounds the boot of a guest.
const guestWithin = 3 * time.Minute

// machine is a guest whose worker cleans its drives, with control and server here.
type machine struct {
	*wiper
	*guest.Guest
	host string
}

// guestDrives measures the step zero by the driver nvme on a machine of its own, with a
// real kernel and a real nvme-cli, against blkdiscard -z on the same drive in the same
// boot, in turn; and how several drives of one host are cleaned at once.
func (b *bench) guestDrives(ctx context.Context) (err error) {
	why := guest.Missing()
	blkdiscard, lookErr := exec.LookPath("blkdiscard")
	if why == "" && lookErr != nil {
		why = "no blkdiscard (package util-linux)"
	}
	if why != "" {
		b.note("nvme: zeroing in a guest is skipped: %s", why)
		return nil
	}
	m, err := b.machine(ctx, blkdiscard)
	if m != nil {
		defer func() { err = errors.Join(err, m.stop()) }()
	}
	if err != nil {
		return err
	}
	for _, p := range []pair{b.drives.guest.free, b.drives.guest.limited} {
		if err := b.zeroing(ctx, m, p, blkdiscard); err != nil {
			return err
		}
	}
	return b.several(ctx, m)
}

// zeroing measures the drives of a pair. Only one whose own speed limits it is bound: the
// others have none, which no real drive has.
func (b *bench) zeroing(ctx context.Context, m *machine, p pair, blkdiscard string) error {
	var step, base [2][]float64
	for _, serial := range p.serials() {
		if err := m.take(ctx, serial); err != nil {
			return err
		}
	}
	rounds := b.drives.guest.rounds
	for round := range rounds {
		for i, serial := range p.serials() {
			took, err := m.turnover(ctx, m.device(serial))
			if err != nil {
				return err
			}
			alone, err := m.blkdiscard(ctx, blkdiscard, serial)
			if err != nil {
				return err
			}
			say(b.began, "nvme: round %d of %d: %d MiB: zero %.2f s, blkdiscard -z %.2f s", round+1, rounds, p.size(i)>>20, took["zero"].Seconds(), alone.Seconds())
			step[i], base[i] = append(step[i], took["zero"].Seconds()), append(base[i], alone.Seconds())
		}
	}
	limit := "without a limit"
	if p.rate > 0 {
		limit = fmt.Sprintf("of %d MiB/s", p.rate>>20)
	}
	for i := range step {
		b.add(timed(fmt.Sprintf("zero, an NVMe drive of %d MiB %s (baseline: blkdiscard -z)", p.size(i)>>20, limit), "s",
			median(step[i]), median(base[i]), ratioOfRounds(step[i], base[i])))
	}
	var ours, theirs []float64
	for n := range rounds {
		ours, theirs = append(ours, step[1][n]-step[0][n]), append(theirs, base[1][n]-base[0][n])
	}
	more := float64(p.large-p.small) / (1 << 20)
	rate := timed("  rate of what the larger has more", "MiB/s", more/median(ours), more/median(theirs), ratioOfRounds(theirs, ours))
	if p.rate > 0 {
		rate = rate.ratioAtLeast(writeZeroesAtLeast)
	}
	b.add(rate)
	if p.rate == 0 {
		chunk := float64(steps.Chunk>>20) / more * 1000
		b.add(timed("  time of a chunk of 64 MiB", "ms", median(ours)*chunk, median(theirs)*chunk, ratioOfRounds(ours, theirs)))
	}
	return nil
}

// several measures as many cleans at once as the host may run, against one.
func (b *bench) several(ctx context.Context, m *machine) error {
	s := b.drives.guest
	var names []string
	for i := range s.several {
		names = append(names, m.device(slow(i)))
	}
	say(b.began, "nvme: enrolling %d drives", s.several)
	if err := together(s.several, func(i int) error { return m.take(ctx, slow(i)) }); err != nil {
		return err
	}
	last := func(name string) (contract.CleanSummary, error) {
		if _, err := m.turnover(ctx, name); err != nil {
			return contract.CleanSummary{}, err
		}
		v, err := m.show(ctx, name)
		if err != nil {
			return contract.CleanSummary{}, err
		}
		return v.Cleans[len(v.Cleans)-1], nil
	}
	say(b.began, "nvme: one of %d drives", s.several)
	one, err := last(names[0])
	if err != nil {
		return err
	}
	say(b.began, "nvme: %d drives at once", s.several)
	all := make([]contract.CleanSummary, len(names))
	if err := together(len(names), func(i int) (err error) {
		all[i], err = last(names[i])
		return err
	}); err != nil {
		return err
	}
	// The last to begin and the first to end say whether all were under way together.
	first, began, ended, end := all[0].StartedAt, all[0].StartedAt, all[0].EndedAt, all[0].EndedAt
	var ran time.Duration
	for _, c := range all {
		ran += c.RunTime
		if c.StartedAt.Before(first) {
			first = c.StartedAt
		}
		if c.StartedAt.After(began) {
			began = c.StartedAt
		}
		if c.EndedAt.Before(ended) {
			ended = c.EndedAt
		}
		if c.EndedAt.After(end) {
			end = c.EndedAt
		}
	}
	together := ended.Sub(began).Seconds()
	if together <= 0 {
		return fmt.Errorf("the %d drives were never in cleaning all at once: the last began %.1f s after the first had ended", s.several, -together)
	}
	whole := end.Sub(first)
	b.note("nvme: %d drives of one host, %d MiB at %d MiB/s each, all in cleaning together for %.1f s; their steps ran for %.1f s in %.1f s",
		s.several, s.each>>20, s.rate>>20, together, ran.Seconds(), whole.Seconds())
	b.add(counted(fmt.Sprintf("%d NVMe drives cleaned at once (baseline: one)", s.several), "s", whole.Seconds(), one.EndedAt.Sub(one.StartedAt).Seconds()))
	return nil
}

// slow is the serial of one of the drives that are cleaned at once.
func slow(i int) string { return fmt.Sprintf("SLOW%d", i) }

// machine starts server, control and guest. What it gives is to be stopped, also beside
// an error.
func (b *bench) machine(ctx context.Context, programs ...string) (*machine, error) {
	say(b.began, "nvme: booting a guest")
	b.note("nvme: a guest in software emulation, with its own kernel and nvme-cli; %d rounds; blkdiscard -z in the same boot, in turn", b.drives.guest.rounds)
	// Sampled: reading back whole is not what is measured here.
	w, err := b.wiper("guest", "BURNISH_VERIFY=sample:1000")
	if err != nil {
		return nil, err
	}
	w.every = time.Second // each look takes time from the guest
	m := &machine{wiper: w, host: fmt.Sprintf("bench-guest-%d", os.Getpid())}
	s := b.drives.guest
	dir := filepath.Join(b.dir, "guest", "machine")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, err
	}
	drive := func(serial string, size, rate int64) guest.Controller {
		ns := guest.Namespace{Image: filepath.Join(dir, serial+".img"), Size: size, WriteBytesPerSecond: rate}
		return guest.Controller{Serial: serial, Namespaces: []guest.Namespace{ns}}
	}
	var controllers []guest.Controller
	for _, p := range []pair{s.free, s.limited} {
		for i, serial := range p.serials() {
			controllers = append(controllers, drive(serial, p.size(i), p.rate))
		}
	}
	for i := range s.several {
		controllers = append(controllers, drive(slow(i), s.each, s.rate))
	}
	for i := range controllers {
		controllers[i].Address = fmt.Sprintf("0000:00:%02x.0", 2+i) // all slots that there are
	}
	_, port, _ := strings.Cut(w.server.address, ":")
	ctx, cancel := context.WithTimeout(ctx, guestWithin)
	defer cancel()
	m.Guest, err = guest.Start(ctx, guest.Config{
		Dir: dir, Controllers: controllers, Worker: filepath.Join(b.bin, "burnish-worker"), Programs: programs, MemoryMB: 1024,
		HostYAML: `allow: {device_spec: [{vendor_id: "1b36", product_id: "0010"}]}`,
		Env: map[string]string{
			"TEMPORAL_ADDRESS": guest.Host + ":" + port, "BURNISH_ROLE": "host", "BURNISH_HOST": m.host, "BURNISH_DRIVERS": "nvme",
			"BURNISH_MAX_CLEANS_PER_HOST": fmt.Sprint(s.several),
		},
	})
	if err != nil {
		return m, err
	}
	return m, m.WaitReady(ctx)
}

// stop cuts the guest's power, and ends the others in order.
func (m *machine) stop() error {
	if m.Guest != nil {
		m.Kill()
	}
	return m.wiper.stop()
}

func (m *machine) device(serial string) string { return m.host + "_" + m.Address(serial) }

// take enrols the drive with this serial and waits for its first clean.
func (m *machine) take(ctx context.Context, serial string) error {
	return m.wiper.take(ctx, m.device(serial), m.host, "--driver", "nvme", "--address", m.Address(serial))
}

// blkdiscard is the baseline on the disk of this drive, which no clean holds now, and
// gives its time by the guest's own clock.
func (m *machine) blkdiscard(ctx context.Context, program, serial string) (time.Duration, error) {
	disks, err := m.Disks(ctx, serial)
	if err != nil || len(disks) != 1 {
		return 0, errors.Join(err, fmt.Errorf("drive %s has %d disks", serial, len(disks)))
	}
	out, err := m.Run(ctx, "cut -d ' ' -f 1 /proc/uptime && "+program+" -z "+disks[0]+" && cut -d ' ' -f 1 /proc/uptime")
	if err != nil {
		return 0, err
	}
	var began, ended float64
	if _, err := fmt.Sscan(out.Stdout, &began, &ended); err != nil {
		return 0, fmt.Errorf("the guest's clock says %q: %w", out.Stdout, err)
	}
	return time.Duration((ended - began) * float64(time.Second)), nil
}
