package simserver

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
)

// readyLine begins what a command says once its simulator answers.
const readyLine = "ready https://"

// Command is a simulator as a program. Its flags beside the own ones are -dir, the folder,
// -listen and -control. Once the simulator answers, one line says where.
type Command struct {
	Path string // below the address, of the line
	// Prepare makes the folder where there is none, if the flags ask for that.
	Prepare func(dir string) error
	// Open is the simulator in the folder, with what serves its Acts.
	Open func(dir string, onExit func()) (Served, http.Handler, tls.Certificate, error)
}

// Served is a simulator that can be served.
type Served interface {
	Serve(listener net.Listener, certificate tls.Certificate) (stop func())
}

// Run runs the command until it is told to end, and writes to out. It returns the exit code.
func (c Command) Run(out, problems io.Writer) int {
	dir := flag.String("dir", "", "the `folder` of the simulator's state")
	listen := flag.String("listen", "127.0.0.1:0", "the `address` to listen on, the first time")
	control := flag.String("control", "127.0.0.1:0", "the `address` for acts upon the simulator, the first time")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		flag.Usage()
		return 2
	}
	if err := c.run(*dir, *listen, *control, out); err != nil {
		fmt.Fprintln(problems, err)
		return 1
	}
	return 0
}

func (c Command) run(dir, address, controlAddress string, out io.Writer) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		if err := c.Prepare(dir); err != nil {
			return err
		}
	}
	simulator, acts, certificate, err := c.Open(dir, func() {
		// As kill -9 from outside: nothing else is done. The signal cannot be caught, so
		// the only error is that of a process that does not exist.
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	})
	if err != nil {
		return err
	}
	listener, err := Listen(dir, AddressFile, address)
	if err != nil {
		return err
	}
	defer simulator.Serve(listener, certificate)()
	control, err := Listen(dir, ControlFile, controlAddress)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- http.Serve(control, acts) }()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	fmt.Fprintf(out, "%s%s%s\n", readyLine, listener.Addr(), c.Path)
	select {
	case <-ended:
		return control.Close()
	case err := <-failed:
		return err
	}
}
