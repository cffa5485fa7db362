// Command oneviewsim is a simulated appliance of OneView as a process of its own, for the demo
// and for tests that kill it. Its state is in the folder -dir, which oneviewsim.Prepare made;
// with -servers the command makes it where there is none, and one can try an appliance by
// hand. When the appliance answers, one line says so on the standard output:
//
//	ready https://127.0.0.1:40123
//
// The folder's ca.pem is the certificate to trust, its config.json has users and passwords.
// Other users take and free servers at POST /simulator/take?server=server-1 and
// /simulator/free?server=server-1.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/simserver"
)

func main() {
	dir := flag.String("dir", "", "the `folder` of the appliance's state")
	servers := flag.Int("servers", 0, "make the folder, for an appliance with `n` servers")
	listen := flag.String("listen", "127.0.0.1:0", "the `address` to listen on, the first time")
	flag.Parse()
	if *dir == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*dir, *servers, *listen, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oneviewsim:", err)
		os.Exit(1)
	}
}

func run(dir string, servers int, address string, out io.Writer) error {
	if _, err := os.Stat(dir); servers > 0 && errors.Is(err, fs.ErrNotExist) {
		if err := oneviewsim.Prepare(dir, oneviewsim.Servers(servers)); err != nil {
			return err
		}
	}
	appliance, certificate, err := oneviewsim.Open(dir)
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
	stop := oneviewsim.Serve(appliance, oneviewsim.Controlled(appliance, killed), listener, certificate)
	defer stop()
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	fmt.Fprintf(out, "ready https://%s\n", listener.Addr())
	<-ended
	return nil
}
