// Command supervisor is the supervisor of the driver script without the rest of a worker.
// Tests with the race detector use it, because their own binaries take a second to start.
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
