package guest

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const emulator = "qemu-system-x86_64"

// needs is where on this machine lies what a guest is made of.
type needs struct {
	emulator, mkfs, busybox, nvme string
	// kernel is the image; modules its folder below /lib/modules.
	kernel, modules string
}

// Missing says in one line what is not installed here that a guest needs, "" where
// nothing is missing.
func Missing() string {
	if _, err := find(); err != nil {
		return strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return ""
}

func find() (n needs, err error) {
	if runtime.GOARCH != "amd64" {
		return n, fmt.Errorf("a guest is an amd64 machine, and this one is %s", runtime.GOARCH)
	}
	var missing []error
	program := func(name, ofPackage string) string {
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
			if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return path
			}
		}
		missing = append(missing, fmt.Errorf("no %s (package %s)", name, ofPackage))
		return ""
	}
	n = needs{
		emulator: program(emulator, "qemu-system-x86"), mkfs: program("mkfs.ext4", "e2fsprogs"),
		busybox: program("busybox", "busybox-static"), nvme: program("nvme", "nvme-cli"),
	}
	if n.busybox != "" {
		if static, err := isStatic(n.busybox); err != nil || !static {
			missing = append(missing, errors.Join(fmt.Errorf("%s is not static (package busybox-static)", n.busybox), err))
		}
	}
	// The newest by name is good enough: any will do.
	kernels, err := filepath.Glob("/boot/vmlinuz-*-cloud-amd64")
	slices.Sort(kernels)
	for _, kernel := range slices.Backward(kernels) {
		modules := filepath.Join("/lib/modules", strings.TrimPrefix(filepath.Base(kernel), "vmlinuz-"))
		if _, err := os.Stat(filepath.Join(modules, "modules.dep")); err == nil {
			n.kernel, n.modules = kernel, modules
			break
		}
	}
	if n.kernel == "" {
		missing = append(missing, errors.New("no kernel with modules (package linux-image-cloud-amd64)"), err)
	}
	return n, errors.Join(missing...)
}

// isStatic says whether a program needs no interpreter, and so no library.
func isStatic(path string) (bool, error) {
	program, err := elf.Open(path)
	if err != nil {
		return false, err
	}
	static := !slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	return static, program.Close()
}

var libraryLine = regexp.MustCompile(`(?m)(?:=> )?(/\S+) \(0x[0-9a-f]+\)$`)

// libraries are the files that a program is linked to, its interpreter among them.
func libraries(path string) ([]string, error) {
	out, err := exec.Command("ldd", path).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w: %s", path, err, out)
	}
	var all []string
	for _, found := range libraryLine.FindAllStringSubmatch(string(out), -1) {
		all = append(all, found[1])
	}
	return all, nil
}

// wanted are the modules of a guest's network, disk and lines to the outside, by name.
// What is built into the kernel has no file and is left out.
var wanted = []string{"virtio_pci", "virtio_console", "virtio_blk", "virtio_net"}

// load lists the files of the wanted modules below n.modules, each behind what it
// depends on.
func (n needs) load() ([]string, error) {
	table, err := os.Open(filepath.Join(n.modules, "modules.dep"))
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
		if slices.Contains(order, file) {
			return
		}
		// The table lists all that is needed, the deepest last.
		for _, needed := range slices.Backward(depends[file]) {
			add(needed)
		}
		order = append(order, file)
	}
	for _, name := range wanted {
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

// read gives a file's content with the path that led there resolved.
func read(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s, which a guest needs, is gone: %w", path, err)
	}
	return content, err
}
