// Command redfishsim is a simulated BMC as a process of its own, for tests that kill it.
// What is durable is in the folder -dir, which redfishsim.Prepare made; with -personality
// the command makes it where there is none, and one can try a BMC by hand. When the BMC
// answers, one line says so on the standard output:
//
//	ready https://127.0.0.1:40123/redfish/v1/
//
// The folder's ca.pem is the certificate to trust, its config.json has the password.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"burnish/internal/testkit/redfishsim"
	"burnish/internal/testkit/simserver"
)

func main() {
	dir := flag.String("dir", "", "the `folder` of the machine's state")
	personality := flag.String("personality", "", "make the folder, for an `idrac`, ilo, supermicro or openbmc")
	listen := flag.String("listen", "127.0.0.1:0", "the `address` to listen on, the first time")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir, *personality, *listen, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "redfishsim:", err)
		os.Exit(1)
	}
}

func run(dir, personality, address string, out io.Writer) error {
	if _, err := os.Stat(dir); personality != "" && errors.Is(err, fs.ErrNotExist) {
		p := redfishsim.Personality(personality)
		if !slices.Contains(redfishsim.Personalities, p) {
			return fmt.Errorf("-personality %s: there is %v", personality, redfishsim.Personalities)
		}
		if err := redfishsim.Prepare(dir, p); err != nil {
			return err
		}
	}
	machine, certificate, err := redfishsim.Open(dir)
	if err != nil {
		return err
	}
	listener, err := simserver.Listen(dir, address)
	if err != nil {
		return err
	}
	killed := func() {
		// As kill -9 from outside: nothing else is done. The signal cannot be caught, so
		// the only error is that of a process that does not exist.
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	stop := redfishsim.Serve(machine, redfishsim.Controlled(machine, killed), listener, certificate)
	defer stop()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	fmt.Fprintf(out, "ready https://%s/redfish/v1/\n", listener.Addr())
	<-ended
	return nil
}
