package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/pci"
)

// Rules is the host's own list of what may be destroyed (SAFETY F13). Every call reads and
// checks the file again: what an operator removes is forbidden from the next step on, and
// an invalid file allows nothing. The zero Rules allow nothing.
//
// host.yaml has these keys, all optional; an unknown one is an error:
//
//	allow:
//	  # Absolute paths as they are on the host, with symbolic links resolved.
//	  # * ? [a-z] match within one name, never a /; a trailing /** matches
//	  # everything below, at any depth.
//	  paths: [/dev/nvme1n1, "/srv/images/*.img", "/srv/pool/**"]
//	  # PCI devices as in Nova: vendor_id, product_id, address. One entry must match
//	  # with all its criteria. one_time_use: yes makes devices one-time-use that are
//	  # enrolled automatically; a VF cannot be (S0.13).
//	  device_spec: [{vendor_id: "8086", address: "0000:0a:00.*"}]
//	  # Commands that may be run, by name: the required owner and checksum of the
//	  # file, and the uid that it runs as.
//	  scripts: {reset: {path: /usr/local/sbin/reset, owner: root, sha256: "…", uid: 0}}
//	  # Whether fake devices may be cleaned.
//	  fake: true
//	secrets: /etc/burnish/secrets
//
// scripts and secrets are parsed as strictly; the drivers that use them read them from
// here before each use.
type Rules struct {
	file string // "" for DefaultRules and the zero Rules
	// ofRoot: a file of this process's own user is refused.
	ofRoot bool
	root   string // of DefaultRules: everything below may be destroyed

	mu        sync.Mutex
	stateDirs []string // state directories, whose files are never a device
}

// Script is one command that host.yaml allows.
type Script struct {
	Path   string
	Owner  string // user name or uid that must own the file
	SHA256 string // of the file, in lower case
	UID    *uint32
}

// DeviceSpec is one entry of device_spec, as JSON in Nova's form and parsed, with its
// line.
type DeviceSpec struct {
	JSON []byte
	Spec pci.Spec
	Line int
}

// LoadRules reads the rules from file, which must be valid. The file and its directory
// must belong to root or to this worker's user, and no other user may write them. The
// error lists every problem with its line.
func LoadRules(file string) (*Rules, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", file, err)
	}
	r := &Rules{file: absolute}
	if _, err := r.read(); err != nil {
		return nil, err
	}
	return r, nil
}

// LoadRootRules is LoadRules for a program with more privileges than its caller: the file
// and its directory must belong to root.
func LoadRootRules(file string) (*Rules, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", file, err)
	}
	r := &Rules{file: absolute, ofRoot: true}
	if _, err := r.read(); err != nil {
		return nil, err
	}
	return r, nil
}

// DefaultRules are those of a worker in role all without host.yaml: they allow paths below
// the state directory and fake devices, for a trial of Burnish.
func DefaultRules(stateDir string) *Rules {
	if abs, err := filepath.Abs(stateDir); err == nil {
		stateDir = abs
	} else {
		stateDir = "" // no working directory: nothing is allowed
	}
	return &Rules{root: stateDir}
}

// WorkerRules are those of a worker: of file, or without one DefaultRules if byDefault,
// and otherwise the zero Rules.
func WorkerRules(file, stateDir string, byDefault bool) (*Rules, error) {
	switch {
	case file != "":
		return LoadRules(file)
	case byDefault:
		return DefaultRules(stateDir), nil
	}
	return &Rules{}, nil
}

// Paths gives the present patterns of what may be destroyed.
func (r *Rules) Paths() ([]string, error) {
	if r.file == "" && r.root != "" {
		return []string{r.root + anyDepth}, nil
	}
	content, err := r.readOrNothing()
	return content.paths, err
}

// protect forbids the files of a state directory as devices.
func (r *Rules) protect(stateDir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stateDirs = append(r.stateDirs, stateDir)
}

// AllowPath is nil if the file at resolved may be destroyed now, and otherwise the fault
// not_allowed. resolved is an absolute path without symbolic links: the caller opens it
// in a way that refuses them (F14). The host's own locks, records and rules are never
// allowed.
func (r *Rules) AllowPath(resolved string) error {
	if !filepath.IsAbs(resolved) || filepath.Clean(resolved) != resolved || strings.ContainsRune(resolved, 0) {
		return notAllowed(fmt.Sprintf("%q is not an absolute, resolved path", resolved), "enroll the device by its absolute path")
	}
	if why := r.protected(resolved); why != "" {
		return notAllowed(fmt.Sprintf("%s %s", resolved, why), "use another path")
	}
	if r.file == "" {
		return r.allowBelowRoot(resolved)
	}
	content, err := r.read()
	if err != nil {
		return unusable(err)
	}
	for _, pattern := range content.paths {
		if matchPath(pattern, resolved) {
			return nil
		}
	}
	return notAllowed(fmt.Sprintf("%s may not be destroyed on this host", resolved),
		fmt.Sprintf("to allow it, add the resolved path to allow.paths in %s", r.file))
}

// AllowPCI is nil if d matches an entry of device_spec now, and otherwise the fault
// not_allowed (S2.6, S2.7). Without host.yaml no PCI device may be destroyed.
func (r *Rules) AllowPCI(d pci.Device) error {
	if d.Address == "" {
		return notAllowed("a PCI device without an address may not be destroyed", "enroll the device by its PCI address")
	}
	if r.file == "" {
		return notAllowed(fmt.Sprintf("PCI device %s may not be destroyed on this host", d.Address), writeFileRemedy)
	}
	content, err := r.read()
	if err != nil {
		return unusable(err)
	}
	_, matches, err := content.pciSpecs().Match(d)
	switch {
	case err != nil:
		return notAllowed(fmt.Sprintf("PCI device %s cannot be matched with device_spec: %v", d.Address, err), "check the device's attributes in "+pci.Devices)
	case !matches:
		return notAllowed(fmt.Sprintf("PCI device %s (%s:%s) may not be destroyed on this host", d.Address, d.Vendor, d.Product),
			fmt.Sprintf("to allow it, add it to allow.device_spec in %s", r.file))
	}
	return nil
}

// AllowFake is nil if fake devices may be cleaned now, and otherwise the fault not_allowed.
func (r *Rules) AllowFake() error {
	if r.file == "" {
		if r.root != "" {
			return nil
		}
		return notAllowed("no device may be destroyed on this host", writeFileRemedy)
	}
	content, err := r.read()
	if err != nil {
		return unusable(err)
	}
	if !content.fake {
		return notAllowed("fake devices are not allowed on this host", fmt.Sprintf("to allow them, set allow.fake: true in %s", r.file))
	}
	return nil
}

// Scripts gives the commands that are allowed now, by name.
func (r *Rules) Scripts() (map[string]Script, error) {
	content, err := r.readOrNothing()
	return content.scripts, err
}

// DeviceSpecs gives the present entries of device_spec.
func (r *Rules) DeviceSpecs() ([]DeviceSpec, error) {
	content, err := r.readOrNothing()
	return content.specs, err
}

// PCISpecs gives the same entries for matching PCI devices.
func (r *Rules) PCISpecs() (pci.Specs, error) {
	content, err := r.readOrNothing()
	return content.pciSpecs(), err
}

func (c rulesContent) pciSpecs() pci.Specs {
	specs := make(pci.Specs, 0, len(c.specs))
	for _, entry := range c.specs {
		specs = append(specs, entry.Spec)
	}
	return specs
}

// SecretsFile gives the path of the file with the secrets, "" if there is none.
func (r *Rules) SecretsFile() (string, error) {
	content, err := r.readOrNothing()
	return content.secrets, err
}

func (r *Rules) readOrNothing() (rulesContent, error) {
	if r.file == "" {
		return rulesContent{}, nil
	}
	content, err := r.read()
	if err != nil {
		return rulesContent{}, unusable(err)
	}
	return content, nil
}

func (r *Rules) allowBelowRoot(resolved string) error {
	if r.root == "" {
		return notAllowed(resolved+" may not be destroyed on this host", writeFileRemedy)
	}
	// Each time, because the directory may not have existed before.
	root, err := filepath.EvalSymlinks(r.root)
	if err != nil {
		return unusable(err)
	}
	if root == "/" || !strings.HasPrefix(resolved, root+"/") {
		return notAllowed(fmt.Sprintf("%s may not be destroyed: without a host.yaml only paths below %s may", resolved, root), writeFileRemedy)
	}
	return nil
}

// protected says why resolved is never a device.
func (r *Rules) protected(resolved string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, dir := range r.stateDirs {
		for _, part := range []string{lockFolder, journalFolder, devicesFolder, lockName} {
			if path := filepath.Join(dir, part); resolved == path || strings.HasPrefix(resolved, path+"/") {
				return "is part of this worker's own records"
			}
		}
	}
	if r.file != "" {
		// If it cannot be resolved, read returns the error.
		if file, err := filepath.EvalSymlinks(r.file); err == nil && resolved == file {
			return "is the list of what may be destroyed"
		}
	}
	return ""
}

// writeFileRemedy is the remedy without a host.yaml.
const writeFileRemedy = "write a host.yaml that allows it, and set BURNISH_HOST_FILE"

func notAllowed(message, remedy string) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed, Message: message, Remedy: remedy}
}

// unusable is the fault of every call while the file cannot be used. It is transient if
// the worker has no free descriptors or memory, because the file may be valid.
func unusable(err error) *device.Fault {
	f := notAllowed("nothing may be destroyed on this host: "+err.Error(), "correct the file; no restart is needed")
	if IsTransient(err) {
		f.Class, f.Remedy = device.Transient, "it is tried again"
	}
	return f
}

// IsTransient says that err is a lack of resources of this process, or a failure of a disk:
// it says nothing about the file that was read.
func IsTransient(err error) bool {
	return slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EIO}, func(passes error) bool { return errors.Is(err, passes) })
}

// largestRules is the maximum size of host.yaml.
const largestRules = 64 << 10

// read checks who may write the file, and reads it through the same descriptor.
func (r *Rules) read() (content rulesContent, err error) {
	dir, base := filepath.Split(r.file)
	dirFD, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return content, fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, unix.Close(dirFD)) }()
	if err := checkTrusted(dirFD, dir, unix.S_IFDIR, r.owner()); err != nil {
		return content, err
	}
	// O_NONBLOCK, because base might be a pipe. O_NOFOLLOW, because the owner of a link's
	// directory is checked, not that of its target.
	fd, err := unix.Openat(dirFD, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return content, fmt.Errorf("%s is a symbolic link; use the path of the file itself", r.file)
	}
	if err != nil {
		return content, fmt.Errorf("open %s: %w", r.file, &fs.PathError{Op: "openat", Path: base, Err: err})
	}
	file := os.NewFile(uintptr(fd), r.file)
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := checkTrusted(fd, r.file, unix.S_IFREG, r.owner()); err != nil {
		return content, err
	}
	text, err := io.ReadAll(io.LimitReader(file, largestRules+1))
	if err != nil {
		return content, fmt.Errorf("read %s: %w", r.file, err)
	}
	if len(text) > largestRules {
		return content, fmt.Errorf("%s is larger than %d bytes", r.file, largestRules)
	}
	return parseRules(r.file, text)
}

// owner is the uid that may own the file, besides root.
func (r *Rules) owner() uint32 {
	if r.ofRoot {
		return 0
	}
	return uint32(os.Geteuid())
}

// checkTrusted checks that only root, or uid, may write the open file.
func checkTrusted(fd int, path string, kind, uid uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	return checkTrustedStat(st, path, kind, uid)
}

func checkTrustedStat(st unix.Stat_t, path string, kind, uid uint32) error {
	switch {
	case st.Mode&unix.S_IFMT != kind && kind == unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory", path)
	case st.Mode&unix.S_IFMT != kind:
		return fmt.Errorf("%s is not a regular file", path)
	case st.Uid != 0 && st.Uid != uid:
		// A worker that runs as root accepts only root's files.
		remedy := "chown it to root"
		if uid != 0 {
			remedy += fmt.Sprintf(" or to uid %d, the user of this worker", uid)
		}
		return fmt.Errorf("%s belongs to uid %d; %s", path, st.Uid, remedy)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s may be written by others than its owner (mode %04o); chmod go-w it", path, st.Mode&0o7777)
	}
	return nil
}
