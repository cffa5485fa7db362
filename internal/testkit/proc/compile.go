package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Look finds a program in the path, or where only an administrator's path leads.
func Look(name string) (path string, err error) {
	for _, dir := range []string{"", "/usr/sbin", "/sbin"} {
		if path, err = exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Compile builds the package pkg, as seen from the folder in, with the flags of `make
// build`, so that all share one build cache, and these.
func Compile(in, pkg, out string, flags ...string) error {
	cmd := exec.Command("go", slices.Concat([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out},
		flags, []string{pkg})...)
	cmd.Dir = in
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	_, err := Succeed(cmd)
	return err
}
