// Command cardmemory is an operator's program for the driver script: it erases and reads a
// PCI card whose whole memory is its BAR 2, as that of QEMU's ivshmem is, which stands for
// a GPU in tests.
//
// Such a card has no serial number: the operator writes one into
// /etc/cardmemory/ADDRESS.json, and whoever puts another card there writes another. The
// same file can slow the erase down.
//
//	{"serial": "CARD1", "bytes_per_second": 4194304}
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	devices = "/sys/bus/pci/devices"
	bar     = "resource2"
	// chunk is what is erased or compared at once.
	chunk = 64 << 10
	// inUse is EX_TEMPFAIL of sysexits.h: somebody still uses the card.
	inUse = 75
)

// card is what is at one PCI address.
type card struct {
	folder string
	config struct {
		Serial         string `json:"serial"`
		BytesPerSecond int64  `json:"bytes_per_second"`
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: cardmemory identify|erase_device|verify|pci_reset ADDRESS")
		os.Exit(2)
	}
	said, err := answer(os.Args[1], os.Args[2])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(said)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cardmemory:", err)
		if errors.Is(err, unix.EBUSY) {
			os.Exit(inUse)
		}
		os.Exit(1)
	}
}

// answer does what a verb asks for and gives what is to be printed.
func answer(verb, address string) (map[string]any, error) {
	c := card{folder: filepath.Join(devices, address)}
	text, err := os.ReadFile(filepath.Join("/etc/cardmemory", address+".json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &c.config); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", address, err)
	}
	var note string
	switch verb {
	case "identify":
		return c.identify()
	case "erase_device":
		note, err = c.withMemory(c.erase)
	case "verify":
		note, err = c.withMemory(zeroes)
	case "pci_reset":
		note, err = c.reset()
	default:
		err = fmt.Errorf("there is no verb %q", verb)
	}
	return map[string]any{"done": err == nil, "note": note}, err
}

func (c card) identify() (map[string]any, error) {
	memory, err := os.Stat(filepath.Join(c.folder, bar))
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"serial": c.config.Serial, "model": "ivshmem", "size": memory.Size(), "estimate": "1m",
		"steps": []string{"erase_device", "verify", "pci_reset"},
	}, nil
}

// withMemory has work see the whole BAR, which sysfs lets nobody read or write but by
// mapping it. The kernel refuses to enable a card that a driver has.
func (c card) withMemory(work func(memory []byte) (string, error)) (note string, err error) {
	enable := filepath.Join(c.folder, "enable")
	if err := set(enable, "1"); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, set(enable, "0")) }()
	file, err := os.OpenFile(filepath.Join(c.folder, bar), os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return "", fmt.Errorf("map %s: %w", file.Name(), err)
	}
	defer func() { err = errors.Join(err, unix.Munmap(memory)) }()
	return work(memory)
}

func (c card) erase(memory []byte) (string, error) {
	for at := 0; at < len(memory); at += chunk {
		clear(memory[at:min(at+chunk, len(memory))])
		if rate := c.config.BytesPerSecond; rate > 0 {
			time.Sleep(chunk * time.Second / time.Duration(rate))
		}
	}
	return fmt.Sprintf("%d bytes written", len(memory)), nil
}

func zeroes(memory []byte) (string, error) {
	nothing := make([]byte, chunk)
	for at := 0; at < len(memory); at += chunk {
		if part := memory[at:min(at+chunk, len(memory))]; !bytes.Equal(part, nothing[:len(part)]) {
			return "", fmt.Errorf("the %d bytes from %d on are not all zero", len(part), at)
		}
	}
	return fmt.Sprintf("%d bytes read, all zero", len(memory)), nil
}

// reset resets the card. One that knows no reset, as a card on the root bus that has none
// of its own, is taken off its bus and found again.
func (c card) reset() (string, error) {
	err := set(filepath.Join(c.folder, "reset"), "1")
	if !errors.Is(err, os.ErrNotExist) {
		return "reset", err
	}
	signal.Ignore(unix.SIGTERM) // half-way the card would be gone
	if err := set(filepath.Join(c.folder, "remove"), "1"); err != nil {
		return "", err
	}
	if err := set("/sys/bus/pci/rescan", "1"); err != nil {
		return "", err
	}
	_, err = os.Stat(c.folder)
	return "removed and found again", err
}

// set writes to an attribute, which must be there.
func set(attribute, value string) error {
	file, err := os.OpenFile(attribute, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}
