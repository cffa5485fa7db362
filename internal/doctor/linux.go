package doctor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/hardware"
	"burnish/internal/hardware/drivers"
)

// system is the part of the machine that the checks read.
type system struct {
	fileSystem func(dir string) (fileSystem, error)
	direct     func(dir string) error
	openat2    func() error
	leases     func() (bool, error)
	drivers    func(names []string, h drivers.Host) (map[string]hardware.Driver, error)
	// root is where the machine's files are.
	root string
}

// fileSystem is where a directory is.
type fileSystem struct {
	name   string
	memory bool // lost at a restart
	remote bool
	free   uint64 // bytes that are free for this user
}

func linux() system {
	return system{
		fileSystem: fileSystemOf, direct: directIO, openat2: openat2, leases: leasesEnabled,
		drivers: drivers.New, root: "/",
	}
}

// fileSystems are the known file systems; others count as a local disk.
var fileSystems = map[int64]fileSystem{
	unix.TMPFS_MAGIC:      {name: "tmpfs", memory: true},
	unix.RAMFS_MAGIC:      {name: "ramfs", memory: true},
	unix.NFS_SUPER_MAGIC:  {name: "NFS", remote: true},
	unix.SMB_SUPER_MAGIC:  {name: "SMB", remote: true},
	unix.SMB2_SUPER_MAGIC: {name: "SMB", remote: true},
	unix.CIFS_SUPER_MAGIC: {name: "CIFS", remote: true},
	unix.EXT4_SUPER_MAGIC: {name: "ext4"},
	unix.XFS_SUPER_MAGIC:  {name: "xfs"},
}

func fileSystemOf(dir string) (fileSystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fileSystem{}, fmt.Errorf("statfs %s: %w", dir, err)
	}
	on, ok := fileSystems[int64(st.Type)]
	if !ok {
		on.name = fmt.Sprintf("a file system of type %#x", st.Type)
	}
	on.free = st.Bavail * uint64(st.Bsize)
	return on, nil
}

// directIO opens a file without a name, which is deleted when it is closed.
func directIO(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func openat2() error {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/",
		&unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func leasesEnabled() (bool, error) {
	text, err := os.ReadFile("/proc/sys/fs/leases-enable")
	if err != nil {
		return false, err
	}
	return strings.TrimSpace(string(text)) != "0", nil
}
