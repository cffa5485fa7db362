package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Identity names one process of one machine, so that another process there can find out
// whether it has ended. Its text is the worker's identity in Temporal.
type Identity struct {
	Name    string // what the process is
	Machine string
	Pid     int
	Started string // in the kernel's clock ticks since boot, because pids are reused
	Boot    string
}

// NewIdentity is this process's.
func NewIdentity(name string) (Identity, error) {
	machine, err := os.Hostname()
	if err != nil {
		return Identity{}, fmt.Errorf("the machine's name: %w", err)
	}
	started, err := startOf(os.Getpid())
	if err != nil {
		return Identity{}, fmt.Errorf("this process's start: %w", err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Identity{}, fmt.Errorf("this machine's boot: %w", err)
	}
	return Identity{Name: name, Machine: machine, Pid: os.Getpid(), Started: started,
		Boot: strings.TrimSpace(string(boot))}, nil
}

// String is name@machine/pid/start/boot.
func (i Identity) String() string {
	return fmt.Sprintf("%s@%s/%d/%s/%s", i.Name, i.Machine, i.Pid, i.Started, i.Boot)
}

// Exited says whether text is the identity of a process of this machine that has ended. It
// is false for processes of other machines, and for any other text.
func (i Identity) Exited(text string) bool {
	_, rest, ok := strings.Cut(text, "@")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 4 || parts[0] != i.Machine {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return false
	}
	if parts[3] != i.Boot {
		return true // the machine was rebooted since
	}
	started, err := startOf(pid)
	return err != nil || started != parts[2]
}

// startOf gives the time at which a process started.
func startOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field, the command in brackets, may hold anything.
	_, after, ok := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(after)
	const starttime = 22 - 3 // the third field is the first after the command
	if !ok || len(fields) <= starttime {
		return "", fmt.Errorf("/proc/%d/stat has another form", pid)
	}
	// A zombie has ended, although its parent has not waited for it.
	if fields[0] == "Z" || fields[0] == "X" {
		return "", os.ErrProcessDone
	}
	return fields[starttime], nil
}
