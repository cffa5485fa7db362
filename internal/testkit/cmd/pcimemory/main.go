// Command pcimemory is an operator's program for the driver script. It erases and reads a
// PCI device whose whole memory is its BAR 2, such as QEMU's ivshmem, which stands for a
// GPU in tests.
//
// Such a device has no serial number. The operator writes one into
// /etc/pcimemory/ADDRESS.json, and changes it with the device. The same file can slow the
// erase down.
//
//	{"serial": "DEVICE1", "bytes_per_second": 4194304}
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
	// chunk is how many bytes are erased or compared at a time.
	chunk = 64 << 10
	// inUse is EX_TEMPFAIL of sysexits.h: the device is still in use.
	inUse = 75
)

// pciDevice is the device at one PCI address.
type pciDevice struct {
	folder string
	config struct {
		Serial         string `json:"serial"`
		BytesPerSecond int64  `json:"bytes_per_second"`
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pcimemory identify|erase_device|verify|pci_reset ADDRESS")
		os.Exit(2)
	}
	result, err := run(os.Args[1], os.Args[2])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pcimemory:", err)
		if errors.Is(err, unix.EBUSY) {
			os.Exit(inUse)
		}
		os.Exit(1)
	}
}

// run runs a verb and returns what to print.
func run(verb, address string) (map[string]any, error) {
	d := pciDevice{folder: filepath.Join(devices, address)}
	text, err := os.ReadFile(filepath.Join("/etc/pcimemory", address+".json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &d.config); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", address, err)
	}
	var note string
	switch verb {
	case "identify":
		return d.identify()
	case "erase_device":
		note, err = d.withMemory(d.erase)
	case "verify":
		note, err = d.withMemory(zeroes)
	case "pci_reset":
		note, err = d.reset()
	default:
		err = fmt.Errorf("unknown verb %q", verb)
	}
	return map[string]any{"done": err == nil, "note": note}, err
}

func (d pciDevice) identify() (map[string]any, error) {
	memory, err := os.Stat(filepath.Join(d.folder, bar))
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"serial": d.config.Serial, "model": "ivshmem", "size": memory.Size(), "estimate": "1m",
		"steps": []string{"erase_device", "verify", "pci_reset"},
	}, nil
}

// withMemory maps the whole BAR, because sysfs permits no other access to it. The kernel
// refuses to enable a device that is bound to a driver.
func (d pciDevice) withMemory(work func(memory []byte) (string, error)) (note string, err error) {
	enable := filepath.Join(d.folder, "enable")
	if err := set(enable, "1"); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, set(enable, "0")) }()
	file, err := os.OpenFile(filepath.Join(d.folder, bar), os.O_RDWR|os.O_SYNC, 0)
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

func (d pciDevice) erase(memory []byte) (string, error) {
	for at := 0; at < len(memory); at += chunk {
		clear(memory[at:min(at+chunk, len(memory))])
		if rate := d.config.BytesPerSecond; rate > 0 {
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

// reset resets the device. One without a reset method, such as on the root bus, is removed
// from its bus and found by a rescan.
func (d pciDevice) reset() (string, error) {
	err := set(filepath.Join(d.folder, "reset"), "1")
	if !errors.Is(err, os.ErrNotExist) {
		return "reset", err
	}
	signal.Ignore(unix.SIGTERM) // between the two writes there would be no device
	if err := set(filepath.Join(d.folder, "remove"), "1"); err != nil {
		return "", err
	}
	if err := set("/sys/bus/pci/rescan", "1"); err != nil {
		return "", err
	}
	_, err = os.Stat(d.folder)
	return "removed and found again", err
}

// set writes to an existing attribute.
func set(attribute, value string) error {
	file, err := os.OpenFile(attribute, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}
