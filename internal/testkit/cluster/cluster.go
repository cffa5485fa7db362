// Package cluster is a Temporal cluster for tests, as production has one: PostgreSQL, two processes
// of the real server with all four services each, and a load balancer before their frontends. Each
// process has an address of its own on the loopback with the usual ports, and may be killed, frozen
// and started again by itself.
//
//	c, err := cluster.Start(ctx, cluster.Options{Programs: "bin", Dir: dir})  // again on the same Dir after its end
//	c.Address                                // of the load balancer, for workers and clients
//	err = c.Database.Kill()                  // any Member; see package proc
//	err = c.Database.Start(ctx)
//	err = c.Stop()
package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"burnish/internal/testkit/proc"
)

// settings are the servers' dynamic configuration, which docs/cluster.md shows.
//
//go:embed settings.yaml
var settings []byte

// shards of the history service: fixed for the life of a database.
const shards = 8

// The usual ports.
const (
	frontendPort   = "7233"
	postgreSQLPort = "5432"
)

// Options say where a cluster is and how it runs.
type Options struct {
	// Programs is the folder of temporal-server and temporal-sql-tool; Dir that of the database and all logs.
	Programs, Dir string
	// Port of the load balancer on 127.0.0.1; 0 is any free one.
	Port int
	// Fast databases survive the end of their processes, but no power failure.
	Fast bool
}

// Cluster is a running one.
type Cluster struct {
	Address  string // of the load balancer
	Database *Member
	Servers  [2]*Member

	options  Options
	network  string // the first three bytes of its addresses
	claim    net.Listener
	balancer *balancer
}

// Member is a process of a cluster.
type Member struct {
	*proc.Process
	start func(context.Context) (*proc.Process, error)
}

// Start starts the process, or starts it again after its end, and returns when it answers.
func (m *Member) Start(ctx context.Context) (err error) {
	m.Process, err = m.start(ctx)
	return err
}

// startWithin only guards a hang: a server takes seconds to start, on a busy machine a minute.
const startWithin = 3 * time.Minute

// Start starts a cluster, on the database that is in its folder or on a new one, and returns when
// each of its servers answers. Who started it stops it.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	c := &Cluster{options: o, Database: &Member{}}
	c.Database.start = c.startDatabase
	for i := range c.Servers {
		c.Servers[i] = &Member{start: func(ctx context.Context) (*proc.Process, error) { return c.startServer(ctx, i) }}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if o.Port == 0 {
		ports, err := proc.FreePorts(0)
		if err != nil {
			return nil, err
		}
		o.Port = ports[0]
	}
	if err := errors.Join(os.MkdirAll(o.Dir, 0o700), c.claimNetwork(),
		os.WriteFile(c.in("settings.yaml"), settings, 0o600)); err != nil {
		return nil, err
	}
	if err := c.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	for _, server := range c.Servers {
		if err := server.Start(ctx); err != nil {
			return nil, err
		}
	}
	c.Address = net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port))
	c.balancer, err = balance(c.Address, c.address(0), c.address(1))
	return c, err
}

// Stop ends what runs: the servers at once, because what they did is in the database, which ends in order.
func (c *Cluster) Stop() (err error) {
	if c.balancer != nil {
		c.balancer.close()
	}
	for _, server := range c.Servers {
		err = errors.Join(err, server.Process.Kill())
	}
	err = errors.Join(err, c.Database.StopBy(syscall.SIGINT)) // to SIGTERM it would wait for its clients
	if c.claim != nil {
		err = errors.Join(err, c.claim.Close())
	}
	return err
}

// in is a path in the cluster's folder.
func (c *Cluster) in(name string) string { return filepath.Join(c.options.Dir, name) }

// claimNetwork finds 254 addresses of the loopback that no other cluster has.
func (c *Cluster) claimNetwork() (err error) {
	for range 100 {
		c.network = fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
		if c.claim, err = net.Listen("tcp", net.JoinHostPort(c.network+"254", frontendPort)); err == nil {
			return nil
		}
	}
	return err
}

// host is the address of the i-th server; the database has the one before them.
func (c *Cluster) host(i int) string { return c.network + strconv.Itoa(2+i) }

func (c *Cluster) address(i int) string { return net.JoinHostPort(c.host(i), frontendPort) }

// startServer starts the i-th server, configured as its official image is: by variables.
func (c *Cluster) startServer(ctx context.Context, i int) (*proc.Process, error) {
	name := fmt.Sprintf("temporal-server-%d", i+1)
	cmd := exec.Command(filepath.Join(c.options.Programs, "temporal-server"), "--allow-no-auth", "start")
	cmd.Dir = c.options.Dir
	cmd.Env = append(os.Environ(), "DB=postgres12", "POSTGRES_SEEDS="+c.network+"1", "POSTGRES_USER="+databaseUser,
		"NUM_HISTORY_SHARDS="+strconv.Itoa(shards), "BIND_ON_IP="+c.host(i), "TEMPORAL_BROADCAST_ADDRESS="+c.host(i),
		"DYNAMIC_CONFIG_FILE_PATH="+c.in("settings.yaml"), "LOG_LEVEL=warn")
	p, err := proc.Start(name, c.in(name+".log"), cmd)
	if err != nil {
		return nil, err
	}
	return p, p.AwaitReady(ctx, startWithin, proc.PollEvery, func() bool { return answers(ctx, c.address(i)) })
}

// run runs a program of the cluster to its end.
func (c *Cluster) run(cmd *exec.Cmd) error {
	cmd.Dir = c.options.Dir
	_, err := proc.Succeed(cmd)
	return err
}
