package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Programs are the built programs under test, by path.
type Programs struct {
	Burnish, Worker, Server string
}

// root is the repository's, seen from this package's folder, in which tests run.
const root = "../../.."

// Build builds the programs into dir. The server is a whole Temporal server, minutes
// of compiling where no cache helps: $BURNISH_DEVSERVER names one that is ready, and
// bin/burnish-devserver is taken where no source of it is newer.
func Build(dir string) (Programs, error) {
	p := Programs{Burnish: filepath.Join(dir, "burnish"), Worker: filepath.Join(dir, "burnish-worker")}
	if err := errors.Join(build(root, "./starter", p.Burnish), build(root, "./worker", p.Worker)); err != nil {
		return p, err
	}
	if p.Server = os.Getenv("BURNISH_DEVSERVER"); p.Server != "" {
		return p, nil
	}
	sources := filepath.Join(root, "deploy", "devserver")
	ready, err := filepath.Abs(filepath.Join(root, "bin", "burnish-devserver"))
	if err != nil {
		return p, err
	}
	if fresh, err := newerThan(ready, sources); err != nil {
		return p, err
	} else if fresh {
		p.Server = ready
		return p, nil
	}
	p.Server = filepath.Join(dir, "burnish-devserver")
	return p, build(sources, ".", p.Server)
}

// build uses the flags of `make build`, so that both share one build cache.
func build(in, pkg, out string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = in
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// newerThan says whether file is there and none of the sources is younger.
func newerThan(file, sources string) (bool, error) {
	built, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var youngest time.Time
	err = filepath.WalkDir(sources, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.ModTime().After(youngest) {
			youngest = info.ModTime()
		}
		return err
	})
	return built.ModTime().After(youngest), err
}
