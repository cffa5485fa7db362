package access

import (
	"context"
	"net"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a unix socket.
type peer struct {
	uid uint32
	// owner is the user of this process, who owns the socket.
	owner uint32
}

type peerKey struct{}

// connContext notes who has connected to a unix socket: the kernel says so.
func connContext(ctx context.Context, c net.Conn) context.Context {
	counted, ok := c.(*countedConn)
	if !ok {
		return ctx
	}
	socket, ok := counted.Conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return ctx // then its requests need a token
	}
	var credentials *unix.Ucred
	if err := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credentials == nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer{uid: credentials.Uid, owner: uint32(os.Geteuid())})
}

func (p peer) id() string { return "unix:" + strconv.FormatUint(uint64(p.uid), 10) }

// principal is an admin if it is root or the socket's owner. Others, whom the socket's mode
// keeps out, have no role.
func (p peer) principal() Principal {
	who := Principal{ID: p.id(), Name: p.id()}
	if u, err := user.LookupId(strconv.FormatUint(uint64(p.uid), 10)); err == nil {
		who.Name = u.Username
	}
	if p.uid == 0 || p.uid == p.owner {
		who.Roles = []string{"admin"}
	}
	return who
}
