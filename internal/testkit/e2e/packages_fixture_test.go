package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/testkit/proc"
)

// debian is an installed Debian with systemd, which deploy/setup-test.sh unpacks. It is never changed.
const debian = "/usr/local/lib/burnish-test/debian"

// machine is a clean Debian with systemd as its first process, in namespaces of its own: its processes,
// network, file system and services are apart from this machine's. What it writes is kept over a restart.
type machine struct {
	dir  string
	boot *proc.Process
	pid  int // of its first process, as this machine numbers it
}

// bootScript changes to a control group of its own, and in new namespaces mounts what a machine has and
// becomes its first process. Its arguments are the machine's folder and the Debian below it.
//
// Devices are null and the like, and one loop device. What belongs to this machine's kernel is read-only, so
// that udev does not run there and nothing sets its variables.
const bootScript = `set -eu
dir=$1 debian=$2 loop=$3
if [ $# = 3 ]; then
	mkdir -p "$dir"/{upper,work,root,srv,cgroup}
	mount -t cgroup2 cgroup2 "$dir/cgroup"
	mkdir -p "$dir/cgroup/burnish-test-$$"
	echo $$ > "$dir/cgroup/burnish-test-$$/cgroup.procs"
	echo "burnish-test-$$" > "$dir/group"
	umount --lazy "$dir/cgroup"
	exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child bash -c "$0" "$0" "$@" inside
fi
mount -t overlay -o "lowerdir=$debian,upperdir=$dir/upper,workdir=$dir/work" overlay "$dir/root"
cd "$dir/root"
echo h1 > etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 h1\n::1 localhost\n' > etc/hosts
mount -t proc -o nosuid,nodev,noexec proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
mount -t tmpfs -o mode=755 tmpfs run
mount --bind "$dir/srv" srv
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for node in null:3 zero:5 full:7 random:8 urandom:9; do
	mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 dev/tty c 5 0
mknod -m 660 "dev/${loop##*/}" b $(tr : ' ' < "/sys/block/${loop##*/}/dev")
ip link set lo up
pivot_root . mnt
exec chroot . /bin/sh -c 'umount --lazy /mnt && exec env -i container=burnish-test PATH=/usr/sbin:/usr/bin \
	/lib/systemd/systemd --system --unit=multi-user.target --log-target=journal'
`

// newMachine gives a machine that is not booted yet, and the loop device that it may use.
func newMachine(t *testing.T) (m *machine, loop string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can make a machine of its own")
	}
	if _, err := os.Stat(debian); err != nil {
		t.Skipf("run deploy/setup-test.sh: %v", err)
	}
	m = &machine{dir: onDisk(t)}
	t.Cleanup(func() { m.powerOff(t) })
	return m, ownLoop(t)
}

// ownLoop adds a loop device that no one else takes: those are of lower numbers.
func ownLoop(t *testing.T) string {
	t.Helper()
	control, err := os.Open("/dev/loop-control")
	require.NoError(t, err)
	defer func() { require.NoError(t, control.Close()) }()
	number := 10000 + os.Getpid()%10000
	for {
		err = unix.IoctlSetInt(int(control.Fd()), unix.LOOP_CTL_ADD, number)
		if err != unix.EEXIST { //nolint:errorlint // an errno
			break
		}
		number++
	}
	require.NoError(t, err)
	loop := fmt.Sprintf("/dev/loop%d", number)
	t.Cleanup(func() {
		_ = exec.Command("losetup", "--detach", loop).Run() // it may be free
		control, err := os.Open("/dev/loop-control")
		require.NoError(t, err)
		defer func() { require.NoError(t, control.Close()) }()
		Await(t, time.Minute, loop+" to be free", func() (bool, string) {
			err := unix.IoctlSetInt(int(control.Fd()), unix.LOOP_CTL_REMOVE, number)
			return err == nil, fmt.Sprint(err)
		})
	})
	return loop
}

// powerOn boots the machine, and returns when its services are started.
func (m *machine) powerOn(t *testing.T, loop string) {
	t.Helper()
	cmd := exec.Command("unshare", "--mount", "bash", "-c", bootScript, bootScript, m.dir, debian, loop)
	var err error
	m.boot, err = proc.Start("the machine", filepath.Join(m.dir, "console"), cmd)
	require.NoError(t, err)
	Await(t, time.Minute, "the machine to boot", func() (bool, string) {
		require.True(t, m.boot.Alive(), m.boot.Log())
		pid := m.boot.PID()
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			return false, err.Error() + m.boot.Log()
		}
		m.pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
		if err != nil {
			return false, m.boot.Log()
		}
		state, _ := m.command("systemctl", "is-system-running").CombinedOutput() // it fails until it is so
		running := strings.TrimSpace(string(state))
		return running == "running" || running == "degraded", running + m.boot.Log()
	})
}

// powerOff ends every process of the machine at once.
func (m *machine) powerOff(t *testing.T) {
	t.Helper()
	if m.boot == nil {
		return
	}
	require.NoError(t, m.boot.Kill())
	m.boot = nil
	group, err := os.ReadFile(filepath.Join(m.dir, "group"))
	require.NoError(t, err)
	removed, err := exec.Command("unshare", "--mount", "bash", "-c", `mount -t cgroup2 cgroup2 "$1"
		for try in {1..100}; do find "$1/$2" -depth -type d -exec rmdir {} + && exit || sleep 0.1; done; exit 1`,
		"bash", filepath.Join(m.dir, "cgroup"), strings.TrimSpace(string(group))).CombinedOutput()
	require.NoError(t, err, "%s", removed)
}

// command is a program that runs in the machine.
func (m *machine) command(name string, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(m.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup",
		"--root", "--wd"}
	cmd := exec.Command("nsenter", append(append(enter, name), args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TZ=UTC",
		"LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	return cmd
}

// run runs a script in the machine, in the folder with the packages, and gives what it wrote.
func (m *machine) run(t *testing.T, script string) string {
	t.Helper()
	output, err := m.command("bash", "-ec", "cd /srv\n"+script).CombinedOutput()
	require.NoError(t, err, "%s\n%s", script, output)
	return string(output)
}
