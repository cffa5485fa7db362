package guest

import (
	_ "embed" // the first process's script
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"burnish/internal/testkit/must"
)

//go:embed init.sh
var initScript []byte

// stateMB is the size of the disk that survives.
const stateMB = 64

// archive is the usual way to make what the kernel unpacks into its first file system. All of it
// belongs to root.
const archive = `cd "$1" && "$0" find . | "$0" cpio -o -H newc -R 0:0 >"$2"`

// writeImage writes a guest's first file system to file.
func (p parts) writeImage(file string, config Config) error {
	root := file + ".root"
	return errors.Join(must.Try(func() {
		for _, dir := range []string{"/bin", "/proc", "/sys", "/dev", "/tmp", "/run", State} {
			must.Do(os.MkdirAll(filepath.Join(root, dir), 0o755))
		}
		must.Do(os.Symlink("busybox", filepath.Join(root, "bin/sh")))
		put := func(name string, mode os.FileMode, text []byte) {
			path := filepath.Join(root, name)
			must.Do(os.MkdirAll(filepath.Dir(path), 0o755))
			must.Do(os.WriteFile(path, text, mode))
		}
		wanted := append(slices.Clone(modules), config.Modules...)
		if config.ConfigDrive != "" {
			wanted = append(wanted, "isofs")
		}
		copies := map[string]string{"/bin/busybox": p.busybox, NVMe: p.nvme}
		var list strings.Builder
		for _, module := range must.Get(p.moduleFiles(wanted...)) {
			name := filepath.Join("/lib/modules", filepath.Base(module))
			copies[name] = module
			fmt.Fprintln(&list, name)
		}
		for _, program := range config.Programs {
			copies[program] = program
		}
		for _, program := range append([]string{p.nvme}, config.Programs...) {
			for _, library := range must.Get(libraries(program)) {
				copies[library] = library
			}
		}
		if config.Worker != "" {
			must.Be(must.Get(isStatic(config.Worker)), "%s is not static", config.Worker)
			copies["/usr/bin/burnish-worker"] = config.Worker
		}
		for name, from := range copies {
			put(name, 0o755, must.Get(os.ReadFile(from)))
		}
		put("/init", 0o755, initScript)
		put("/etc/modules", 0o644, []byte(list.String()))
		put("/etc/setup", 0o644, []byte(config.Setup))
		put("/etc/burnish/env", 0o600, environment(config.Env))
		if config.InOrder {
			put("/etc/in-order", 0o644, inOrder(config.Controllers))
		}
		for _, one := range config.Files {
			put(one.Path, one.Mode, one.Text)
		}
		put(HostFile, 0o600, []byte(config.HostYAML))
		must.Get(runTool(p.busybox, "sh", "-c", archive, p.busybox, root, file))
	}), os.RemoveAll(root))
}

// inOrder is what the first process reads of Config.InOrder.
func inOrder(controllers []Controller) []byte {
	var b strings.Builder
	disks := 0
	for _, c := range controllers {
		for _, ns := range c.Namespaces {
			if !ns.Detached {
				disks++
			}
		}
		fmt.Fprintln(&b, c.Address, disks)
	}
	return []byte(b.String())
}

// environment is what the guest's shell reads before it starts the worker.
func environment(env map[string]string) []byte {
	all := map[string]string{"HOME": State, "TZ": "UTC", "BURNISH_STATE_DIR": State, "BURNISH_HOST_FILE": HostFile}
	maps.Copy(all, env)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s='%s'\n", name, strings.ReplaceAll(all[name], "'", `'\''`))
	}
	return []byte(b.String())
}

// makeState makes the disk that survives.
func (p parts) makeState(file string) error {
	if err := sparseFile(file, stateMB<<20); err != nil {
		return err
	}
	_, err := runTool(p.mkfs, "-q", "-F", file)
	return err
}
