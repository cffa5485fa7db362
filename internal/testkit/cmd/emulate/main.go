// Command emulate is nvme on an emulated controller, for tests whose own program starts
// slowly, as with the race detector.
package main

import (
	"fmt"
	"os"

	"burnish/internal/testkit/nvmesim"
)

func main() {
	code, emulated := nvmesim.RunIfEmulated()
	if !emulated {
		fmt.Fprintln(os.Stderr, "emulate is for tests only")
		code = 2
	}
	os.Exit(code)
}
