package hardware

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// configfs is where the kernel's targets are configured; tests replace it.
var configfs = "/sys/kernel/config"

// export is a file of configfs that has the path of what a target of the kernel gives to others.
type export struct {
	file string
	// before and after enclose the path; "": it is all of the file.
	before, after string
}

// No process holds what these targets export, and O_EXCL does not find it: they open a block device as any reader does
// (F40). Those of SCSI for whole block devices (iblock) and hosts (pscsi) claim theirs, which O_EXCL finds.
var exports = []export{
	{file: "nvmet/subsystems/*/namespaces/*/device_path"},
	{file: "nvmet/subsystems/*/passthru/device_path"},
	{file: "target/core/fileio_*/*/info", before: "File: ", after: "  Size: "},
	{file: "usb_gadget/*/functions/mass_storage.*/lun.*/file"},
}

// exported gives the kernel as the user of a target that it exports, or nil.
func (s Search) exported() (*User, error) {
	for _, e := range exports {
		files, err := filepath.Glob(filepath.Join(configfs, e.file))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			path, err := e.path(file)
			if err != nil {
				return nil, err
			}
			if path != "" && s.isAt(path) {
				return &User{Name: strings.TrimPrefix(filepath.Dir(file), configfs+"/"), How: "exported"}, nil
			}
		}
	}
	return nil, nil
}

// path is that of what the target has open, or "".
func (e export) path(file string) (string, error) {
	enabled, err := os.ReadFile(filepath.Join(filepath.Dir(file), "enable"))
	if err == nil && strings.TrimSpace(string(enabled)) == "0" {
		return "", nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // one of USB has no switch
		return "", err
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it was removed after it was listed
	}
	path := string(text)
	if e.before != "" {
		_, path, _ = strings.Cut(path, e.before)
		path, _, _ = strings.Cut(path, e.after)
	}
	return strings.TrimSpace(path), err
}

// isAt says whether the target is at a path, of the machine's or of this process's root.
func (s Search) isAt(path string) bool {
	for _, root := range []string{filepath.Join(s.Proc, "1/root"), "/"} {
		var stat unix.Statx_t
		err := unix.Statx(unix.AT_FDCWD, filepath.Join(root, path), 0, unix.STATX_BASIC_STATS, &stat)
		if err != nil {
			continue // only one of the roots may have it
		}
		if s.Is(&stat) {
			return true
		}
		if s.Commands != nil {
			if is, _ := s.Commands(&stat); is {
				return true
			}
		}
	}
	return false
}
