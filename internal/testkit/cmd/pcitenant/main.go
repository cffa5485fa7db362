// Command pcitenant is what a hostile tenant runs on a PCI function of a guest.
//
//	pcitenant fill ADDRESS BAR       writes over the whole region, and no byte is zero
//	pcitenant count ADDRESS BAR      prints how many bytes of it are not zero
//	pcitenant hold ADDRESS BAR       keeps it mapped, without a descriptor, until it is killed
//	pcitenant kill ADDRESS BAR PID   kills a process once half of the region is zero
//	pcitenant steps JOURNAL          kills the worker in each step of the clean of a device, once, and prints the step's
//	                                 name: when it begins, and where firmware is written a second after that began
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pcitenant:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 2 && args[0] == "steps" {
		return steps(args[1])
	}
	if len(args) < 3 {
		return errors.New("usage: pcitenant fill|count|hold|kill ADDRESS BAR [PID], or steps JOURNAL")
	}
	folder := "/sys/bus/pci/devices/" + args[1]
	path := folder + "/resource" + args[2]
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if args[0] == "kill" {
		return kill(folder, args[2], args[3])
	}
	if err := os.WriteFile(folder+"/enable", []byte("1"), 0); err != nil {
		return err
	}
	memory, err := mapped(path, 0, int(info.Size()))
	if err != nil {
		return err
	}
	switch args[0] {
	case "fill":
		pattern := make([]byte, os.Getpagesize())
		for i := range pattern {
			pattern[i] = byte(i%251) + 1
		}
		for left := memory; len(left) > 0; { // in emulation faster than byte by byte
			left = left[copy(left, pattern):]
		}
	case "count":
		fmt.Fprintln(os.Stdout, len(memory)-bytes.Count(memory, []byte{0}))
	case "hold":
		for {
			time.Sleep(time.Hour)
		}
	}
	// As often as it was enabled: the next one finds it as it was.
	return errors.Join(unix.Munmap(memory), os.WriteFile(folder+"/enable", []byte("0"), 0))
}

// kill watches the memory by its physical address: who has the region itself open is found.
func kill(folder, bar, process string) error {
	pid, err := strconv.Atoi(process)
	if err != nil {
		return err
	}
	table, err := os.Open(folder + "/resource")
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(bar) // it was in a path that is there
	var start, end, flags int64
	for range n + 1 {
		if _, err := fmt.Fscanf(table, "0x%x 0x%x 0x%x\n", &start, &end, &flags); err != nil {
			return err
		}
	}
	memory, err := mapped("/dev/mem", start+(end-start+1)/2-int64(os.Getpagesize()), os.Getpagesize())
	if err != nil {
		return err
	}
	for memory[0] != 0 {
		time.Sleep(5 * time.Millisecond) // each look takes processor time
	}
	return errors.Join(unix.Kill(pid, unix.SIGKILL), table.Close())
}

func mapped(path string, offset int64, size int) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return nil, err
	}
	memory, err := unix.Mmap(int(file.Fd()), offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return memory, errors.Join(err, file.Close())
}

// steps ends when it is killed. It waits for the kernel to tell of each new journal: polling takes processor time.
func steps(journal string) error {
	saves, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	if _, err := unix.InotifyAddWatch(saves, filepath.Dir(journal), unix.IN_MOVED_TO); err != nil {
		return err
	}
	killed := ""
	for events := make([]byte, 4096); ; {
		if _, err := unix.Read(saves, events); err != nil {
			return err
		}
		var is struct {
			Data struct {
				Step          string
				Working, Done bool
			}
		}
		text, err := os.ReadFile(journal)
		if err == nil {
			err = json.Unmarshal(text, &is)
		}
		if err != nil {
			return err
		}
		if is.Data.Step == killed || is.Data.Done || !is.Data.Working {
			continue
		}
		if killed = is.Data.Step; killed == "firmware_reflash" {
			for len(pids("/sbin/devlink", "dev", "flash")) == 0 {
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(time.Second) // of about ten that it takes
		}
		for _, pid := range pids("/usr/bin/burnish-worker") {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				return err
			}
		}
		fmt.Fprintln(os.Stdout, killed)
	}
}

// pids are the processes whose command line begins so.
func pids(words ...string) (all []int) {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, path := range found {
		line, _ := os.ReadFile(path) // it has ended
		if strings.HasPrefix(string(line), strings.Join(words, "\x00")+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			all = append(all, pid)
		}
	}
	return all
}
