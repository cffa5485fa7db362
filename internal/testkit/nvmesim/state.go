package nvmesim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"burnish/internal/atomicfile"
)

// world is what a site's state file holds, with its lock held.
type state struct {
	dir   string
	Slots []*slot
}

// slot is a PCI function and the drive in it.
type slot struct {
	Controller Controller
	// Name is the controller's below dev: "nvme0". It is kept while no driver is bound.
	Name   string
	Driver string
	// Subsystem is the number of the subsystem while the nvme driver is bound.
	Subsystem int
	// Media is the drive's file below the directory media, Size its bytes.
	Media string
	Size  uint64
	// Written is the media's time of change when the drive last was known as clean.
	MediaTime int64
	Disks     []disk

	// Polled counts the readings of the log since the sanitize began.
	Polls int
	// Image is the beginning of the firmware that was downloaded.
	Image []byte
}

// disk is a namespace as the kernel shows it.
type disk struct {
	NSID uint32
	// Instance is the number behind the n, which need not be the NSID.
	Instance int
	// Name is the disk's: nvme0n1; "" of a path whose head is another controller's.
	Name string
	// Hidden is the path of a multipath head: nvme0c0n1.
	Hidden string
	Loop   int
	// Shows is the namespace as it was when the kernel looked.
	Namespace Namespace
}

// Command is one command that was answered.
type Command struct {
	// Path is the node that it was sent to, Serial the drive's that answered.
	Path, Serial string
	Opcode       uint8
	NSID         uint32
	// CDW are dwords 10 to 15.
	CDW    [6]uint32
	Status Status
	// Errno is the error of a call that no controller answered.
	Errno int
}

const (
	stateFile = "state.json"
	logFile   = "log.jsonl"
	lockFile  = "lock"
)

// locked runs do with the state of the site under its lock, and keeps what do makes of
// it, also where it fails: what it did is done.
func withState(dir string, do func(*state) error) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := atomicfile.Lock(int(lock.Fd())); err != nil {
		return fmt.Errorf("lock the site: %w", err)
	}
	w := &state{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist): // A site that is being made.
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(text, w); err != nil {
			return fmt.Errorf("read the site: %w", err)
		}
	}
	return errors.Join(do(w), w.save())
}

func (w *state) save() error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	next := filepath.Join(w.dir, stateFile+".new")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(w.dir, stateFile))
}

// note writes a command to the log.
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

// noted reads the log.
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

// at finds what a node's name stands for now: a controller, or one of its namespaces.
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

// subsystem gives the slots with the same subsystem as s that the nvme driver has, in
// the order of their names.
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

// number is the one in the controller's name.
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

// bytes is how much of the media a namespace has.
func (s *slot) bytes(n *Namespace) uint64 { return n.Blocks * s.blockSize(n) }
