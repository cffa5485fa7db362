// Command pcitenant is what a hostile tenant runs on a PCI function of a guest.
//
//	pcitenant fill ADDRESS BAR       writes over the whole region, and no byte is zero
//	pcitenant count ADDRESS BAR      prints how many bytes of it are not zero
//	pcitenant hold ADDRESS BAR       keeps it mapped, without a descriptor, until it is killed
//	pcitenant kill ADDRESS BAR PID   kills a process once half of the region is zero
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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
	if len(args) < 3 {
		return errors.New("usage: pcitenant fill|count|hold|kill ADDRESS BAR [PID]")
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
		for i := range memory {
			memory[i] = byte(i%251) + 1
		}
	case "count":
		count := 0
		for _, one := range memory {
			if one != 0 {
				count++
			}
		}
		fmt.Fprintln(os.Stdout, count)
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
		time.Sleep(200 * time.Microsecond)
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
