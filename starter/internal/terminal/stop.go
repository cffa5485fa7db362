package terminal

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction, with room to spare. Zero is the default action,
// whatever the processor.
type action [16]uint64

// stopAsByDefault stops the program as SIGTSTP does without a handler, and returns when it is
// continued. Where nobody could continue the program, because its shell is gone, the kernel
// drops the signal; SIGSTOP would stop it for good. os/signal has no way back to the default
// action: after signal.Reset the runtime's handler drops SIGTSTP.
func stopAsByDefault() error {
	// The signal goes to this very thread, so that the program stops before Tgkill returns.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var byDefault, handler action
	if err := setAction(&byDefault, &handler); err != nil {
		return err
	}
	err := unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP)
	if restored := setAction(&handler, nil); err == nil {
		err = restored
	}
	return err
}

// setAction sets what SIGTSTP does, and gives what it did before.
func setAction(set, before *action) error {
	const maskSize = 8
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(before)), maskSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
