package fake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
)

// deviceDir is the directory of one device.
type deviceDir struct{ dir string }

func (p deviceDir) contents() string { return filepath.Join(p.dir, "contents") }
func (p deviceDir) state() string    { return filepath.Join(p.dir, "state.json") }

// state is what a device remembers beside its bytes.
type state struct {
	// Serial is the piece's own, where it is not what name and settings make it: a
	// piece that came from another name, or that somebody put into the place.
	Serial string `json:"serial,omitempty"`
	// Faults counts how often each fault of the script has happened.
	Faults map[string]int `json:"faults"`
}

// create makes the device unless it is there. Its contents get their name only when
// they have their size: whatever stops it, half a device is never found.
func (p deviceDir) create(size int64) (err error) {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return stateFault("make", p.dir, err)
	}
	if _, err := os.Lstat(p.contents()); !errors.Is(err, fs.ErrNotExist) {
		return stateFault("look at", p.contents(), err)
	}
	file, err := os.CreateTemp(p.dir, "contents.*")
	if err != nil {
		return stateFault("make contents in", p.dir, err)
	}
	defer func() {
		if gone := os.Remove(file.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, stateFault("remove", file.Name(), gone))
		}
	}()
	err = errors.Join(file.Truncate(size), file.Sync(), file.Close())
	if err == nil {
		err = unix.Renameat2(unix.AT_FDCWD, file.Name(), unix.AT_FDCWD, p.contents(), unix.RENAME_NOREPLACE)
	}
	if errors.Is(err, unix.EEXIST) {
		return nil // made by another look at the same time
	}
	if err != nil {
		return stateFault("make", p.contents(), err)
	}
	return p.store(state{Faults: map[string]int{}})
}

// moveFrom brings a piece here from where it was, as an operator's hand does, unless one
// is here already. It keeps its serial.
func (p deviceDir) moveFrom(from deviceDir, serial string) error {
	if _, err := os.Lstat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		return stateFault("look at", p.dir, err)
	}
	if _, err := os.Lstat(from.contents()); err != nil {
		return missing(from, err)
	}
	s, err := from.load()
	if err != nil {
		return err
	}
	if s.Serial == "" {
		s.Serial = serial
		if err := from.store(s); err != nil {
			return err
		}
	}
	return stateFault("move", p.dir, os.Rename(from.dir, p.dir))
}

// load reads the state; a device without one has had no fault yet.
func (p deviceDir) load() (state, error) {
	s := state{Faults: map[string]int{}}
	text, err := os.ReadFile(p.state())
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return state{}, stateFault("read", p.state(), err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return state{}, stateFault("read", p.state(), err)
	}
	if s.Faults == nil {
		s.Faults = map[string]int{}
	}
	return s, nil
}

// store replaces the state in one act and returns once it is on stable storage.
func (p deviceDir) store(s state) (err error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return stateFault("write", p.state(), err)
	}
	file, err := os.CreateTemp(p.dir, "state.*")
	if err != nil {
		return stateFault("write", p.state(), err)
	}
	defer func() {
		if gone := os.Remove(file.Name()); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, stateFault("remove", file.Name(), gone))
		}
	}()
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return stateFault("write", p.state(), err)
	}
	if err := os.Rename(file.Name(), p.state()); err != nil {
		return stateFault("write", p.state(), err)
	}
	dir, err := os.Open(p.dir)
	if err != nil {
		return stateFault("open", p.dir, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return stateFault("flush", p.dir, err)
	}
	return nil
}

// stateFault is the fault of a device's directory that cannot be used; nil stays nil.
func stateFault(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	var inPath *fs.PathError
	if errors.As(err, &inPath) {
		err = inPath.Err
	}
	return refused(device.CodeStateDirError, "let the worker's user read and write the state directory", "%s", fmt.Sprintf("%s %q: %v", doing, path, err))
}
