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

// Rules is the host's own list of what may be erased (SAFETY F13). Every call reads and
// checks the file again: an entry that an operator removes is not allowed at the next step,
// and an invalid file allows nothing. The zero Rules allow nothing.
//
// host.yaml has these keys, all optional; an unknown one is an error:
//
//	allow:
//	  # Absolute paths as they are on the host, with symbolic links resolved.
//	  # * ? [a-z] match within one name, never a /; a trailing /** matches
//	  # everything below, at any depth.
//	  paths: [/dev/nvme1n1, "/srv/images/*.img", "/srv/pool/**"]
//	  # PCI devices as in Nova: vendor_id, product_id, address. One entry must match,
//	  # by all that it says. one_time_use: yes makes those that are found and enrolled by
//	  # themselves one-time-use; no VF can be (S0.13). live_migratable: yes marks those whose
//	  # instance can be migrated while it runs. clear_action and clear_strategy are the
//	  # erase policy of its devices; what is left out is taken from the policy file.
//	  # Other keys are tags, and must not resemble these.
//	  device_spec: [{vendor_id: "8086", address: "0000:0a:00.*"}]
//	  # Commands that may be run, by name: who must own the file, what it must be,
//	  # which uid it runs as.
//	  scripts: {reset: {path: /usr/local/sbin/reset, owner: root, sha256: "…", uid: 0}}
//	  # Servers that may be cleaned over Redfish, by their whole serials.
//	  nodes: [ABC1234, "0012"]
//	  # Whether fake devices may be cleaned.
//	  fake: true
//	# The file with the BMCs' passwords; see Secret.
//	secrets: /etc/burnish/secrets.yaml
//
// scripts and secrets are parsed as strictly. They allow nothing by themselves: drivers read
// them before each use.
type Rules struct {
	file string // "" for DefaultRules and the zero Rules
	// ofRoot: a file of this process's own user is refused.
	ofRoot bool
	root   string // of DefaultRules: everything below may be destroyed

	mu        sync.Mutex
	stateDirs []string // state directories whose records are never a device
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

// LoadRules reads the rules from file, which must be valid. The file and its directory must
// belong to root or to this worker's own user, and only their owner may write to them. The
// error lists every mistake with its line.
func LoadRules(file string) (*Rules, error) { return loadRules(file, false) }

// LoadRootRules is LoadRules for a program that has more privileges than the user who starts
// it: the file and its directory must belong to root.
func LoadRootRules(file string) (*Rules, error) { return loadRules(file, true) }

func loadRules(file string, ofRoot bool) (*Rules, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", file, err)
	}
	r := &Rules{file: absolute, ofRoot: ofRoot}
	if _, err := r.read(); err != nil {
		return nil, err
	}
	return r, nil
}

// DefaultRules are those of a worker of role all without host.yaml, for trying Burnish out:
// they allow paths below the state directory, and fake devices.
func DefaultRules(stateDir string) *Rules {
	if abs, err := filepath.Abs(stateDir); err == nil {
		stateDir = abs
	} else {
		stateDir = "" // no working directory: nothing is allowed
	}
	return &Rules{root: stateDir}
}

// WorkerRules are the rules of a worker: those of file; without a file DefaultRules if
// byDefault, else the zero Rules.
func WorkerRules(file, stateDir string, byDefault bool) (*Rules, error) {
	switch {
	case file != "":
		return LoadRules(file)
	case byDefault:
		return DefaultRules(stateDir), nil
	}
	return &Rules{}, nil
}

// Content gives what the rules say at this moment.
func (r *Rules) Content() (Content, error) {
	switch {
	case r.file != "":
		content, err := r.read()
		if err != nil {
			return Content{}, unusable(err)
		}
		return content, nil
	case r.root != "":
		return Content{Paths: []string{r.root + anyDepth}, Fake: true}, nil
	}
	return Content{}, nil
}

// protect makes the rules refuse the records of a state directory.
func (r *Rules) protect(stateDir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stateDirs = append(r.stateDirs, stateDir)
}

// AllowPath is nil if the file or device at resolved may be erased now. resolved is an
// absolute path without symbolic links: the caller opens it in a way that refuses them
// (F14). Its fault is not_allowed. The files of this host's locks, records and rules are
// never allowed.
func (r *Rules) AllowPath(resolved string) error {
	if !filepath.IsAbs(resolved) || filepath.Clean(resolved) != resolved || strings.ContainsRune(resolved, 0) {
		return notAllowed(fmt.Sprintf("%q is not an absolute, resolved path", resolved),
			"enroll the device by its absolute path")
	}
	if why := r.protected(resolved); why != "" {
		return notAllowed(fmt.Sprintf("%s %s", resolved, why), "name another path")
	}
	if r.file == "" {
		return r.allowBelowRoot(resolved)
	}
	content, err := r.Content()
	if err != nil {
		return err
	}
	for _, pattern := range content.Paths {
		if matchPath(pattern, resolved) {
			return nil
		}
	}
	return notAllowed(fmt.Sprintf("%s may not be destroyed on this host", resolved),
		fmt.Sprintf("if it may, add it to allow.paths in %s, as it is resolved", r.file))
}

// AllowPCI is nil if d matches an entry of device_spec now (S2.6, S2.7). Without such an
// entry no PCI device may be erased. Its fault is not_allowed.
func (r *Rules) AllowPCI(d pci.Device) error {
	if d.Address == "" {
		return notAllowed("a PCI device without an address may not be destroyed", "enroll the device by its PCI address")
	}
	content, err := r.Content()
	if err != nil {
		return err
	}
	_, matches, err := content.pciSpecs().Match(d)
	switch {
	case err != nil:
		return notAllowed(fmt.Sprintf("PCI device %s cannot be matched with device_spec: %v", d.Address, err),
			"see what the device says of itself in "+pci.Devices)
	case !matches:
		what := fmt.Sprintf("PCI device %s (%s:%s) may not be destroyed on this host", d.Address, d.Vendor, d.Product)
		return notAllowed(what, r.add("add it to allow.device_spec"))
	}
	return nil
}

// add is the remedy where no rule allows a device.
func (r *Rules) add(what string) string {
	if r.file == "" {
		return writeFileRemedy
	}
	return "if it may, " + what + " in " + r.file
}

// AllowNode is nil if the server with this serial may be destroyed now. Its fault is
// not_allowed.
func (r *Rules) AllowNode(serial string) error {
	content, err := r.Content()
	if err != nil {
		return err
	}
	if serial == "" || !slices.Contains(content.Nodes, serial) {
		what := fmt.Sprintf("the server %s may not be destroyed on this host", serial)
		return notAllowed(what, r.add("add its serial to allow.nodes"))
	}
	return nil
}

// AllowFake is nil if fake devices may be cleaned now; otherwise the fault is not_allowed.
func (r *Rules) AllowFake() error {
	content, err := r.Content()
	if err != nil {
		return err
	}
	if !content.Fake {
		return notAllowed("fake devices are not allowed on this host", r.add("set allow.fake: true"))
	}
	return nil
}

// Scripts gives the commands that are allowed at this moment, by name.
func (r *Rules) Scripts() (map[string]Script, error) {
	content, err := r.Content()
	return content.Scripts, err
}

// PCISpecs gives the entries of device_spec as what PCI devices are matched with.
func (r *Rules) PCISpecs() (pci.Specs, error) {
	content, err := r.Content()
	return content.pciSpecs(), err
}

func (c Content) pciSpecs() pci.Specs {
	specs := make(pci.Specs, 0, len(c.Specs))
	for _, entry := range c.Specs {
		specs = append(specs, entry.Spec)
	}
	return specs
}

func (r *Rules) allowBelowRoot(resolved string) error {
	if r.root == "" {
		return notAllowed(resolved+" may not be destroyed on this host", writeFileRemedy)
	}
	// Each time, because the directory may be new.
	root, err := filepath.EvalSymlinks(r.root)
	if err != nil {
		return unusable(err)
	}
	if root == "/" || !strings.HasPrefix(resolved, root+"/") {
		return notAllowed(fmt.Sprintf("%s may not be destroyed: without a host.yaml only paths below %s may", resolved, root),
			writeFileRemedy)
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
		// If it does not resolve, read reports it.
		if file, err := filepath.EvalSymlinks(r.file); err == nil && resolved == file {
			return "is the list of what may be destroyed"
		}
	}
	return ""
}

// writeFileRemedy is the remedy where no rule allows a device.
const writeFileRemedy = "write a host.yaml that allows it, and name it in BURNISH_HOST_FILE"

func notAllowed(message, remedy string) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed, Message: message, Remedy: remedy}
}

// unusable is the fault of every call while the file cannot be used. It is transient if this
// process has run out of descriptors or memory.
func unusable(err error) *device.Fault {
	f := notAllowed("nothing may be destroyed on this host: "+err.Error(), "correct it; no restart is needed")
	if IsTransient(err) {
		f.Class, f.Remedy = device.Transient, "the step is retried"
	}
	return f
}

// IsTransient says whether this process ran out of a resource, or a disk failed: such an
// error says nothing about the file.
func IsTransient(err error) bool {
	return slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EAGAIN, unix.EIO},
		func(passes error) bool { return errors.Is(err, passes) })
}

// largestRules bounds the size of host.yaml.
const largestRules = 64 << 10

// read checks who may write to the file, and reads it.
func (r *Rules) read() (Content, error) {
	text, err := readTrusted(r.file, r.owner(), largestRules, false)
	if err != nil {
		return Content{}, err
	}
	return parseRules(r.file, text)
}

// readTrusted reads a file that only root, or uid, may write to, as its directory; no other
// user may read a secret file. It is read through the descriptors that were checked.
func readTrusted(name string, uid uint32, largest int64, secret bool) (text []byte, err error) {
	dir, base := filepath.Split(name)
	dirFD, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, unix.Close(dirFD)) }()
	if err := checkTrusted(dirFD, dir, unix.S_IFDIR, uid); err != nil {
		return nil, err
	}
	// Not blocking: base may be a pipe. Not following links: the owner of a link's target is
	// not checked above.
	fd, err := unix.Openat(dirFD, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link; name the file itself", name)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, &fs.PathError{Op: "openat", Path: base, Err: err})
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := checkTrusted(fd, name, unix.S_IFREG, uid); err != nil {
		return nil, err
	}
	if secret {
		if err := checkPrivate(fd, name); err != nil {
			return nil, err
		}
	}
	text, err = io.ReadAll(io.LimitReader(file, largest+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(text)) > largest {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, largest)
	}
	return text, nil
}

// owner is the user who may own the file besides root.
func (r *Rules) owner() uint32 {
	if r.ofRoot {
		return 0
	}
	return uint32(os.Geteuid())
}

// checkTrusted checks that only root, or uid, may write to the open file.
func checkTrusted(fd int, path string, kind, uid uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
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
			remedy += fmt.Sprintf(" or to uid %d, which this worker runs as", uid)
		}
		return fmt.Errorf("%s belongs to uid %d; %s", path, st.Uid, remedy)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%s may be written by others than its owner (mode %04o); chmod go-w it", path, st.Mode&0o7777)
	}
	return nil
}
