// Package messagebus is a cloud's message bus for tests: a real RabbitMQ on loopback ports
// of its own, and a producer of notifications that uses oslo.messaging as Nova does.
package messagebus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/simserver"
)

const python = "/usr/bin/python3"

// Missing names in one line the packages that are not installed, "" where none is missing.
func Missing() string {
	var missing []string
	if server() == "" {
		missing = append(missing, "no RabbitMQ (package rabbitmq-server)")
	}
	if _, err := exec.LookPath("epmd"); err != nil {
		missing = append(missing, "no epmd (package erlang-base)")
	}
	// Another Python that is first in the PATH does not see Debian's packages.
	if _, err := os.Stat("/usr/lib/python3/dist-packages/oslo_messaging"); err != nil {
		missing = append(missing, "no oslo.messaging (package python3-oslo.messaging)")
	}
	return strings.Join(missing, "; ")
}

// server is the path of RabbitMQ's own start script. The one in /usr/sbin would change the
// user and read the machine's settings.
func server() string {
	for _, pattern := range []string{"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server",
		"/usr/lib/rabbitmq/bin/rabbitmq-server"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// Broker is one RabbitMQ.
type Broker struct {
	dir                        string
	node                       string
	port, tlsPort              int
	distributionPort, epmdPort int
	environment                []string
	caFile                     string

	mu     sync.Mutex
	epmd   *proc.Process // finds Erlang nodes by name
	server *proc.Process
}

// Start starts a broker whose files lie in dir, and returns once it takes connections.
// Who started it stops it.
func Start(dir string) (*Broker, error) {
	if why := Missing(); why != "" {
		return nil, errors.New(why)
	}
	ports, err := proc.FreePorts(0, 0, 0, 0)
	if err != nil {
		return nil, err
	}
	b := &Broker{dir: dir, port: ports[0], tlsPort: ports[1], distributionPort: ports[2], epmdPort: ports[3]}
	b.node = fmt.Sprintf("burnish%d@localhost", b.port)
	if err := b.configure(); err != nil {
		return nil, err
	}
	// RabbitMQ would start an epmd that outlives it.
	if b.epmd, err = b.start("epmd",
		exec.Command("epmd", "-address", "127.0.0.1", "-port", strconv.Itoa(b.epmdPort))); err != nil {
		return nil, err
	}
	if err := b.Restart(); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

func (b *Broker) start(name string, cmd *exec.Cmd) (*proc.Process, error) {
	cmd.Env = b.environment
	return proc.Start(name, filepath.Join(b.dir, name+".log"), cmd)
}

func (b *Broker) configure() error {
	_, authority, certificate, err := simserver.Certificate("RabbitMQ")
	if err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(b.dir, name) }
	b.caFile = in("authority.pem")
	conf := fmt.Sprintf(`listeners.tcp.1 = 127.0.0.1:%[1]d
listeners.ssl.1 = 127.0.0.1:%[2]d
ssl_options.cacertfile = %[3]s
ssl_options.certfile = %[4]s
ssl_options.keyfile = %[4]s
ssl_options.verify = verify_none
`, b.port, b.tlsPort, b.caFile, in("server.pem"))
	for name, content := range map[string]string{
		"rabbitmq.conf":   conf,
		"enabled_plugins": "[].\n",
		".erlang.cookie":  rand.Text(),
		"authority.pem":   string(authority),
		"server.pem":      string(certificate),
	} {
		if err := os.WriteFile(in(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	// Nothing of the machine's own environment.
	b.environment = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + b.dir, "LANG=C.UTF-8",
		"ERL_EPMD_PORT=" + strconv.Itoa(b.epmdPort), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=" + b.node, "RABBITMQ_DIST_PORT=" + strconv.Itoa(b.distributionPort),
		"RABBITMQ_CONF_ENV_FILE=" + in("none.conf"), "RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("none.config"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + in("enabled_plugins"),
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"), "RABBITMQ_LOG_BASE=" + in("log"), "RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE=" + in("pid"), "RABBITMQ_GENERATED_CONFIG_DIR=" + in("generated"),
		"RABBITMQ_FEATURE_FLAGS_FILE=" + in("feature_flags"),
		// One scheduler, which sleeps when idle, so that other tests get the processors.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -kernel " +
			"inet_dist_use_interface {127,0,0,1}",
		"ERL_CRASH_DUMP=/dev/null",
	}
	return nil
}

// URL is the broker's address in the form amqp://.
func (b *Broker) URL() string { return fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", b.port) }

// TransportURL is the broker's address in the form of OpenStack's services.
func (b *Broker) TransportURL() string {
	return fmt.Sprintf("rabbit://guest:guest@127.0.0.1:%d/", b.port)
}

// TLSURL is the broker's address with TLS. Its certificate, for localhost, is signed by the
// authority in CAFile.
func (b *Broker) TLSURL() string { return fmt.Sprintf("amqps://guest:guest@localhost:%d/", b.tlsPort) }

// CAFile is the PEM file that a client of TLSURL trusts.
func (b *Broker) CAFile() string { return b.caFile }

// Kill ends the broker as a power failure does: it loses what it has not written.
func (b *Broker) Kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server.KillGroup()
}

// Freeze stops all processes of the broker with SIGSTOP, or continues them.
func (b *Broker) Freeze(frozen bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	signal := syscall.SIGCONT
	if frozen {
		signal = syscall.SIGSTOP
	}
	return syscall.Kill(-b.server.PID(), signal)
}

// startWithin only guards a hang: a broker starts in 3 s, and in minutes on a busy machine.
const startWithin = 5 * time.Minute

// Restart starts the broker again on the same ports, with what it had written, and
// returns when it accepts connections.
func (b *Broker) Restart() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.server.KillGroup(); err != nil {
		return err
	}
	var err error
	if b.server, err = b.start("rabbitmq", exec.Command(server())); err != nil {
		return err
	}
	err = b.server.AwaitReady(context.Background(), startWithin, 100*time.Millisecond,
		func() bool { return acceptsAMQP(b.port) })
	if err != nil {
		return errors.Join(err, b.server.KillGroup())
	}
	return nil
}

// Stop ends the broker and epmd. It may be called again.
func (b *Broker) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.server.KillGroup(), b.epmd.KillGroup())
}

// Control runs rabbitmqctl on this broker.
func (b *Broker) Control(args ...string) error {
	cmd := exec.Command(filepath.Join(filepath.Dir(server()), "rabbitmqctl"),
		append([]string{"--node", b.node}, args...)...)
	cmd.Env = b.environment
	_, err := proc.Succeed(cmd)
	return err
}

// acceptsAMQP reports whether a broker answers the AMQP header: an open port is not enough.
func acceptsAMQP(port int) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err != nil {
		return false
	}
	first := make([]byte, 1)
	err = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err == nil {
		_, err = conn.Write([]byte("AMQP\x00\x00\x09\x01"))
	}
	if err == nil {
		_, err = conn.Read(first)
	}
	// 1 is a method frame: connection.start.
	return errors.Join(err, conn.Close()) == nil && first[0] == 1
}
