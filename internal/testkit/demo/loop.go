package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"burnish/internal/testkit/loops"
	"burnish/internal/testkit/must"
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
func newLoop(dir string) (l *loop, why string) {
	if os.Geteuid() != 0 {
		return nil, "only root may make loop devices"
	}
	l = &loop{image: filepath.Join(dir, "drive.img")}
	// Many containers have no loop devices.
	if failed := must.Try(func() { l.make(filepath.Join(dir, "drive")) }); failed != nil {
		must.Do(l.close())
		return nil, failed.Error()
	}
	return l, ""
}

func (l *loop) make(mountPoint string) {
	inner := filepath.Join(mountPoint, "disk.img")
	writeZeroes(l.image, imageSize)
	must.Do(os.MkdirAll(mountPoint, 0o700))
	must.Do(tool("mkfs.ext4", "-q", "-F", l.image))
	mountLoop(l.image, mountPoint)
	l.undo = append(l.undo, func() error { return tool("umount", mountPoint) })
	writeZeroes(inner, loopSize)
	path := must.Get(loops.Attach(inner))
	l.undo = append(l.undo, func() error { return loops.Detach(path) })
	l.Device = site.Device{Name: "loop1", Driver: "block", Path: path, Size: loopSize, Set: []string{"path=" + path}}
}

// mountLoop mounts an image, for which mount takes a loop device.
func mountLoop(image, point string) {
	release := must.Get(loops.Keep())
	defer release()
	must.Do(tool("mount", "-o", "loop", image, point))
}

// close takes apart what was made, in the reverse order.
func (l *loop) close() (err error) {
	for _, undo := range slices.Backward(l.undo) {
		err = errors.Join(err, undo())
	}
	return err
}

// left counts the tenant's blocks wherever they lie in the image.
func (l *loop) left() int {
	image := must.Get(os.Open(l.image))
	defer image.Close()
	return must.Get(hardwaretest.Find(image, imageSize, nonce))
}

// tool runs a program of the system administrator's.
func tool(name string, args ...string) error {
	path, err := proc.Look(name)
	if err != nil {
		return err
	}
	_, err = proc.Succeed(exec.Command(path, args...))
	return err
}

// writeZeroes writes a new file of zeroes, so that every block of it is allocated.
func writeZeroes(path string, size int64) {
	must.Do(tool("dd", "if=/dev/zero", "of="+path, "bs=1M", fmt.Sprintf("count=%d", size>>20), "conv=excl,fsync",
		"status=none"))
}

// turnLoopOver binds and cleans a loop device, and counts what is left of its tenant below it.
func (d *demo) turnLoopOver(ctx context.Context, l *loop) {
	d.enroll(ctx, l.Device)
	d.settle(ctx, repairable)
	d.bind(ctx, l.Device)
	found := l.left()
	must.Be(found == l.Blocks(), "%d blocks of the tenant lie below the loop device, want %d", found, l.Blocks())
	fmt.Printf("  %d blocks of the tenant lie in the image below the file system below the loop device\n", found)
	d.unbind(ctx, l.Name)
	d.settle(ctx, repairable)
	d.requireClean(ctx, l.Device)
	found = l.left()
	must.Be(found == 0, "%d blocks of the tenant are left below the loop device", found)
	fmt.Println("  0 blocks of the tenant are left in that image")
}
