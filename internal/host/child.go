package host

import "syscall"

// ChildAttr gives the attributes with which every child that works on a device is
// started: it dies with its worker, and has a process group of its own so that it
// can be killed with whatever it started itself (SAFETY F1).
//
// The kernel sends the death signal when the *thread* that started the child ends,
// not the process: never start a child from a goroutine that called
// runtime.LockOSThread and returns, for its thread ends with it. The signal is no
// proof either, a child in uninterruptible I/O lives on: hence it also inherits the
// fence's descriptor (Fence.File).
func ChildAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
