package site

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

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

// Build builds the programs of the repository at root into dir. The server is a whole
// Temporal server, which takes minutes to compile without a build cache: Build uses
// $BURNISH_DEVSERVER where it is set, and else bin/burnish-devserver where that is newer
// than its sources.
func Build(root, dir string) (Programs, error) {
	p, err := Built(dir)
	if err != nil {
		return p, err
	}
	if err := errors.Join(proc.Compile(root, "./starter", p.Burnish),
		proc.Compile(root, "./worker", p.Worker, "-tags=shortsettle")); err != nil {
		return p, err
	}
	if server := os.Getenv("BURNISH_DEVSERVER"); server != "" {
		p.Server = server
		return p, nil
	}
	sources := filepath.Join(root, "deploy", "devserver")
	ready, err := filepath.Abs(filepath.Join(root, "bin", "burnish-devserver"))
	if err != nil {
		return p, err
	}
	fresh, err := newerThan(ready, sources)
	if err != nil {
		return p, err
	}
	if fresh {
		p.Server = ready
		return p, nil
	}
	return p, proc.Compile(sources, ".", p.Server)
}

// newerThan reports whether file exists and no source below the folder is newer.
func newerThan(file, sources string) (bool, error) {
	built, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var newest time.Time
	err = filepath.WalkDir(sources, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for sources newer than %s: %w", file, err)
	}
	return built.ModTime().After(newest), nil
}
