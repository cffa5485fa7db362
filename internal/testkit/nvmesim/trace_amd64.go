package nvmesim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// traceable: the registers of this processor are known.
const traceable = true

// tracee is the memory of a stopped process.
type tracee int

func (p tracee) read(address uint64, size int) ([]byte, error) {
	into := make([]byte, size)
	if size == 0 {
		return into, nil
	}
	local := []unix.Iovec{{Base: &into[0], Len: uint64(size)}}
	n, err := unix.ProcessVMReadv(int(p), local, []unix.RemoteIovec{{Base: uintptr(address), Len: size}}, 0)
	if err == nil && n != size {
		err = unix.EFAULT
	}
	return into, err
}

func (p tracee) write(address uint64, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &data[0], Len: uint64(len(data))}}
	n, err := unix.ProcessVMWritev(int(p), local, []unix.RemoteIovec{{Base: uintptr(address), Len: len(data)}}, 0)
	if err == nil && n != len(data) {
		err = unix.EFAULT
	}
	return err
}

// trace runs nvme to its end. Each ioctl goes to answer first. If that returns true, the
// kernel does not see the call and nvme gets the value.
func trace(args []string, answer func(p tracee, path string, request uint32, argument uint64) (int64, bool)) (code int, err error) {
	// Only the thread that started nvme may trace it, and nvme dies with that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	nvme := exec.Command(realTool, args...)
	nvme.Stdin, nvme.Stdout, nvme.Stderr = os.Stdin, os.Stdout, os.Stderr
	nvme.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := nvme.Start(); err != nil {
		return 0, err
	}
	pid := nvme.Process.Pid
	defer func() { _ = nvme.Process.Release() }() // wait reaps it
	if _, err := wait(pid); err != nil {
		return 0, err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACESYSGOOD); err != nil {
		return 0, fmt.Errorf("trace nvme: %w", err)
	}
	var (
		signal   int
		inside   bool
		answered bool
		value    int64
		regs     unix.PtraceRegs
	)
	for {
		if err := unix.PtraceSyscall(pid, signal); err != nil {
			return 0, fmt.Errorf("let nvme go on: %w", err)
		}
		status, err := wait(pid)
		switch {
		case err != nil:
			return 0, err
		case status.Exited():
			return status.ExitStatus(), nil
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		}
		signal = 0
		if stop := status.StopSignal(); stop != unix.SIGTRAP|0x80 {
			if stop != unix.SIGTRAP {
				signal = int(stop)
			}
			continue
		}
		inside = !inside
		if !inside && !answered {
			continue
		}
		if err := unix.PtraceGetRegs(pid, &regs); err != nil {
			return 0, fmt.Errorf("read nvme's registers: %w", err)
		}
		switch {
		case answered:
			regs.Rax, answered = uint64(value), false
		case regs.Orig_rax == unix.SYS_IOCTL:
			path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(regs.Rdi)))
			if err != nil {
				continue
			}
			if value, answered = answer(tracee(pid), path, uint32(regs.Rsi), regs.Rdx); !answered {
				continue
			}
			regs.Orig_rax = ^uint64(0) // No call has this number.
		default:
			continue
		}
		if err := unix.PtraceSetRegs(pid, &regs); err != nil {
			return 0, fmt.Errorf("write nvme's registers: %w", err)
		}
	}
}

func wait(pid int) (unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			return status, err
		}
	}
}
