package guest

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"burnish/internal/testkit/proc"
)

const emulator = "qemu-system-x86_64"

// parts is where the parts of a guest lie on this machine.
type parts struct {
	emulator, mkfs, busybox, nvme string
	// kernel is the image; modules is its folder below /lib/modules.
	kernel, modules string
}

// Missing names in one line what a guest with these modules needs and is not installed here; it
// is "" where nothing is missing.
func Missing(modules ...string) string {
	p, err := findParts()
	if err == nil {
		_, err = p.moduleFiles(modules...)
	}
	if err != nil {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return ""
}

func findParts() (p parts, err error) {
	if runtime.GOARCH != "amd64" {
		return p, fmt.Errorf("a guest is an amd64 machine, and this one is %s", runtime.GOARCH)
	}
	var missing []error
	program := func(name, ofPackage string) string {
		path, err := proc.Look(name)
		if err != nil {
			missing = append(missing, fmt.Errorf("no %s (package %s)", name, ofPackage))
		}
		return path
	}
	p = parts{
		emulator: program(emulator, "qemu-system-x86"), mkfs: program("mkfs.ext4", "e2fsprogs"),
		busybox: program("busybox", "busybox-static"), nvme: program("nvme", "nvme-cli"),
	}
	if p.busybox != "" {
		if static, err := isStatic(p.busybox); err != nil || !static {
			missing = append(missing, errors.Join(fmt.Errorf("%s is not static (package busybox-static)", p.busybox), err))
		}
	}
	// The newest by name: any will do.
	kernels, err := filepath.Glob("/boot/vmlinuz-*-cloud-amd64")
	slices.Sort(kernels)
	for _, kernel := range slices.Backward(kernels) {
		folder := filepath.Join("/lib/modules", strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-"))
		if _, err := os.Stat(filepath.Join(folder, "modules.dep")); err == nil {
			p.kernel, p.modules = kernel, folder
			break
		}
	}
	if p.kernel == "" {
		missing = append(missing, errors.New("no kernel with modules (package linux-image-cloud-amd64)"), err)
	}
	return p, errors.Join(missing...)
}

// isStatic reports whether a program needs no interpreter, and so no library.
func isStatic(path string) (bool, error) {
	program, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	static := !slices.ContainsFunc(program.Progs, func(segment *elf.Prog) bool { return segment.Type == elf.PT_INTERP })
	return static, program.Close()
}

// toolWithin bounds a program of this machine that makes a part of a guest.
const toolWithin = time.Minute

// runTool runs such a program.
func runTool(name string, args ...string) (proc.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), toolWithin)
	defer cancel()
	r, err := proc.Succeed(exec.CommandContext(ctx, name, args...))
	if ctx.Err() != nil {
		err = fmt.Errorf("%s takes longer than %s", name, toolWithin)
	}
	return r, err
}

var libraryLine = regexp.MustCompile(`(?m)(?:=> )?(/\S+) \(0x[0-9a-f]+\)$`)

// libraries are the files that a program is linked to, its interpreter among them.
func libraries(path string) ([]string, error) {
	r, err := runTool("ldd", path)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, found := range libraryLine.FindAllStringSubmatch(r.Stdout, -1) {
		all = append(all, found[1])
	}
	return all, nil
}

// modules are those of a guest's network, disk and serial lines, by name. What is built
// into the kernel has no file and is left out.
var modules = []string{"virtio_pci", "virtio_console", "virtio_blk", "virtio_net"}

// built is where deploy/setup-test.sh puts modules that Debian's kernel for clouds comes without, in a
// folder for each kernel.
const built = "/usr/local/lib/burnish-test/modules"

// outOfTree are those modules.
var outOfTree = []string{"e1000e", "netdevsim"}

// moduleFiles lists the files of these modules, each behind what it depends on. The caller names what
// those that were built depend on, before them.
func (p parts) moduleFiles(modules ...string) ([]string, error) {
	table, err := os.Open(filepath.Join(p.modules, "modules.dep"))
	if err != nil {
		return nil, err
	}
	depends := map[string][]string{}
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		file, needed, _ := strings.Cut(lines.Text(), ":")
		depends[file] = strings.Fields(needed)
	}
	if err := errors.Join(lines.Err(), table.Close()); err != nil {
		return nil, err
	}
	var order []string
	var add func(file string)
	add = func(file string) {
		if slices.Contains(order, filepath.Join(p.modules, file)) {
			return
		}
		// The table lists all that is needed, the deepest last.
		for _, needed := range slices.Backward(depends[file]) {
			add(needed)
		}
		order = append(order, filepath.Join(p.modules, file))
	}
	for _, name := range modules {
		own := filepath.Join(built, filepath.Base(p.modules), name+".ko")
		if _, err := os.Stat(own); err == nil {
			order = append(order, own)
		} else if slices.Contains(outOfTree, name) {
			return nil, fmt.Errorf("no %s (deploy/setup-test.sh builds it)", own)
		}
		for file := range depends {
			if base := filepath.Base(file); base == name+".ko" {
				add(file)
			} else if strings.HasPrefix(base, name+".ko.") {
				return nil, fmt.Errorf("%s is compressed, which this package does not read", file)
			}
		}
	}
	return order, nil
}
