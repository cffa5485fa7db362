package nvmesim

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

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

// trace runs nvme to its end. Each ioctl of NVMe goes to answer first. If that returns true,
// the kernel does not see the call and nvme gets the value.
func trace(tool, args []string, stdin, stdout, stderr *os.File, answer answerer) (code int, err error) {
	// Only the thread that started nvme may trace it, and nvme dies with that thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := stopAtIoctls(); err != nil {
		return 0, err
	}
	nvme := exec.Command(tool[0], append(tool[1:], args...)...)
	nvme.Stdin, nvme.Stdout, nvme.Stderr = stdin, stdout, stderr
	nvme.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := nvme.Start(); err != nil {
		return 0, err
	}
	pid := nvme.Process.Pid
	defer func() { _ = nvme.Process.Release() }() // wait reaps it
	if _, err := wait(pid); err != nil {
		return 0, err
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_EXITKILL|unix.PTRACE_O_TRACESECCOMP); err != nil {
		return 0, fmt.Errorf("trace nvme: %w", err)
	}
	for signal := 0; ; {
		if err := unix.PtraceCont(pid, signal); err != nil {
			return 0, fmt.Errorf("let nvme go on: %w", err)
		}
		status, err := wait(pid)
		signal = 0
		switch {
		case err != nil:
			return 0, err
		case status.Exited():
			return status.ExitStatus(), nil
		case status.Signaled():
			return 128 + int(status.Signal()), nil
		case status.TrapCause() == unix.PTRACE_EVENT_SECCOMP:
			if err := atIoctl(pid, answer); err != nil {
				return 0, err
			}
		case status.StopSignal() != unix.SIGTRAP:
			signal = int(status.StopSignal())
		}
	}
}

// stopAtIoctls makes every process that this thread starts, and traces, stop before an ioctl of
// NVMe. To stop at each call instead takes a hundred times as many switches between the two
// processes, which is what an emulated command would then cost on a busy machine.
func stopAtIoctls() error {
	const number, request = 0, 24 // offsets in struct seccomp_data
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_IOCTL, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: request},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xff00},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: ioctlID & 0xff00, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep nvme from new privileges: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err !=
		nil {
		return fmt.Errorf("filter the calls of nvme: %w", err)
	}
	runtime.KeepAlive(filter)
	return nil
}

// atIoctl gives the call before which nvme has stopped to answer.
func atIoctl(pid int, answer answerer) error {
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &regs); err != nil {
		return fmt.Errorf("read nvme's registers: %w", err)
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(regs.Rdi)))
	if err != nil {
		return nil // the kernel refuses a descriptor that is not open
	}
	value, answered := answer(tracee(pid), path, uint32(regs.Rsi), regs.Rdx)
	if !answered {
		return nil
	}
	regs.Orig_rax, regs.Rax = ^uint64(0), uint64(value) // no call has this number
	if err := unix.PtraceSetRegs(pid, &regs); err != nil {
		return fmt.Errorf("write nvme's registers: %w", err)
	}
	return nil
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
