package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"burnish/internal/atomicfile"
)

// serverName is the name of the record of a state directory's server.
const serverName = "server"

// AcceptServer is the setting by which an operator gives a state directory to another server.
const AcceptServer = "BURNISH_ACCEPT_SERVER"

// Server is the part of a Temporal server that a state directory belongs to: the ID of its
// cluster, which its database keeps, and a namespace.
type Server struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
}

// String is the value of AcceptServer.
func (s Server) String() string { return s.Cluster + "/" + s.Namespace }

// serverRecord is what the state directory keeps.
type serverRecord struct {
	Server
	Recorded time.Time `json:"recorded"`
}

// OtherServerError says that a state directory belongs to another server.
type OtherServerError struct {
	Dir            string
	Recorded, Here Server
}

// Error is one line that names both servers and the way to accept this one.
func (e *OtherServerError) Error() string {
	return fmt.Sprintf("the state directory %s belongs to Temporal cluster %s, namespace %s, and this server is "+
		"cluster %s, namespace %s: "+
		"its records are not used here, because an instance may have a device of the other server; set TEMPORAL_ADDRESS "+
		"and TEMPORAL_NAMESPACE, or, if this server takes over, start once with %s=%s",
		e.Dir, e.Recorded.Cluster, e.Recorded.Namespace, e.Here.Cluster, e.Here.Namespace, AcceptServer, e.Here)
}

// UseServer ties the state directory to a server (F25): the first one is recorded, and any
// other is an *OtherServerError, until an operator accepts it by its name. A second call
// with the same arguments changes nothing. The directory is made where there is none.
func UseServer(dir string, server Server, accepted string) error {
	if server.Cluster == "" || server.Namespace == "" {
		return fmt.Errorf("the server gives no cluster ID (%q) or namespace (%q)", server.Cluster, server.Namespace)
	}
	dir, err := makeStateDir(dir)
	if err != nil {
		return err
	}
	lock, err := lockServer(dir)
	if err != nil {
		return err
	}
	recorded, found, err := load[serverRecord](dir, serverName)
	switch {
	case err != nil:
	case found && recorded.Server == server:
	case found && accepted != server.String():
		err = &OtherServerError{Dir: dir, Recorded: recorded.Server, Here: server}
	default:
		err = save(dir, serverName, serverRecord{server, time.Now().UTC()})
	}
	return errors.Join(err, lock.Close())
}

// lockServer excludes another worker that starts with the same directory.
func lockServer(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, serverName+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.Lock(int(file.Fd())); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// RecordedServer reads which server a state directory belongs to, and whether that is
// recorded. It changes nothing.
func RecordedServer(dir string) (Server, bool, error) {
	recorded, found, err := load[serverRecord](dir, serverName)
	if errors.Is(err, fs.ErrNotExist) {
		return Server{}, false, nil
	}
	return recorded.Server, found, err
}
