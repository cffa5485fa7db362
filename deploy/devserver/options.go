package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
)

const usage = `burnish-devserver: a Temporal server with its Web UI, for Burnish on one machine

usage: burnish-devserver [flags]

  --ip ADDRESS      listen here (127.0.0.1); there is no authentication
  --port N          Temporal's gRPC port (7233); 0 picks a free one
  --ui-port N       the Web UI's port (port+1000); 0 turns it off
  --db FILE         keep the state in FILE; without it, in memory
  --namespace NAME  namespace that is made at the first start (default)
  --unsafe-fast     do not wait for the disk: a power cut may lose what was
                    acknowledged, so never where a device is at stake
  --version         print the version
  --help            print this

example:
  burnish-devserver --db /var/lib/burnish/temporal.db
  export TEMPORAL_ADDRESS=127.0.0.1:7233

It prints one line on stdout when it is ready. SIGTERM stops it in order.
`

const (
	defaultPort  = 7233
	uiPortOffset = 1000
	uiPortUnset  = -1
	maxPort      = 65535
)

// options are the flags, checked.
type options struct {
	ip         net.IP
	port       int
	uiPort     int // uiPortUnset until the gRPC port is known
	db         string
	namespace  string
	unsafeFast bool
	version    bool
}

// parseOptions reads the flags. Its error is one line; flag.ErrHelp means
// that the usage was asked for.
func parseOptions(args []string) (options, error) {
	var opts options
	var ip string
	flags := flag.NewFlagSet("burnish-devserver", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the caller prints, and prints one line
	flags.StringVar(&ip, "ip", "127.0.0.1", "")
	flags.IntVar(&opts.port, "port", defaultPort, "")
	flags.IntVar(&opts.uiPort, "ui-port", uiPortUnset, "")
	flags.StringVar(&opts.db, "db", "", "")
	flags.StringVar(&opts.namespace, "namespace", "default", "")
	flags.BoolVar(&opts.unsafeFast, "unsafe-fast", false, "")
	flags.BoolVar(&opts.version, "version", false, "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if opts.ip = net.ParseIP(ip); opts.ip == nil {
		return options{}, fmt.Errorf("--ip %q is not an IP address", ip)
	}
	if opts.port < 0 || opts.port > maxPort {
		return options{}, fmt.Errorf("--port %d is not between 0 and %d", opts.port, maxPort)
	}
	if opts.uiPort < uiPortUnset || opts.uiPort > maxPort {
		return options{}, fmt.Errorf("--ui-port %d is not between 0 and %d", opts.uiPort, maxPort)
	}
	if opts.uiPort == uiPortUnset && opts.port+uiPortOffset > maxPort {
		return options{}, fmt.Errorf("--port %d leaves no room for the web ui at port+%d: give --ui-port too", opts.port,
			uiPortOffset)
	}
	if opts.uiPort > 0 && opts.uiPort == opts.port {
		return options{}, fmt.Errorf("--ui-port %d is the same as --port", opts.uiPort)
	}
	if strings.TrimSpace(opts.namespace) == "" {
		return options{}, errors.New("--namespace is empty")
	}
	return opts, nil
}
