// Command cluster is a Temporal cluster (package internal/testkit/cluster) in place of
// burnish-devserver: it has the same flags, and prints the same line when it is ready. So each test,
// and `make bench`, can be run on a cluster. All processes end with this one.
//
//	BURNISH_DEVSERVER=$PWD/bin/burnish-cluster go test ./internal/testkit/e2e -run TestTurnover
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

	"go.temporal.io/api/serviceerror"

	"burnish/internal/testkit/cluster"
	"burnish/internal/testkit/site"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "burnish-cluster:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	flag.String("ip", "127.0.0.1", "always 127.0.0.1")
	port := flag.Int("port", 7233, "the load balancer's port; 0 picks a free one")
	ui := flag.Int("ui-port", 0, "0: a cluster's Web UI is a program of its own")
	dir := flag.String("db", "", "keep the state in this folder; without it, in one that is removed at the end")
	fast := flag.Bool("unsafe-fast", false, "do not wait for the disk")
	flag.Parse()
	if *ui != 0 {
		return errors.New("a cluster's Web UI is a program of its own: -ui-port 0")
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if *dir == "" {
		if *dir, err = os.MkdirTemp("", "burnish-cluster-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(*dir)) }()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := cluster.Start(ctx, cluster.Options{Programs: filepath.Dir(program), Dir: *dir, Port: *port, Fast: *fast})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	err = (&site.Server{Address: c.Address}).NewNamespace(ctx, site.DefaultNamespace)
	if err != nil && !errors.As(err, new(*serviceerror.NamespaceAlreadyExists)) {
		return err
	}
	fmt.Fprintf(os.Stdout, "burnish-devserver ready: temporal %s, web ui off, database %s\n", c.Address, *dir)
	select {
	case <-ctx.Done():
		return nil
	case <-c.Database.Done():
	case <-c.Servers[0].Done():
	case <-c.Servers[1].Done():
	}
	return fmt.Errorf("a process of the cluster has ended by itself: see the logs in %s", *dir)
}
