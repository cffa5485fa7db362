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
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"

	"burnish/internal/testkit/redfishsim"
	"burnish/internal/testkit/simserver"
)

func main() {
	personality := flag.String("personality", "", "make the folder, for an `idrac`, ilo, supermicro, openbmc or xcc")
	command := simserver.Command{
		Path: "/redfish/v1/",
		Prepare: func(dir string) error {
			p := redfishsim.Personality(*personality)
			switch {
			case p == "":
				return nil
			case !slices.Contains(redfishsim.Personalities, p):
				return fmt.Errorf("-personality %s: there is %v", p, redfishsim.Personalities)
			}
			return redfishsim.Prepare(dir, p)
		},
		Open: func(dir string, onExit func()) (simserver.Served, http.Handler, tls.Certificate, error) {
			machine, certificate, err := redfishsim.Open(dir)
			return machine, machine.Control(onExit), certificate, err
		},
	}
	os.Exit(command.Run(os.Stdout, os.Stderr))
}
