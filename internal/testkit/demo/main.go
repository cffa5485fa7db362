// Command demo shows Burnish at work on one machine: a real Temporal server, a real
// worker, four files full of a tenant's bytes and four simulated devices of other
// kinds go through bind, burn, unbind, clean and return, with a kill -9 in
// mid-wipe; it asserts what it prints. With -up it leaves server and worker running,
// with -down it ends them. It needs no root and touches nothing outside its folder,
// but for the file named with -device.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
)

func main() {
	up := flag.Bool("up", false, "start server and worker and leave them running")
	down := flag.Bool("down", false, "end what -up started")
	target := flag.String("device", "", "also wipe this file of yours: its contents are lost")
	bin := flag.String("bin", "bin", "the folder with the built programs")
	dir := flag.String("dir", "run", "the folder to work in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("%q is not known; see -help", flag.Arg(0))
	case *up:
		err = goUp(ctx, *bin, filepath.Join(*dir, "up"))
	case *down:
		err = goDown(filepath.Join(*dir, "up"))
	default:
		err = demonstrate(ctx, *bin, *dir, *target)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demonstrate(ctx context.Context, bin, dir, target string) (err error) {
	began := time.Now()
	place, note, err := workPlace(ctx, filepath.Join(dir, "demo"))
	if err != nil {
		return err
	}
	if note != "" {
		fmt.Println(note)
	}
	s := &site{bin: bin, dir: place, host: "demo"}
	defer func() {
		err = errors.Join(err, s.stop(), os.RemoveAll(place))
		if err == nil {
			fmt.Printf("\nEvery assertion held. What was started is stopped; %.0f s.\n", time.Since(began).Seconds())
		}
	}()
	if err := s.start(ctx); err != nil {
		return err
	}
	return tell(ctx, s, target)
}

// workPlace makes an empty folder on a file system that overwrites in place; where
// the wanted one is not on such a file system it is one in memory, and says so.
func workPlace(ctx context.Context, wanted string) (place, note string, err error) {
	wanted, err = filepath.Abs(wanted)
	if err != nil {
		return "", "", err
	}
	if err := os.RemoveAll(wanted); err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(wanted, 0o700); err != nil {
		return "", "", err
	}
	refused := probe(ctx, wanted)
	if refused == nil {
		return wanted, "", nil
	}
	var f *device.Fault
	if !errors.As(refused, &f) || f.Code != device.CodeOverwriteUnsupported {
		return "", "", refused
	}
	place, err = os.MkdirTemp("/dev/shm", "burnish-demo-")
	if err != nil {
		return "", "", fmt.Errorf("%w, and there is no place in memory either: %w", refused, err)
	}
	return place, fmt.Sprintf("%s: %s.\nThe demo works in memory instead: %s", wanted, f.Message, place), nil
}

// probe asks the block driver itself whether it would wipe a file in dir.
func probe(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "probe")
	if err := os.WriteFile(path, make([]byte, hardware.Align), 0o600); err != nil {
		return err
	}
	_, err := block.New(anything{}).Discover(ctx,
		hardware.Target{Name: "probe", Driver: "block", Settings: map[string]string{"path": path}}, device.Identity{})
	return errors.Join(err, os.Remove(path))
}

// anything lets the probe look at a file that it has just made.
type anything struct{}

func (anything) AllowPath(string) error { return nil }

func goUp(ctx context.Context, bin, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	s := &site{bin: bin, dir: dir, host: "demo", stays: true}
	if running, err := s.running(); err != nil || running {
		return errors.Join(err, errors.New("it is up already; make down ends it"))
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return errors.Join(err, s.stop())
	}
	fmt.Printf(`
Up. In this shell:
  export TEMPORAL_ADDRESS=%s PATH=%s:$PATH
  burnish enroll d1 --host demo --driver fake --provide
  burnish list
Files below %s may be enrolled with --driver block --set path=…
make down ends it; devices and their history stay in %s.
`, s.address, absolute(bin), filepath.Join(dir, "files"), dir)
	return nil
}

func goDown(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	s := &site{dir: dir, stays: true}
	running, err := s.running()
	if err != nil {
		return err
	}
	if !running {
		fmt.Println("Nothing is up.")
		return nil
	}
	if err := s.stop(); err != nil {
		return err
	}
	fmt.Println("Down.")
	return nil
}

func absolute(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}
