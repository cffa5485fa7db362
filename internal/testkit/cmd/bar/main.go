// Command bar reads and writes the memory of a PCI device through one of its BARs. In a guest it is
// the tool of a tenant, of an operator's own program and of a witness.
//
//	bar fill FILE                      writes the byte 0xa5 to all of it
//	bar zero FILE BYTES_PER_SECOND     writes zeroes; 0: as fast as it can
//	bar count FILE                     prints how many bytes are not zero
//	bar hold FILE                      keeps it mapped until a signal comes
package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// chunk is how many bytes are written or compared at a time.
const chunk = 64 << 10

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: bar fill|zero|count|hold FILE [BYTES_PER_SECOND]")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3:]...); err != nil {
		fmt.Fprintln(os.Stderr, "bar:", err)
		os.Exit(1)
	}
}

// run maps the whole BAR, because sysfs permits no other access to it.
func run(verb, path string, args ...string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s: %w", path, err)
	}
	if err := file.Close(); err != nil {
		return err
	}
	value, rate, left := byte(0), 0, 0
	switch verb {
	case "hold":
		return unix.Pause()
	case "fill":
		value = 0xa5
	case "zero":
		if rate, err = strconv.Atoi(args[0]); err != nil {
			return err
		}
	}
	part := bytes.Repeat([]byte{value}, chunk)
	for at := 0; at < len(memory); at += chunk {
		if verb == "count" {
			left += chunk - bytes.Count(memory[at:at+chunk], []byte{0})
			continue
		}
		copy(memory[at:], part)
		if rate > 0 {
			time.Sleep(chunk * time.Second / time.Duration(rate))
		}
	}
	fmt.Println(left)
	return nil
}
