package host

import "syscall"

// ChildAttr gives the attributes of every child that uses a device: it is killed when its
// worker ends, and has its own process group, so that it can be killed together with its
// own children (SAFETY F1).
//
// The kernel sends the signal when the *thread* that started the child ends, not the
// process: never start a child from a goroutine that called runtime.LockOSThread and
// returns, because its thread ends with it. The signal is not enough either, because a child
// in uninterruptible I/O continues: hence it also inherits the fence's descriptor
// (Fence.File).
func ChildAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// ChildEnv is the environment of every program that a worker starts: nothing of the worker's own,
// which may have passwords, tokens and keys.
func ChildEnv(more ...string) []string {
	return append([]string{"LC_ALL=C", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, more...)
}
