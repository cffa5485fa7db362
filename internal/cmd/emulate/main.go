// Command emulate is nvme on an emulated controller, for tests whose own program is slow
// to start, as one with the race detector is.
package main

import (
	"fmt"
	"os"

	"burnish/internal/hardware/nvme/nvmetest"
)

func main() {
	code, emulated := nvmetest.RunIfEmulated()
	if !emulated {
		fmt.Fprintln(os.Stderr, "emulate is run by tests alone")
		code = 2
	}
	os.Exit(code)
}
