// Command emulate is nvme on the emulated controllers of the host in whose directory it is, for
// tests.
package main

import (
	"os"

	"burnish/internal/testkit/nvmesim"
)

func main() { os.Exit(nvmesim.Run(os.Args[1:])) }
