package nvmesim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"burnish/internal/atomicfile"
)

// state is the content of a host's state file, while its lock is held.
type state struct {
	dir   string
	saved []byte // the file's content
	Slots []*slot
}

// slot is a PCI function and the drive in it.
type slot struct {
	Controller Controller
	// Name is the controller's below dev: "nvme0". It stays while no driver is bound.
	Name   string
	Driver string
	// Subsystem is the number of the subsystem while the nvme driver is bound.
	Subsystem int
	// Media is the drive's file below the directory media, Size its bytes.
	Media string
	Size  uint64
	// MediaTime is the media's modification time when the drive last was known as erased.
	MediaTime int64
	Disks     []disk

	// Polls counts the reads of the log since the sanitize began.
	Polls int
}

// disk is a namespace as the kernel shows it.
type disk struct {
	NSID uint32
	// Instance is the number after the n, which need not be the NSID.
	Instance int
	// Name is the disk's, such as nvme0n1; "" for a path whose head belongs to another
	// controller.
	Name string
	// Hidden is the path of a multipath head, such as nvme0c0n1.
	Hidden string
	Loop   int
	// Restricted: the drive takes no writes.
	Restricted bool
	// Namespace is what the kernel has seen of it.
	Namespace Namespace
}

// Command is one command that was answered.
type Command struct {
	// Path is the node, Serial the serial number of the drive.
	Path, Serial string
	Opcode       uint8
	NSID         uint32
	// CDW are dwords 10 to 15.
	CDW    [6]uint32
	Status Status
	// Errno is the error of a call without a status.
	Errno int
}

const (
	stateFile = "state.json"
	logFile   = "log.jsonl"
	lockFile  = "lock"
)

// withState runs do with the state under the host's lock. It saves the state also after an
// error: what do did until then has happened.
func withState(dir string, do func(*state) error) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := atomicfile.Lock(int(lock.Fd())); err != nil {
		return fmt.Errorf("lock the host: %w", err)
	}
	w := &state{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist): // a host that is being created
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, w); err != nil {
			return fmt.Errorf("read the host's state: %w", err)
		}
		w.saved = text
	}
	return errors.Join(do(w), w.restrictWrites(), w.save())
}

func (w *state) save() error {
	text, err := json.Marshal(w)
	if err != nil || bytes.Equal(text, w.saved) {
		return err
	}
	w.saved = text
	next := filepath.Join(w.dir, stateFile+".new")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(w.dir, stateFile))
}

// appendLog adds a command to the log.
func (w *state) appendLog(c Command) error {
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(w.dir, logFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = log.Write(append(line, '\n'))
	return errors.Join(err, log.Close())
}

func readLog(dir string) ([]Command, error) {
	log, err := os.Open(filepath.Join(dir, logFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	var all []Command
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		var c Command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, lines.Err()
}

// find is the controller or namespace that a node's name stands for at present.
func (w *state) find(name string) (s *slot, nsid uint32) {
	for _, s := range w.Slots {
		if s.Driver != nvmeDriver {
			continue
		}
		if s.Name == name {
			return s, 0
		}
		for _, d := range s.Disks {
			if d.Name == name {
				return s, d.NSID
			}
		}
	}
	return nil, 0
}

// subsystem is the slots of the same subsystem that are bound to nvme, in the order of names.
func (w *state) subsystem(s *slot) []*slot {
	var all []*slot
	for _, other := range w.Slots {
		if other.Driver == nvmeDriver && other.Controller.SubsystemNQN == s.Controller.SubsystemNQN {
			all = append(all, other)
		}
	}
	slices.SortFunc(all, func(a, b *slot) int { return a.number() - b.number() })
	return all
}

// number is that in the controller's name.
func (s *slot) number() int {
	var n int
	if _, err := fmt.Sscanf(s.Name, "nvme%d", &n); err != nil {
		return -1
	}
	return n
}

// namespace finds an allocated namespace.
func (s *slot) namespace(nsid uint32) *Namespace {
	for i := range s.Controller.Namespaces {
		if s.Controller.Namespaces[i].NSID == nsid {
			return &s.Controller.Namespaces[i]
		}
	}
	return nil
}

func (s *slot) blockSize(n *Namespace) uint64 {
	return uint64(s.Controller.Formats[n.Format].BlockSize)
}

// bytes is the size of a namespace.
func (s *slot) bytes(n *Namespace) uint64 { return n.Blocks * s.blockSize(n) }
