package privileged

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// AcquirePrivilege takes all the privilege that the program was installed with: root if it
// is setuid root, else the file's CAP_SYS_ADMIN and CAP_DAC_OVERRIDE, which are returned so
// that child processes get them as ambient capabilities.
func AcquirePrivilege() (ambient []uintptr, err error) {
	if os.Geteuid() == 0 {
		return nil, errors.Join(syscall.Setresgid(0, 0, 0), syscall.Setresuid(0, 0, 0))
	}
	if !HasPrivilege() {
		return nil,
			errors.New("the helper has no privilege: setcap cap_sys_admin,cap_dac_override+ep on it, on a file system " +
				"without nosuid")
	}
	return []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE}, nil
}

// LocalForHelper is the Local of a helper: full privilege, and the first of these tools that exists as
// nvme-cli. Its error is one line; the Local must not be used then.
func LocalForHelper(tools ...string) (*Local, error) {
	ambient, err := AcquirePrivilege()
	l := &Local{Sys: "/sys", Dev: "/dev", Proc: "/proc", Timeout: KernelTimeout, AmbientCaps: ambient}
	for _, tool := range tools {
		if _, missing := os.Stat(tool); missing == nil {
			l.Tool = tool
			return l, err
		}
		if l.Tool == "" {
			l.Tool = tool // running it will report that it is missing
		}
	}
	return l, err
}

// HasPrivilege: this process has the privilege to act itself.
func HasPrivilege() bool {
	if os.Geteuid() == 0 {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	const needed = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_DAC_OVERRIDE
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&needed == needed
}

// HelperFD is the descriptor of the helper's socket to its caller.
const HelperFD = 3

// RunHelper runs a helper: it serves the caller at HelperFD until the caller closes the
// socket. It ignores the signals of the caller's terminal or service, because a running
// command needs the descriptors that it holds.
func RunHelper(s *Server) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE)
	unix.Umask(0o022)
	conn, err := connection(HelperFD)
	if err != nil {
		return fmt.Errorf("a helper is started by a host worker, which passes a socket as descriptor %d: %w", HelperFD, err)
	}
	return s.Serve(conn)
}
