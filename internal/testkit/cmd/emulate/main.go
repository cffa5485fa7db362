// Command emulate is nvme on an emulated controller, for tests whose own program is slow
// to start, as one with the race detector is.
package main

import (
	"fmt"
	"os"

	"burnish/internal/testkit/nvmesim"
)

func main() {
	code, emulated := nvmesim.RunIfEmulated()
	if !emulated {
		fmt.Fprintln(os.Stderr, "emulate is run by tests alone")
		code = 2
	}
	os.Exit(code)
}
