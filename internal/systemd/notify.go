// Package systemd notifies the service manager how far the program is, as sd_notify(3) does.
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// socketVariable names the socket of the service manager; it is not set elsewhere.
const socketVariable = "NOTIFY_SOCKET"

// Notifier sends the program's state to the service manager of a unit of Type=notify. The
// zero value, of a program that no service manager started, sends nothing.
type Notifier struct{ socket string }

// FromEnvironment gives the notifier of this process, and takes the variable out of the
// environment: what the process starts is not the service.
func FromEnvironment() (Notifier, error) {
	socket := os.Getenv(socketVariable)
	if socket == "" {
		return Notifier{}, nil
	}
	if err := os.Unsetenv(socketVariable); err != nil {
		return Notifier{}, fmt.Errorf("unset %s: %w", socketVariable, err)
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return Notifier{}, fmt.Errorf("%s is %q, which is not a unix socket", socketVariable, socket)
	}
	return Notifier{socket: socket}, nil
}

// Ready says that the program does its work.
func (n Notifier) Ready() error { return n.send("READY=1\nSTATUS=polling") }

// Stopping says that the program ends.
func (n Notifier) Stopping() error { return n.send("STOPPING=1\nSTATUS=stopping") }

// Status says in one line what the program does or waits for.
func (n Notifier) Status(text string) error {
	return n.send("STATUS=" + strings.Join(strings.Fields(text), " "))
}

func (n Notifier) send(state string) (err error) {
	if n.socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}
