// Package loops shares the machine's loop devices among tests that run in several processes
// at once. Whoever asks for a free loop device gets the first one, also one that another
// test has just detached and still looks at.
package loops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"burnish/internal/testkit/proc"
)

// control is the node that hands out free loop devices. It is locked by everyone who takes one.
const control = "/dev/loop-control"

// Keep waits until no other process is taking a loop device, and lets none take one through this
// package before release is called: a number that is free, or becomes free, stays so. A caller
// calls neither Keep nor Attach again before.
func Keep() (release func(), err error) {
	file, err := os.Open(control)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(file.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", control, err), file.Close())
	}
	return func() {
		// Unlocked, not just closed: a child has a copy of it until its exec.
		_ = unix.Flock(int(file.Fd()), unix.LOCK_UN)
		_ = file.Close()
	}, nil
}

// Attach attaches a file to a free loop device, with these arguments of losetup before it.
func Attach(file string, args ...string) (loop string, err error) {
	release, err := Keep()
	if err != nil {
		return "", err
	}
	defer release()
	return losetup(append(append([]string{"--find", "--show"}, args...), file)...)
}

// Detach takes the file from a loop device, and waits until the device is free: a process that
// looks through all loop devices may have it open for a moment.
func Detach(loop string) error {
	behind, err := os.ReadFile(backingFile(loop))
	if err != nil {
		return fmt.Errorf("detach %s: %w", loop, err)
	}
	if _, err := losetup("--detach", loop); err != nil {
		return err
	}
	return proc.Await(context.Background(), time.Minute, 5*time.Millisecond, loop+" to be free",
		func() (done bool, state string) {
			now, err := os.ReadFile(backingFile(loop))
			return err != nil || string(now) != string(behind), "attached to " + string(now)
		})
}

// Reattach detaches a loop device and attaches it to this file, with these arguments of losetup.
func Reattach(loop, file string, args ...string) error {
	release, err := Keep()
	if err != nil {
		return err
	}
	defer release()
	if err := Detach(loop); err != nil {
		return err
	}
	_, err = losetup(append(args[:len(args):len(args)], loop, file)...)
	return err
}

// backingFile is the attribute that exists as long as a file is attached.
func backingFile(loop string) string {
	return filepath.Join("/sys/block", filepath.Base(loop), "loop/backing_file")
}

// losetup gives what it prints. It warns of an odd size on stderr.
func losetup(args ...string) (string, error) {
	program, err := proc.Look("losetup")
	if err != nil {
		return "", err
	}
	r, err := proc.Succeed(exec.Command(program, args...))
	return strings.TrimSpace(r.Stdout), err
}
