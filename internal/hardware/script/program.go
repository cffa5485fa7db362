package script

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

// program is one of host.yaml's scripts after all checks. Its bytes are in sealed memory, so
// that what runs is what was checked, even if the file changes meanwhile (F13).
type program struct {
	rule       host.Script
	bytes      *os.File
	credential *syscall.Credential // nil means this worker's own user
}

// maxProgramSize is the size of the largest program.
const maxProgramSize = 64 << 20

// program reads and checks the script of this name. The caller closes its bytes.
func (d *Driver) program(name string) (*program, error) {
	rules, err := d.host.Scripts()
	if err != nil {
		return nil, err
	}
	rule, ok := rules[name]
	if !ok {
		return nil, notAllowed("add it to allow.scripts in the host's host.yaml, if it may be run",
			"there is no script %q on this host", name)
	}
	p := &program{rule: rule}
	if p.credential, err = credential(rule); err != nil {
		return nil, notAllowed("correct its uid in host.yaml, or run the worker as root", "script %s: %v", name, err)
	}
	if p.bytes, err = readChecked(rule); host.IsTransient(err) {
		return nil, fmt.Errorf("check the script %s: %w", name, err)
	} else if err != nil {
		return nil, notAllowed("find out who changed it; then correct the file, or its entry in host.yaml",
			"script %s does not match host.yaml: %v", name, err)
	}
	return p, nil
}

// Programs checks every script of host.yaml; see hardware.ProgramUser.
func (d *Driver) Programs() (map[string]error, error) {
	rules, err := d.host.Scripts()
	if err != nil {
		return nil, err
	}
	all := make(map[string]error, len(rules))
	for name := range rules {
		all[name] = d.Allowed(name)
	}
	return all, nil
}

// Allowed is nil if there is a script of this name, and it is what host.yaml says.
func (d *Driver) Allowed(name string) error {
	p, err := d.program(name)
	if err != nil {
		return err
	}
	return p.bytes.Close()
}

func notAllowed(remedy, format string, args ...any) error {
	return hardware.Refused(device.CodeNotAllowed, remedy, format, args...)
}

// credential is the user that a script runs as, nil for the worker's own.
func credential(rule host.Script) (*syscall.Credential, error) {
	own := os.Geteuid()
	if rule.UID == nil || int(*rule.UID) == own {
		return nil, nil
	}
	if own != 0 {
		return nil, fmt.Errorf("it must run as uid %d, which this worker (uid %d) cannot switch to", *rule.UID, own)
	}
	who, err := user.LookupId(strconv.FormatUint(uint64(*rule.UID), 10))
	if err != nil {
		return nil, err
	}
	group, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the group of uid %d: %w", *rule.UID, err)
	}
	return &syscall.Credential{Uid: *rule.UID, Gid: uint32(group)}, nil
}

// readChecked copies the script to sealed memory and checks it.
func readChecked(rule host.Script) (_ *os.File, err error) {
	file, err := os.OpenFile(rule.Path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symbolic link; name the file itself", rule.Path)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return nil, fmt.Errorf("stat %s: %w", rule.Path, err)
	}
	owner, err := uidOf(rule.Owner)
	switch {
	case err != nil:
		return nil, err
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("%s is not a regular file", rule.Path)
	case stat.Uid != owner:
		return nil, fmt.Errorf("%s belongs to uid %d, but its owner must be %s", rule.Path, stat.Uid, rule.Owner)
	case stat.Mode&0o022 != 0:
		return nil, fmt.Errorf("%s can be written by others than its owner (mode %04o)", rule.Path, stat.Mode&0o7777)
	}
	copied, size, digest, err := hardware.Sealed(file, maxProgramSize, unix.MFD_EXEC)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", rule.Path, err)
	}
	have := hex.EncodeToString(digest[:])
	switch {
	case size > maxProgramSize:
		return nil, errors.Join(fmt.Errorf("%s is larger than %d bytes", rule.Path, maxProgramSize), copied.Close())
	case have != rule.SHA256:
		return nil, errors.Join(fmt.Errorf("the SHA-256 of %s is %s", rule.Path, have), copied.Close())
	}
	return copied, nil
}

// uidOf reads a user name or number. root is 0 even without a user database.
func uidOf(owner string) (uint32, error) {
	if owner == "root" {
		return 0, nil
	}
	if uid, err := strconv.ParseUint(owner, 10, 32); err == nil {
		return uint32(uid), nil
	}
	who, err := user.Lookup(owner)
	if err != nil {
		return 0, err
	}
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	return uint32(uid), err
}
