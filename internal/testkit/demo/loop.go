package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"burnish/internal/testkit/suites/hardwaretest"
)

// loop is a loop device over a file on a file system of its own, which lies in an
// image: what is left in the image after a wipe is left on the drive.
type loop struct {
	file
	image string
	size  int64 // of the image
	undo  []func() error
}

const (
	loopSize  = 192 << 20
	imageSize = 320 << 20
)

// newLoop makes one, or says in one line why there is none here.
func newLoop(dir string) (l *loop, why string, err error) {
	if os.Geteuid() != 0 {
		return nil, "this is not root, who alone may make loop devices", nil
	}
	tools := map[string]string{}
	for _, name := range []string{"losetup", "mkfs.ext4", "mount", "umount"} {
		path, err := tool(name)
		if err != nil {
			return nil, name + " is not installed", nil
		}
		tools[name] = path
	}
	l = &loop{image: filepath.Join(dir, "drive.img"), size: imageSize}
	point := filepath.Join(dir, "drive")
	inner := filepath.Join(point, "disk.img")
	steps := []func() (undo func() error, err error){
		func() (func() error, error) { return nil, allocate(l.image, imageSize) },
		func() (func() error, error) { return nil, command(tools["mkfs.ext4"], "-q", "-F", l.image) },
		func() (func() error, error) {
			return func() error { return command(tools["umount"], point) },
				errors.Join(os.MkdirAll(point, 0o700), command(tools["mount"], "-o", "loop", l.image, point))
		},
		func() (func() error, error) { return nil, allocate(inner, loopSize) },
		func() (func() error, error) {
			out, err := exec.Command(tools["losetup"], "--find", "--show", inner).CombinedOutput()
			path := strings.TrimSpace(string(out))
			if err != nil {
				return nil, fmt.Errorf("losetup: %s (%w)", path, err)
			}
			l.file = file{name: "loop1", path: path, size: loopSize}
			return func() error { return command(tools["losetup"], "--detach", path) }, nil
		},
	}
	for _, step := range steps {
		undo, err := step()
		if err != nil {
			// A container without loop devices is no fault of the demo's.
			return nil, err.Error(), l.close()
		}
		if undo != nil {
			l.undo = append(l.undo, undo)
		}
	}
	return l, "", nil
}

// close takes it apart again, as far as it was made.
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
	return hardwaretest.Find(image, l.size, nonce)
}

// tool finds a program of the system administrator's, who has /sbin in the path.
func tool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %s (%w)", filepath.Base(name), strings.TrimSpace(string(out)), err)
	}
	return nil
}

// allocate writes a file of zeroes, so that none of it is missing on the drive.
func allocate(path string, size int64) (err error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.CopyN(out, zeroes{}, size); err != nil {
		return err
	}
	return out.Sync()
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// below turns a loop device over and counts what is left of its tenant below it.
func below(ctx context.Context, s *site, l *loop) error {
	if err := s.enroll(l.file); err != nil {
		return err
	}
	if err := s.settle(ctx, repairable); err != nil {
		return err
	}
	if err := s.bind(l.file); err != nil {
		return err
	}
	found, err := l.left()
	if err != nil || found != loopSize/hardwaretest.Block {
		return fmt.Errorf("%d blocks of the tenant lie below the loop device, want %d (%w)", found, loopSize/hardwaretest.Block, err)
	}
	fmt.Printf("  %d blocks of the tenant lie in the image below the file system below the loop device\n", found)
	if _, err := s.burnish("unbind", l.name, "--instance", instance(l.name)); err != nil {
		return err
	}
	if err := s.settle(ctx, repairable); err != nil {
		return err
	}
	if err := s.clean(l.file); err != nil {
		return err
	}
	if found, err = l.left(); err != nil || found != 0 {
		return fmt.Errorf("%d blocks of the tenant are left below the loop device (%w)", found, err)
	}
	fmt.Println("  0 blocks of the tenant are left in that image")
	return nil
}
