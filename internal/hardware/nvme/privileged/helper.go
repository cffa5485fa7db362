package privileged

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// AcquirePrivilege takes the whole of what the program was installed with: root for setuid
// root, else CAP_SYS_ADMIN and CAP_DAC_OVERRIDE of the file, which are given for the
// children of this process to have.
func AcquirePrivilege() (ambient []uintptr, err error) {
	if os.Geteuid() == 0 {
		return nil, errors.Join(syscall.Setresgid(0, 0, 0), syscall.Setresuid(0, 0, 0))
	}
	if !HasPrivilege() {
		return nil, errors.New("the helper has no privilege: setcap cap_sys_admin,cap_dac_override+ep on it, on a file system without nosuid")
	}
	return []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE}, nil
}

// LocalForHelper is this machine for a helper: with its whole privilege, an environment that no
// caller made, and the first of these programs that is there for nvme-cli. Its error is
// one line; what it gives then is not used.
func LocalForHelper(tools ...string) (*Local, error) {
	ambient, err := AcquirePrivilege()
	l := &Local{Sys: "/sys", Dev: "/dev", Proc: "/proc", Timeout: KernelTimeout, CleanEnvironment: true, AmbientCaps: ambient}
	for _, tool := range tools {
		if _, missing := os.Stat(tool); missing == nil {
			l.Tool = tool
			return l, err
		}
		if l.Tool == "" {
			l.Tool = tool // that this one is missing will be told
		}
	}
	return l, err
}

// HasPrivilege says that this process may do itself what is privileged.
func HasPrivilege() bool {
	if os.Geteuid() == 0 {
		return true
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	const needed = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_DAC_OVERRIDE
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&needed == needed
}

// HelperFD is the helper's descriptor at which its caller is.
const HelperFD = 3

// RunHelper is the life of a helper: it serves the caller at Socket until that is gone. It
// ends by nothing else that the caller's terminal or service may send, for a command
// that runs needs what it holds.
func RunHelper(s *Server) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE)
	unix.Umask(0o022)
	conn, err := connection(HelperFD)
	if err != nil {
		return fmt.Errorf("a helper is started by a host worker, which passes a socket as descriptor %d: %w", HelperFD, err)
	}
	return s.Serve(context.Background(), conn)
}
