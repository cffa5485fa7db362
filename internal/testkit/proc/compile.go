package proc

import (
	"errors"
	"os"
	"os/exec"
	"slices"
)

// Compile builds the package pkg, as seen from the folder in, with the flags of `make
// build`, so that all share one build cache, and these.
func Compile(in, pkg, out string, flags ...string) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out},
		flags, []string{pkg})...)
	cmd.Dir = in
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	r, err := Run(cmd)
	return errors.Join(err, r.Err())
}
