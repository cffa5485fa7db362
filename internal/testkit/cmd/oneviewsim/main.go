// Command oneviewsim is a simulated appliance of OneView as a process of its own, for the demo
// and for tests that kill it. Its state is in the folder -dir, which oneviewsim.Prepare made;
// with -servers the command makes it where there is none, and one can try an appliance by
// hand. When the appliance answers, one line says so on the standard output:
//
//	ready https://127.0.0.1:40123
//
// The folder's ca.pem is the certificate to trust, its config.json has users and passwords.
// Other users take and free servers at POST /take?server=server-1 and /free?server=server-1 of
// the address in the folder's file control.
package main

import (
	"crypto/tls"
	"flag"
	"net/http"
	"os"

	"burnish/internal/testkit/oneviewsim"
	"burnish/internal/testkit/simserver"
)

func main() {
	servers := flag.Int("servers", 0, "make the folder, for an appliance with `n` servers")
	command := simserver.Command{
		Prepare: func(dir string) error {
			if *servers == 0 {
				return nil
			}
			return oneviewsim.Prepare(dir, oneviewsim.Servers(*servers))
		},
		Open: func(dir string, onExit func()) (simserver.Served, http.Handler, tls.Certificate, error) {
			a, certificate, err := oneviewsim.Open(dir)
			return a, a.Control(onExit), certificate, err
		},
	}
	os.Exit(command.Run(os.Stdout, os.Stderr))
}
