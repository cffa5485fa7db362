package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"burnish/internal/testkit/loops"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/internal/testkit/suites/hardwaretest"
)

// loop is a loop device over a file on a file system of its own, which lies in an
// image: what is left in the image after a wipe is left on the drive.
type loop struct {
	site.Device
	image string
	undo  []func() error
}

const (
	loopSize  = 192 << 20
	imageSize = 320 << 20
)

// newLoop makes one, or returns in one line why there is none here.
func newLoop(dir string) (l *loop, why string, err error) {
	if os.Geteuid() != 0 {
		return nil, "only root may make loop devices", nil
	}
	l = &loop{image: filepath.Join(dir, "drive.img")}
	if failed := l.make(filepath.Join(dir, "drive")); failed != nil {
		// Many containers have no loop devices.
		return nil, failed.Error(), l.close()
	}
	return l, "", nil
}

func (l *loop) make(mountPoint string) error {
	inner := filepath.Join(mountPoint, "disk.img")
	if err := errors.Join(writeZeroes(l.image, imageSize), os.MkdirAll(mountPoint, 0o700)); err != nil {
		return err
	}
	if _, err := tool("mkfs.ext4", "-q", "-F", l.image); err != nil {
		return err
	}
	if err := mountLoop(l.image, mountPoint); err != nil {
		return err
	}
	l.undo = append(l.undo, func() error { _, err := tool("umount", mountPoint); return err })
	if err := writeZeroes(inner, loopSize); err != nil {
		return err
	}
	path, err := loops.Attach(inner)
	if err != nil {
		return err
	}
	l.undo = append(l.undo, func() error { return loops.Detach(path) })
	l.Device = site.Device{Name: "loop1", Driver: "block", Path: path, Size: loopSize, Set: []string{"path=" + path}}
	return nil
}

// mountLoop mounts an image, for which mount takes a loop device.
func mountLoop(image, point string) error {
	release, err := loops.Keep()
	if err != nil {
		return err
	}
	defer release()
	_, err = tool("mount", "-o", "loop", image, point)
	return err
}

// close takes apart what was made, in the reverse order.
func (l *loop) close() error {
	var failed []error
	for i := len(l.undo) - 1; i >= 0; i-- {
		failed = append(failed, l.undo[i]())
	}
	l.undo = nil
	return errors.Join(failed...)
}

// left counts the tenant's blocks wherever they lie in the image.
func (l *loop) left() (int, error) {
	image, err := os.Open(l.image)
	if err != nil {
		return 0, err
	}
	defer image.Close()
	return hardwaretest.Find(image, imageSize, nonce)
}

// tool runs a program of the system administrator's, who has /sbin in the path.
func tool(name string, args ...string) (string, error) {
	for _, dir := range []string{"", "/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			r, err := proc.Run(exec.Command(path, args...))
			return strings.TrimSpace(r.Stdout), errors.Join(err, r.Err())
		}
	}
	return "", errors.New(name + " is not installed")
}

// writeZeroes writes a new file of zeroes, so that every block of it is allocated.
func writeZeroes(path string, size int64) error {
	_, err := tool("dd", "if=/dev/zero", "of="+path, "bs=1M", fmt.Sprintf("count=%d", size>>20), "conv=excl,fsync",
		"status=none")
	return err
}

// turnLoopOver binds and cleans a loop device, and counts what is left of its tenant below it.
func (d *demo) turnLoopOver(ctx context.Context, l *loop) error {
	if err := d.enroll(ctx, l.Device); err != nil {
		return err
	}
	if err := d.settle(ctx, repairable); err != nil {
		return err
	}
	if err := d.bind(ctx, l.Device); err != nil {
		return err
	}
	found, err := l.left()
	if err != nil || found != l.Blocks() {
		return fmt.Errorf("%d blocks of the tenant lie below the loop device, want %d (%w)", found, l.Blocks(), err)
	}
	fmt.Printf("  %d blocks of the tenant lie in the image below the file system below the loop device\n", found)
	if err := d.unbind(ctx, l.Name); err != nil {
		return err
	}
	if err := d.settle(ctx, repairable); err != nil {
		return err
	}
	if err := d.requireClean(ctx, l.Device); err != nil {
		return err
	}
	if found, err = l.left(); err != nil || found != 0 {
		return fmt.Errorf("%d blocks of the tenant are left below the loop device (%w)", found, err)
	}
	fmt.Println("  0 blocks of the tenant are left in that image")
	return nil
}
