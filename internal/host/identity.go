package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Identity names one process of one machine, so that another process there can tell
// whether it is gone. As text it is what Temporal shows as a worker's identity.
type Identity struct {
	Name    string // what the process is
	Machine string
	Pid     int
	Started string // in the kernel's clock ticks since boot: a pid alone comes again
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
	return Identity{Name: name, Machine: machine, Pid: os.Getpid(), Started: started, Boot: strings.TrimSpace(string(boot))}, nil
}

// String is name@machine/pid/start/boot.
func (i Identity) String() string {
	return fmt.Sprintf("%s@%s/%d/%s/%s", i.Name, i.Machine, i.Pid, i.Started, i.Boot)
}

// Gone says that text is the identity of a process of this machine that has ended. Of
// other machines' processes, and of what is no identity, it knows nothing: false.
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
		return true // the machine was started again since
	}
	started, err := startOf(pid)
	return err != nil || started != parts[2]
}

// startOf gives when a process started; an error where there is none.
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
	// A zombie has ended, though its parent has not yet looked.
	if fields[0] == "Z" || fields[0] == "X" {
		return "", os.ErrProcessDone
	}
	return fields[starttime], nil
}
