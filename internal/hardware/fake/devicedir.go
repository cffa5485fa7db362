package fake

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// deviceDir is the directory that holds one device.
type deviceDir struct{ dir string }

func (p deviceDir) contents() string { return filepath.Join(p.dir, "contents") }
func (p deviceDir) state() string    { return filepath.Join(p.dir, "state.json") }

// state is what a device keeps besides its bytes.
type state struct {
	// Serial overrides the serial of name and settings: for hardware that was moved here
	// from another name, or that a test put into the slot.
	Serial string `json:"serial,omitempty"`
	// Power is the power state, "" the one of the settings. Resets counts the resets.
	Power  string `json:"power,omitempty"`
	Resets int    `json:"resets,omitempty"`
	// Faults counts how often each injected fault has happened.
	Faults map[string]int `json:"faults"`
}

// create makes the device unless it exists. The contents get their name only once they
// have their full size, so that an interruption never leaves half a device.
func (p deviceDir) create(size int64) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return stateFault("make", p.dir, err)
	}
	if _, err := os.Lstat(p.contents()); !errors.Is(err, fs.ErrNotExist) {
		return stateFault("stat", p.contents(), err)
	}
	err := atomicfile.Create(p.contents(), func(file *os.File) error { return file.Truncate(size) })
	if errors.Is(err, fs.ErrExist) {
		return nil // another call created it at the same time
	}
	if err != nil {
		return stateFault("make", p.contents(), err)
	}
	return p.store(state{Faults: map[string]int{}})
}

// moveFrom moves the hardware here from its previous directory, as an operator moves a
// drive, unless some is here already. It keeps its serial.
func (p deviceDir) moveFrom(from deviceDir, serial string) error {
	if _, err := os.Lstat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		return stateFault("stat", p.dir, err)
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

// load reads the state. A device without a state file has had no fault yet.
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

// store replaces the state at once and returns when it is on stable storage.
func (p deviceDir) store(s state) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return stateFault("write", p.state(), err)
	}
	return stateFault("write", p.state(), atomicfile.Write(p.state(), append(text, '\n')))
}

// stateFault is the fault of a device directory that cannot be used. nil stays nil.
func stateFault(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	return hardware.Refused(device.CodeStateDirError, "let the worker's user read and write the state directory",
		"%s %q: %v", doing, path, hardware.Reason(err))
}
