// Command packages makes what Burnish is installed from, of the programs that `make build` built: for
// each a Debian and an RPM package, an OCI image and a list of what it is made of (SBOM). The same
// programs and SOURCE_DATE_EPOCH give the same bytes.
//
// usage: packages -root DIR -out DIR [-version V] [-only KIND]
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "packages:", err)
		os.Exit(1)
	}
}

// release is what all that is made has in common.
type release struct {
	out, version string
	made         time.Time
}

func run(args []string) (err error) {
	flags := flag.NewFlagSet("packages", flag.ContinueOnError)
	root := flags.String("root", ".", "the repository, with the programs in bin/")
	out := flags.String("out", "", "where the packages are written")
	version := flags.String("version", "", "their version; default: that of the file VERSION")
	only := flags.String("only", "", "deb, rpm, image or sbom; default: all of them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH, the time that everything in the packages has: %w", err)
	}
	r := release{version: *version, made: time.Unix(epoch, 0).UTC()}
	if r.out, err = filepath.Abs(*out); err != nil {
		return err
	}
	// The files that the descriptions of packages name are the repository's.
	if err := errors.Join(os.MkdirAll(r.out, 0o755), os.Chdir(*root)); err != nil {
		return err
	}
	if r.version == "" {
		text, err := os.ReadFile("VERSION")
		if err != nil {
			return err
		}
		r.version = strings.TrimSpace(string(text))
	}
	work, err := os.MkdirTemp("", "burnish-packages-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := writeHelp(work); err != nil {
		return err
	}
	kinds := []struct {
		name string
		make func(program, work string) (file string, err error)
	}{{"deb", r.packaged("deb")}, {"rpm", r.packaged("rpm")}, {"image", r.image}, {"sbom", r.sbom}}
	var made []string
	for _, program := range []string{"burnish", "burnish-worker", "burnish-devserver"} {
		for _, kind := range kinds {
			if *only != "" && *only != kind.name {
				continue
			}
			file, err := kind.make(program, work)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", kind.name, program, err)
			}
			made = append(made, file)
		}
	}
	return writeSums(filepath.Join(r.out, "SHA256SUMS"), made)
}

// writeHelp has the command line write its man pages and completion scripts.
func writeHelp(work string) error {
	if words, err := exec.Command("bin/burnish", "man", filepath.Join(work, "man1")).CombinedOutput(); err != nil {
		return fmt.Errorf("burnish man: %w: %s", err, words)
	}
	for shell, name := range map[string]string{"bash": "burnish.bash", "zsh": "_burnish", "fish": "burnish.fish"} {
		script, err := exec.Command("bin/burnish", "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("burnish completion %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(work, name), script, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// packaged makes a package as the program's description says.
func (r release) packaged(format string) func(program, work string) (string, error) {
	return func(program, work string) (file string, err error) {
		values := map[string]string{"VERSION": r.version, "WORK": work}
		config, err := nfpm.ParseFileWithEnvMapping("deploy/packages/"+program+".yaml",
			func(name string) string { return values[name] })
		if err != nil {
			return "", err
		}
		info, err := config.Get(format)
		if err != nil {
			return "", err
		}
		info = nfpm.WithDefaults(info)
		info.MTime = r.made
		packager, err := nfpm.Get(format)
		if err != nil {
			return "", err
		}
		file = filepath.Join(r.out, packager.ConventionalFileName(info))
		return file, write(file, func(w io.Writer) error { return packager.Package(info, w) })
	}
}

// write makes a file; one that could not be made is removed.
func write(file string, content func(io.Writer) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(content(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// writeSums writes the checksums of files as sha256sum reads them.
func writeSums(file string, of []string) error {
	return write(file, func(w io.Writer) error {
		for _, name := range of {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(text), filepath.Base(name)); err != nil {
				return err
			}
		}
		return nil
	})
}
