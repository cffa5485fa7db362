package site

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"burnish/internal/testkit/proc"
)

// Programs are the paths of the built programs.
type Programs struct {
	Burnish, Worker, Server string
}

// Built is the programs in a folder into which `make build` put them.
func Built(dir string) (Programs, error) {
	dir, err := filepath.Abs(dir)
	return Programs{filepath.Join(dir, "burnish"), filepath.Join(dir, "burnish-worker"),
		filepath.Join(dir, "burnish-devserver")}, err
}

// Build builds the programs of the repository at root into dir, but for the server: that is a whole
// Temporal server, which takes minutes to compile, and is that of `make build`, or $BURNISH_DEVSERVER.
func Build(root, dir string) (Programs, error) {
	p, err := Built(dir)
	if err == nil {
		p.Server, err = filepath.Abs(cmp.Or(os.Getenv("BURNISH_DEVSERVER"), filepath.Join(root, "bin", "burnish-devserver")))
	}
	if err != nil {
		return p, err
	}
	if _, err := os.Stat(p.Server); err != nil {
		return p, fmt.Errorf("%w; run make build", err)
	}
	return p, errors.Join(proc.Compile(root, "./starter", p.Burnish),
		proc.Compile(root, "./worker", p.Worker, "-tags=shortsettle"))
}
