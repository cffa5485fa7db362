package configdrive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
	"golang.org/x/sys/unix"

	"burnish/internal/nova/metadata"
)

// Label is the name by which a guest finds its config drive.
const Label = "config-2"

// document is the document's path in the folder of a version. A folder without it would make
// cloud-init refuse the whole drive, so there are no others.
const document = "meta_data.json"

// Image is a config drive with a metadata document, as it is at this time.
func Image(text []byte, at time.Time) ([]byte, error) {
	if len(text)%blockSize == 0 {
		// Behind a file of whole blocks the library (go-diskfs 1.9.4) writes one more, over what
		// is there. A line's end more changes nothing in JSON.
		text = append(bytes.Clone(text), '\n')
	}
	workspace, err := os.MkdirTemp("", "burnish-config-drive-")
	if err != nil {
		return nil, err
	}
	image, err := build(workspace, text)
	if err := errors.Join(err, os.RemoveAll(workspace)); err != nil {
		return nil, fmt.Errorf("make the config drive: %w", err)
	}
	drive, err := open(image)
	if err == nil {
		err = drive.finish(at)
	}
	if err != nil {
		return nil, fmt.Errorf("make the config drive: %w", err)
	}
	return drive.bytes, nil
}

// build makes the image from files in the workspace, which the library needs.
func build(workspace string, text []byte) ([]byte, error) {
	for _, version := range metadata.Versions() {
		folder := filepath.Join(workspace, "openstack", version)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(folder, document), text, 0o600); err != nil {
			return nil, err
		}
	}
	// The library passes over errors of most of its writes; in memory there are none.
	fd, err := unix.MemfdCreate("config drive", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	image := os.NewFile(uintptr(fd), "config drive")
	defer image.Close() //nolint:errcheck // it is in memory
	system, err := iso9660.Create(file.New(image, false), 0, 0, blockSize, workspace)
	if err != nil {
		return nil, err
	}
	if err := system.Finalize(iso9660.FinalizeOptions{RockRidge: true, Joliet: true, VolumeIdentifier: Label}); err !=
		nil {
		return nil, err
	}
	if _, err := image.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(image)
}
