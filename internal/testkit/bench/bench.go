package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"burnish/internal/testkit/site"
)

// The bounds that a build must keep (docs/bench.md). Ratios are product to baseline.
const (
	maxLatencyRatio    = 0.55
	minThroughputRatio = 1.10
	maxEvents          = 36
	maxActivities      = 1 // the step zero, which verify follows
	maxUpserts         = 3
	maxIdleEvents      = 15
	maxIdleMemory      = 40   // KiB a device
	boundedDevices     = 3000 // at least, so that this bound counts

	minDiskRatio  = 1.0 // of the rate of zero and verify, to dd's
	maxWipeMemory = 100 // MiB above idle

	maxDiscoverySeconds = 1    // that the driver adds to nvme-cli
	minWriteZeroesRatio = 0.95 // of the rate, to that of blkdiscard -z

	maxBindRatio       = 1.3
	maxInFlight        = 8
	extraRequests      = 10 // of a reconciliation, beside one for each enrolled and allocated device
	maxFreeRequests    = 20
	maxUnchangedEvents = 0    // in the histories of unchanged devices
	maxFirstStep       = 1000 // milliseconds, p95
)

// scale is how much is measured.
type scale struct {
	warmUp     timeBox // turnovers of one device before those that count
	latency    timeBox
	fleet      int     // devices that turn over concurrently
	throughput timeBox // rounds of loadCycles turnovers of the fleet
	loadCycles int
	idle       int // devices for the memory
	idleTime   time.Duration

	file       int64 // size of the one file that is wiped
	fileRounds int
	wipes      int   // concurrent wipes for the memory
	wipeSize   int64 // of each of their files

	controllers, discoveries int // emulated, and rounds
	free, limited            drivePair
	guestRounds              int
	slowDrives               int   // cleaned concurrently in the guest
	slowSize, slowRate       int64 // of each, in bytes and bytes a second

	bindWarmUp, bindRounds timeBox
	providers              int // of one-time-use devices that a reconciliation reads
	enrolled               int // how many of them are Burnish's
	notifications          int // rounds

	slotDevices, slots int           // that are cleaned, and how many at once
	slotWork           time.Duration // of each clean

	apiDevices int // that the API lists
	apiRounds  int // of a first page and one device
	readRounds int // of binds without and with readers

	poolServers int // of the appliance that is polled
	poolBinds   int // before, and twice as many during the rounds

	instanceRounds timeBox // of binds of one and of several devices

	peerWarmUp, peerRounds timeBox // of one device, beside Ironic
	peerFleets             []int   // devices at once, beside Ironic; the bounds are those of the last
	peerLoads              timeBox // rounds of peerCycles turnovers of each device of a fleet
	peerCycles             int

	fleetDevices, fleetHosts int
	fleetTime                time.Duration // to start them
	fleetAtOnce, fleetFew    int           // devices of the fleet that turn over together
	fleetRounds              int           // of fleetAtOnce turnovers, by all of them and by the few
	fleetStarts, fleetLists  int

	serverRounds int           // whole cleans of a server over Redfish
	serverPOST   time.Duration // its time for POST; the rest of its work is in proportion
}

func fullScale() scale {
	return scale{
		warmUp: exactly(24), latency: timeBox{50, 250, 40 * time.Second},
		fleet: 100, throughput: timeBox{4, 10, 50 * time.Second}, loadCycles: 100,
		idle: 5000, idleTime: 4 * time.Minute,
		file: 8 << 30, fileRounds: 9, wipes: 8, wipeSize: 1 << 30,
		controllers: 64, discoveries: 3, guestRounds: 3, slowDrives: 8, slowSize: 128 << 20, slowRate: 16 << 20,
		free:       drivePair{name: "FREE", sizes: [2]int64{512 << 20, 4 << 30}},
		limited:    drivePair{name: "LIMITED", sizes: [2]int64{64 << 20, 1 << 30}, rate: 64 << 20},
		bindWarmUp: exactly(10), bindRounds: timeBox{50, 150, 60 * time.Second},
		providers: 1000, enrolled: 50, notifications: 40,
		slotDevices: 1000, slots: 50, slotWork: 20 * time.Second,
		poolServers: 10000, poolBinds: 30, apiDevices: 10000, apiRounds: 60, readRounds: 8,
		serverRounds: 4, serverPOST: 4 * time.Second, instanceRounds: exactly(12),
		peerWarmUp: exactly(10), peerRounds: timeBox{50, 150, 60 * time.Second}, peerFleets: []int{20, 100}, peerLoads: exactly(enoughRounds), peerCycles: 2,
		fleetDevices: 10000, fleetHosts: 200, fleetTime: 10 * time.Minute, fleetAtOnce: 1000, fleetFew: 100, fleetRounds: 2, fleetStarts: 5, fleetLists: 5,
	}
}

func quickScale() scale {
	return scale{
		warmUp: exactly(5), latency: timeBox{10, 40, 5 * time.Second},
		fleet: 20, throughput: timeBox{1, 2, 5 * time.Second}, loadCycles: 20,
		idle: 300, idleTime: time.Minute,
		file: 512 << 20, fileRounds: 2, wipes: 8, wipeSize: 64 << 20,
		controllers: 8, discoveries: 2, guestRounds: 1, slowDrives: 8, slowSize: 64 << 20, slowRate: 16 << 20,
		free:       drivePair{name: "FREE", sizes: [2]int64{512 << 20, 2 << 30}},
		limited:    drivePair{name: "LIMITED", sizes: [2]int64{64 << 20, 320 << 20}, rate: 64 << 20},
		bindWarmUp: exactly(3), bindRounds: timeBox{10, 20, 5 * time.Second},
		providers: 100, enrolled: 8, notifications: 5,
		slotDevices: 30, slots: 5, slotWork: 20 * time.Second,
		poolServers: 1000, poolBinds: 10, apiDevices: 1000, apiRounds: 15, readRounds: 3,
		serverRounds: 1, serverPOST: 2 * time.Second, instanceRounds: exactly(4),
		peerWarmUp: exactly(3), peerRounds: timeBox{10, 20, 5 * time.Second}, peerFleets: []int{5, 20}, peerLoads: exactly(1), peerCycles: 2,
		fleetDevices: 1000, fleetHosts: 20, fleetTime: 3 * time.Minute, fleetAtOnce: 100, fleetFew: 20, fleetRounds: 1, fleetStarts: 3, fleetLists: 5,
	}
}

// bench is one run of the program.
type bench struct {
	scale
	programs      site.Programs
	dir, profiles string
	against       string // another build of this program; "" means none
	began         time.Time
	result        result
	stops         []func() error
}

func newBench(o options, dir string) (*bench, error) {
	b := &bench{scale: fullScale(), dir: dir, profiles: o.profiles, against: o.against, began: time.Now()}
	if o.quick {
		b.scale = quickScale()
	}
	var err error
	b.programs, err = site.Built(o.bin)
	return b, err
}

// run measures one part, or all where only is "".
func (b *bench) run(ctx context.Context, only string) error {
	b.note("%d processors, load %s at the start", runtime.NumCPU(), loadAverage())
	defer func() { b.note("load %s at the end; %.0f s in all", loadAverage(), time.Since(b.began).Seconds()) }()
	for i, measure := range []func(context.Context) error{b.turnovers, b.disk, b.nvme, b.placement, b.redfish, b.limits, b.oneview, b.api, b.instances, b.peers, b.largeFleet, b.commands} {
		if only != "" && only != parts[i] {
			continue
		}
		if err := errors.Join(measure(ctx), b.stop()); err != nil {
			return err
		}
	}
	return nil
}

// atEnd has stop called at the end of the part.
func (b *bench) atEnd(stop func() error) { b.stops = append(b.stops, stop) }

// stop ends everything that was started, the latest first. It may be called again.
func (b *bench) stop() error {
	var errs []error
	for i := len(b.stops) - 1; i >= 0; i-- {
		errs = append(errs, b.stops[i]())
	}
	b.stops = nil
	return errors.Join(errs...)
}

// folder creates a folder for one purpose.
func (b *bench) folder(name ...string) (string, error) {
	dir := filepath.Join(append([]string{b.dir}, name...)...)
	return dir, os.MkdirAll(dir, 0o700)
}

// server starts a Temporal server with a database of its own.
func (b *bench) server(ctx context.Context, dir string) (*site.Server, error) {
	s := &site.Server{Program: b.programs.Server, Dir: dir}
	err := s.Start(ctx)
	b.atEnd(func() error { return s.Process.Stop() })
	return s, err
}

func (b *bench) add(figures ...figure) { b.result.Figures = append(b.result.Figures, figures...) }

func (b *bench) note(format string, args ...any) {
	b.result.Notes = append(b.result.Notes, fmt.Sprintf(format, args...))
}

// progress says what is being measured.
func (b *bench) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// loadAverage is the machine's load over the last minute: how noisy the figures are.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
