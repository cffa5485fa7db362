// Command supervisor is what a worker's binary is when the driver script starts it as a
// supervisor, and nothing else: tests with the race detector, whose binaries take a second to
// start, use it in their own place.
package main

import (
	"fmt"
	"os"

	"burnish/internal/hardware/script"
)

func main() {
	if err := script.RunSupervisor(); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		os.Exit(1)
	}
}
