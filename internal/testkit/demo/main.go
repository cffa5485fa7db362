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
	"strings"
	"syscall"
	"time"

	"burnish/internal/testkit/must"
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
	err := must.Try(func() { run(ctx, *up, *down, *target, *bin, must.Get(filepath.Abs(*dir))) })
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, up, down bool, target, bin, dir string) {
	must.Be(flag.NArg() == 0, "%q is not known; see -help", flag.Arg(0))
	programs := must.Get(site.Built(bin))
	switch {
	case up:
		goUp(ctx, programs, filepath.Join(dir, "up"))
	case down:
		goDown(ctx, filepath.Join(dir, "up"))
	default:
		show(ctx, programs, filepath.Join(dir, "demo"), target)
	}
}

// show runs the whole demo in an empty folder, which is gone afterwards.
func show(ctx context.Context, programs site.Programs, wanted, target string) {
	began := time.Now()
	dir, reason, err := site.InPlaceDir(ctx, wanted)
	must.Do(err)
	if reason != "" {
		fmt.Printf("%s: %s.\nThe demo works in memory instead: %s\n", wanted, reason, dir)
	}
	ports := must.Get(proc.FreePorts(0, 0))
	d := newDemo(programs, dir, ports[0], ports[1])
	err = must.Try(func() {
		d.startAppliance(ctx)
		d.start(ctx)
		d.play(ctx, target)
	})
	err = errors.Join(err, d.worker.Stop(), d.Server.Stop())
	if d.appliance != nil {
		err = errors.Join(err, d.appliance.Kill())
	}
	must.Do(errors.Join(err, os.RemoveAll(dir)))
	fmt.Printf("\nEvery assertion held. What was started is stopped; %.0f s.\n", time.Since(began).Seconds())
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

func newDemo(programs site.Programs, dir string, port, uiPort int) *demo {
	server := &site.Server{Program: programs.Server, Dir: dir, Port: port, UIPort: uiPort}
	s := must.Get(site.New(programs, server, site.DefaultNamespace, "demo", dir))
	s.Env = os.Environ()
	d := &demo{Site: s, worker: s.Worker("all", "BURNISH_MAX_CLEANS_PER_HOST=4")}
	d.worker.LogFile = filepath.Join(dir, "worker.log")
	d.allow(s.Files + "/**")
	return d
}

// start starts server and worker, and shows where they are.
func (d *demo) start(ctx context.Context) {
	must.Do(d.Server.Start(ctx))
	fmt.Println(d.Server.Ready)
	fmt.Printf("Web UI: http://127.0.0.1:%d   devices that wait for an operator, as a query there:\n  %s\n",
		d.Server.UIPort, contract.QueryStuck)
	d.worker.Address = d.Server.Address
	must.Do(d.worker.Start(ctx))
}

// allow adds paths to what may be wiped.
func (d *demo) allow(paths ...string) {
	d.allowed = append(d.allowed, paths...)
	must.Do(d.Allow(d.allowed...))
}

// burnish runs the command line as an operator would, and prints it.
func (d *demo) burnish(ctx context.Context, args ...string) {
	r := must.Get(d.Burnish(ctx, args...))
	fmt.Println("$ burnish", strings.Join(args, " "))
	fmt.Print(r.Stdout, r.Stderr)
	must.Do(r.Err())
}
