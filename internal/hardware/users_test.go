package hardware_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/hardware"
	"burnish/internal/testkit/loops"
)

// holderMode has this test program hold the file of its first argument, in a process of its own.
const holderMode = "BURNISH_TEST_HOLDER"

// init runs on the process's first thread, which one of the modes ends.
func init() {
	mode := os.Getenv(holderMode)
	if mode == "" {
		return
	}
	runtime.LockOSThread()
	held := make(chan error)
	go func() {
		runtime.LockOSThread()
		held <- hold(mode, os.Args[1])
		select {} // an open descriptor, and the thread, stay
	}()
	err := <-held
	if err == nil && mode == "sees" {
		os.Exit(0)
	}
	fmt.Println(err)
	if strings.Contains(mode, "in the thread that is left") {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// openByOwnNode opens the block device by a node that it makes and removes.
func openByOwnNode(path string, flags int, _ uint32) (fd int, err error) {
	var stat unix.Stat_t
	own := fmt.Sprintf("/dev/burnish-test-%d", os.Getpid())
	if err := errors.Join(unix.Stat(path, &stat), unix.Mknod(own, unix.S_IFBLK|0o600, int(stat.Rdev))); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unix.Unlink(own)) }()
	return unix.Open(own, flags, 0)
}

func hold(mode, path string) error {
	if mode == "sees" {
		if os.Getpid() == 1 {
			if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
				return err
			}
		}
		unseen, err := hardware.Unseen("/proc")
		fmt.Println(unseen)
		return err
	}
	flags, protection, how := unix.O_RDWR, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED
	switch mode {
	case "mapped, read-only":
		flags, protection = unix.O_RDONLY, unix.PROT_READ
	case "mapped, to be writable later":
		protection = unix.PROT_READ
	case "mapped, private":
		how = unix.MAP_PRIVATE
	case "open in a thread of its own":
		if err := unix.Unshare(unix.CLONE_FILES); err != nil {
			return err
		}
	}
	open := unix.Open
	if strings.HasSuffix(mode, "node that is gone") {
		open = openByOwnNode
	}
	fd, err := open(path, flags, 0)
	if err != nil || strings.HasPrefix(mode, "open") {
		return err
	}
	if mode == "passed on" {
		fmt.Println(nil) // which the first is asked for
		next := exec.Command(os.Args[0], "/proc/self/fd/3")
		next.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), path)}
		if err := next.Start(); err != nil {
			return err
		}
		os.Exit(0)
	}
	if strings.HasPrefix(mode, "registered") {
		var parameters [120]byte
		ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&parameters)), 0)
		if errno != 0 {
			return errno
		}
		const registerFiles = 2
		files := []int32{-1, int32(fd)}
		at := uintptr(unsafe.Pointer(&files[0]))
		if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, ring, registerFiles, at, 2, 0, 0); errno != 0 {
			return errno
		}
		return unix.Close(fd)
	}
	if _, err := unix.Mmap(fd, 0, 4096, protection, how); err != nil {
		return err
	}
	return unix.Close(fd)
}

// holder starts a process that holds the file in a way, and gives its first line of output.
func holder(t *testing.T, mode, path string, attr *syscall.SysProcAttr) (line string, pid int) {
	t.Helper()
	c := exec.Command(os.Args[0], path)
	c.Env, c.SysProcAttr, c.Stderr = append(os.Environ(), holderMode+"="+mode), attr, os.Stderr
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	line, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line), c.Process.Pid
}

func ofFile(t *testing.T, path string) func(*unix.Statx_t) bool {
	var want unix.Stat_t
	require.NoError(t, unix.Stat(path, &want))
	return func(stat *unix.Statx_t) bool {
		return stat.Ino == want.Ino && unix.Mkdev(stat.Dev_major, stat.Dev_minor) == want.Dev
	}
}

// Whoever can write to a target without opening it again is found, whatever became of the descriptor
// and of the path.
//
// F40
func TestEveryWayToHoldIsFound(t *testing.T) {
	for mode, how := range map[string][2]string{ // of writers, and of all
		"open":                            {"held open", "held open"},
		"open in a thread of its own":     {"held open", "held open"},
		"open in the thread that is left": {"held open", "held open"},
		"mapped":                          {"mapped", "mapped"},
		"mapped, to be writable later":    {"mapped", "mapped"},
		"mapped, read-only":               {"", "mapped"},
		"mapped, private":                 {"", "mapped"},
		"registered":                      {"registered with an io_uring", "registered with an io_uring"},
	} {
		for space, flags := range map[string]uintptr{
			"": 0, " in a mount namespace": unix.CLONE_NEWNS, " in a process namespace": unix.CLONE_NEWPID,
		} {
			t.Run(mode+space, func(t *testing.T) {
				if flags != 0 && os.Geteuid() != 0 {
					t.Skip("needs root: it makes a namespace")
				}
				path := filepath.Join(t.TempDir(), "f")
				require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
				line, pid := holder(t, mode, path, &syscall.SysProcAttr{Cloneflags: flags})
				if mode == "registered" && line == unix.EPERM.Error() {
					t.Skip("this kernel allows no io_uring")
				}
				require.Equal(t, "<nil>", line)
				is := ofFile(t, path)
				require.NoError(t, os.Rename(path, path+".renamed"))
				for i, writers := range []bool{true, false} {
					found, unseen, err := hardware.Search{Proc: "/proc", Ours: -1, Writers: writers, Is: is}.First()
					require.NoError(t, err)
					if how[i] == "" {
						require.Nil(t, found)
						continue
					}
					require.NotNil(t, found)
					require.Empty(t, unseen)
					require.Equal(t, [2]any{pid, how[i]}, [2]any{found.PID, found.How})
				}
			})
		}
	}
}

// A node that is gone has no path by which a mapping of it, or a file that is registered with an io_uring,
// could be found: the one is found by its link, of the other the search says that it does not see all.
//
// F40
func TestANodeThatIsGone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a node")
	}
	image := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	loop, err := loops.Attach(image)
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	defer func() { require.NoError(t, loops.Detach(loop)) }()
	var want unix.Stat_t
	require.NoError(t, unix.Stat(loop, &want))
	is := func(stat *unix.Statx_t) bool {
		return stat.Mode&unix.S_IFMT == unix.S_IFBLK && unix.Mkdev(stat.Rdev_major, stat.Rdev_minor) == want.Rdev
	}
	for mode, how := range map[string]string{
		"open by a node that is gone":                              "held open",
		"mapped by a node that is gone":                            "mapped",
		"mapped in the thread that is left by a node that is gone": "mapped",
		"registered by a node that is gone":                        "",
	} {
		t.Run(mode, func(t *testing.T) {
			before, err := hardware.Unseen("/proc")
			require.NoError(t, err)
			line, pid := holder(t, mode, loop, nil)
			if how == "" && line == unix.EPERM.Error() {
				t.Skip("this kernel allows no io_uring")
			}
			require.Equal(t, "<nil>", line)
			found, unseen, err := hardware.Search{Proc: "/proc", Ours: -1, Writers: true, Is: is}.First()
			require.NoError(t, err)
			if how == "" {
				require.Nil(t, found)
				require.NotContains(t, []string{"", before}, unseen)
				return
			}
			require.NotNil(t, found)
			require.Equal(t, [2]any{pid, how}, [2]any{found.PID, found.How})
		})
	}
}

// What a process has when it ends, its child has, which was not listed when the search began.
//
// F40
func TestWhatIsPassedOnIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	line, group := holder(t, "passed on", path, &syscall.SysProcAttr{Setpgid: true})
	defer func() { require.NoError(t, unix.Kill(-group, unix.SIGKILL)) }()
	require.Equal(t, "<nil>", line)
	times := 0
	for range 20 {
		found, _, err := hardware.Search{Proc: "/proc", Ours: -1, Writers: true, Is: ofFile(t, path)}.First()
		require.NoError(t, err)
		if found != nil {
			times++
		}
	}
	require.Greater(t, times, 15)
}

// A worker that may not follow the links of map_files has the maps' lines, which name a device's node
// by its path alone.
//
// F40
func TestMapsAreReadWithoutTheirLinks(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f g")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(path, &stat))
	inode := fmt.Sprintf("%02x:%02x %d", unix.Major(stat.Dev), unix.Minor(stat.Dev), stat.Ino)
	for line, found := range map[string]bool{
		"7f00-7f01 rw-s 00000000 " + inode + "      /elsewhere":             true,
		"7f00-7f01 r--s 00000000 " + inode + "      /elsewhere":             true, // it may be changed
		"7f00-7f01 rw-p 00000000 " + inode + "      /elsewhere":             false,
		"7f00-7f01 rw-s 00000000 00:05 7            /dev/f g":               true, // in the process's own root
		"7f00-7f01 rw-s 00000000 00:05 7            " + path:                true,
		"7f00-7f01 rw-s 00000000 00:05 7            /dev/g":                 false,
		"7f00-7f01 rw-s 00000000 00:00 0 ":                                  false,
		"7f00-7f01 rw-s 00000000 00:05 7":                                   false,
		"7f00-7f01 r-xp 00000000 00:05 7 /bin/a\n7f02-7f03 rw-s 0 " + inode: true,
		"7f00": false,
		"":     false,
	} {
		t.Run(line, func(t *testing.T) {
			proc := t.TempDir()
			for name, text := range map[string]string{
				"77/maps": line + "\n", "77/comm": "writer\n", "77/root/dev/x": "", "77/fd/x": "", "1/comm": "",
			} {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o700))
				require.NoError(t, os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600))
			}
			require.NoError(t, os.Link(path, filepath.Join(proc, "77/root/dev/f g")))
			got, unseen, err := hardware.Search{Proc: proc, Ours: -1, Writers: true, Is: ofFile(t, path)}.First()
			require.NoError(t, err)
			require.Empty(t, unseen)
			require.Equal(t, found, got != nil)
		})
	}
}

// What a worker cannot see, it says.
//
// F40
func TestWhatIsNotSeen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a namespace and changes the user")
	}
	program := filepath.Join(t.TempDir(), "test")
	text, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, text, 0o755))
	for dir := filepath.Dir(program); dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		require.NoError(t, os.Chmod(dir, 0o755))
	}
	sees := func(attr *syscall.SysProcAttr) string {
		c := exec.Command(program, "-")
		c.Env, c.SysProcAttr = append(os.Environ(), holderMode+"=sees"), attr
		out, err := c.CombinedOutput()
		require.NoError(t, err, string(out))
		return strings.TrimSpace(string(out))
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	require.NoError(t, err)
	require.Equal(t, space != "pid:[4026531836]", strings.Contains(sees(nil), "namespace"))
	inside := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	require.Equal(t, "those outside of its process namespace", sees(inside))
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	require.Regexp(t, `\d+ processes that it may not look into`, sees(nobody))

	hidden := t.TempDir() // as procfs with hidepid=invisible
	require.NoError(t, os.MkdirAll(filepath.Join(hidden, "77/fd"), 0o700))
	unseen, err := hardware.Unseen(hidden)
	require.NoError(t, err)
	require.Equal(t, "those that "+hidden+" hides from it", unseen)
	_, err = hardware.Unseen(filepath.Join(hidden, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
