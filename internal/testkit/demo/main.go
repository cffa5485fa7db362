// Command demo shows Burnish at work on one machine: a real Temporal server, a real
// worker, four files full of a tenant's bytes and four simulated devices of other
// kinds go through bind, burn, unbind, clean and return, with a kill -9 in
// mid-wipe; another user of a simulated appliance takes a server and frees it. It
// asserts what it prints. With -up it leaves server and worker running,
// with -down it ends them. It needs no root and touches nothing outside its folder,
// except the file named with -device.
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

	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

func main() {
	up := flag.Bool("up", false, "start server and worker and leave them running")
	down := flag.Bool("down", false, "end what -up started")
	target := flag.String("device", "", "also wipe this file of yours: its contents are lost")
	bin := flag.String("bin", "bin", "the folder with the built programs")
	dir := flag.String("dir", "run", "the folder to work in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *up, *down, *target, *bin, *dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, up, down bool, target, bin, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	programs, err := site.Built(bin)
	switch {
	case err != nil:
		return err
	case flag.NArg() > 0:
		return fmt.Errorf("%q is not known; see -help", flag.Arg(0))
	case up:
		return goUp(ctx, programs, filepath.Join(dir, "up"))
	case down:
		return goDown(ctx, filepath.Join(dir, "up"))
	}
	return show(ctx, programs, filepath.Join(dir, "demo"), target)
}

// show runs the whole demo in an empty folder, which is gone afterwards.
func show(ctx context.Context, programs site.Programs, wanted, target string) (err error) {
	began := time.Now()
	dir, reason, err := site.InPlaceDir(ctx, wanted)
	if err != nil {
		return err
	}
	if reason != "" {
		fmt.Printf("%s: %s.\nThe demo works in memory instead: %s\n", wanted, reason, dir)
	}
	ports, err := proc.FreePorts(0, 0)
	if err != nil {
		return err
	}
	d, err := newDemo(programs, dir, ports[0], ports[1])
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, d.worker.Stop(), d.Server.Stop())
		if d.appliance != nil {
			err = errors.Join(err, d.appliance.Kill())
		}
		err = errors.Join(err, os.RemoveAll(dir))
		if err == nil {
			fmt.Printf("\nEvery assertion held. What was started is stopped; %.0f s.\n", time.Since(began).Seconds())
		}
	}()
	if err := d.startAppliance(ctx); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	return d.play(ctx, target)
}

// demo is a site with one worker, and what it has enrolled.
type demo struct {
	*site.Site
	worker    *site.Worker
	appliance *oneviewsim.Process // nil with -up
	allowed   []string            // paths that may be wiped
	enrolled  int
	files     []site.Device // the tenants' files
}

func newDemo(programs site.Programs, dir string, port, uiPort int) (*demo, error) {
	server := &site.Server{Program: programs.Server, Dir: dir, Port: port, UIPort: uiPort}
	s, err := site.New(programs, server, site.DefaultNamespace, "demo", dir)
	if err != nil {
		return nil, err
	}
	s.Env = os.Environ()
	d := &demo{Site: s, worker: s.Worker("all", "BURNISH_MAX_CLEANS_PER_HOST=4")}
	d.worker.LogFile = filepath.Join(dir, "worker.log")
	return d, d.allow(s.Files + "/**")
}

// start starts server and worker, and shows where they are.
func (d *demo) start(ctx context.Context) error {
	if err := d.Server.Start(ctx); err != nil {
		return err
	}
	fmt.Println(d.Server.Ready)
	fmt.Printf("Web UI: http://127.0.0.1:%d   devices that wait for an operator, as a query there:\n  %s\n",
		d.Server.UIPort, contract.QueryStuck)
	d.worker.Address = d.Server.Address
	return d.worker.Start(ctx)
}

// allow adds paths to what may be wiped.
func (d *demo) allow(paths ...string) error {
	d.allowed = append(d.allowed, paths...)
	return d.Allow(d.allowed...)
}

// burnish runs the command line as an operator would, and prints it.
func (d *demo) burnish(ctx context.Context, args ...string) error {
	r, err := d.Burnish(ctx, args...)
	if err != nil {
		return err
	}
	text := "$ burnish"
	for _, arg := range args {
		text += " " + arg
	}
	fmt.Println(text)
	fmt.Print(r.Stdout, r.Stderr)
	return r.Err()
}
