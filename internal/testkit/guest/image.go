package guest

import (
	"bufio"
	_ "embed" // the first process's script
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed init.sh
var initScript []byte

// stateMB is the size of the disk that survives.
const stateMB = 64

// content is what a guest's first file system holds, by path.
type content struct {
	archive *archive
	known   map[string]bool
}

// parents makes the directories above name.
func (c content) parents(name string) {
	dir := path.Dir(name)
	if dir == "." || dir == "/" || c.known[dir] {
		return
	}
	c.parents(dir)
	c.directory(dir)
}

func (c content) directory(name string) {
	c.parents(name)
	if !c.known[name] {
		c.known[name] = true
		c.archive.directory(name[1:], 0o755)
	}
}

func (c content) file(name string, mode os.FileMode, text []byte) {
	c.parents(name)
	if !c.known[name] {
		c.known[name] = true
		c.archive.file(name[1:], mode, text)
	}
}

// copy puts a file of this machine under a name into the guest.
func (c content) copy(name string, mode os.FileMode, from string) error {
	text, err := os.ReadFile(from)
	if err == nil {
		c.file(name, mode, text)
	}
	return err
}

// writeImage writes a guest's first file system to file.
func (p parts) writeImage(file string, config Config) (err error) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(out, 1<<20)
	defer func() { err = errors.Join(err, out.Close()) }()
	c := content{archive: &archive{to: buffer}, known: map[string]bool{}}
	for _, dir := range []string{"/proc", "/sys", "/dev", "/tmp", "/run", State} {
		c.directory(dir)
	}
	c.file("/init", 0o755, initScript)
	c.directory("/bin")
	c.archive.link("bin/sh", "busybox")
	wanted := modules
	if config.ConfigDrive != "" {
		wanted = append(slices.Clone(wanted), "isofs")
	}
	files, err := p.moduleFiles(wanted...)
	if err != nil {
		return err
	}
	copies := map[string]string{"/bin/busybox": p.busybox, NVMe: p.nvme}
	var list strings.Builder
	for _, module := range files {
		name := path.Join("/lib/modules", filepath.Base(module))
		copies[name] = filepath.Join(p.modules, module)
		fmt.Fprintln(&list, name)
	}
	for _, program := range append([]string{p.nvme}, config.Programs...) {
		linked, err := libraries(program)
		if err != nil {
			return err
		}
		for _, library := range linked {
			copies[library] = library
		}
	}
	for _, program := range config.Programs {
		copies[program] = program
	}
	if config.Worker != "" {
		if static, err := isStatic(config.Worker); err != nil || !static {
			return errors.Join(fmt.Errorf("%s is not static", config.Worker), err)
		}
		copies["/usr/bin/burnish-worker"] = config.Worker
	}
	c.file("/etc/modules", 0o644, []byte(list.String()))
	c.file("/etc/burnish/env", 0o600, environment(config.Env))
	c.file(HostFile, 0o600, []byte(config.HostYAML))
	for _, one := range config.Files {
		c.file(one.Path, one.Mode, one.Text)
	}
	if config.InOrder {
		c.file("/etc/in-order", 0o644, inOrder(config.Controllers))
	}
	for _, name := range slices.Sorted(maps.Keys(copies)) {
		if err := c.copy(name, 0o755, copies[name]); err != nil {
			return err
		}
	}
	return errors.Join(c.archive.close(), buffer.Flush())
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
