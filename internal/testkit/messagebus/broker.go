// Package messagebus plays a cloud's message bus for tests: a real RabbitMQ on loopback
// ports of its own, and a sender of notifications that is oslo.messaging itself.
package messagebus

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
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
)

const python = "/usr/bin/python3"

// Missing says in one line what is not installed here that a broker or a Producer
// needs, "" where nothing is missing.
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

// server is RabbitMQ's own start script. The one in /usr/sbin would change the user and
// read the machine's settings.
func server() string {
	for _, pattern := range []string{"/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server", "/usr/lib/rabbitmq/bin/rabbitmq-server"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// Broker is a RabbitMQ of a test's own.
type Broker struct {
	dir                        string
	node                       string
	port, tlsPort              int
	distributionPort, epmdPort int
	environment                []string
	certificate, caFile        string

	mu     sync.Mutex
	epmd   *process // epmd, which finds nodes by name
	server *process
}

// Start starts a broker whose files lie in dir, and returns once it takes connections.
// Who started it stops it.
func Start(dir string) (*Broker, error) {
	if why := Missing(); why != "" {
		return nil, errors.New(why)
	}
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	b := &Broker{dir: dir, port: ports[0], tlsPort: ports[1], distributionPort: ports[2], epmdPort: ports[3]}
	b.node = fmt.Sprintf("burnish%d@localhost", b.port)
	if b.caFile, b.certificate, err = selfSign(dir); err != nil {
		return nil, err
	}
	if err := b.configure(); err != nil {
		return nil, err
	}
	// Erlang would start one that nobody ends.
	b.epmd, err = start(filepath.Join(dir, "epmd.log"), b.environment, "epmd", "-address", "127.0.0.1", "-port", strconv.Itoa(b.epmdPort))
	if err != nil {
		return nil, err
	}
	if err := b.Restart(); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

func (b *Broker) configure() error {
	secret := make([]byte, 16)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	conf := fmt.Sprintf(`listeners.tcp.1 = 127.0.0.1:%d
listeners.ssl.1 = 127.0.0.1:%d
ssl_options.cacertfile = %s
ssl_options.certfile = %s
ssl_options.keyfile = %s
ssl_options.verify = verify_none
`, b.port, b.tlsPort, b.caFile, b.certificate, b.certificate)
	for name, content := range map[string]string{
		"rabbitmq.conf":   conf,
		"enabled_plugins": "[].\n",
		".erlang.cookie":  hex.EncodeToString(secret),
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	in := func(name string) string { return filepath.Join(b.dir, name) }
	// Nothing of the machine's own settings: the environment is only this.
	b.environment = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + b.dir, "LANG=C.UTF-8",
		"ERL_EPMD_PORT=" + strconv.Itoa(b.epmdPort), "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_NODENAME=" + b.node, "RABBITMQ_DIST_PORT=" + strconv.Itoa(b.distributionPort),
		"RABBITMQ_CONF_ENV_FILE=" + in("none.conf"), "RABBITMQ_CONFIG_FILE=" + in("rabbitmq.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + in("none.config"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + in("enabled_plugins"),
		"RABBITMQ_MNESIA_BASE=" + in("mnesia"), "RABBITMQ_LOG_BASE=" + in("log"), "RABBITMQ_LOGS=-",
		"RABBITMQ_PID_FILE=" + in("pid"), "RABBITMQ_GENERATED_CONFIG_DIR=" + in("generated"),
		"RABBITMQ_FEATURE_FLAGS_FILE=" + in("feature_flags"),
		// One scheduler, which sleeps when idle: tests have other things to run.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
		"ERL_CRASH_DUMP=/dev/null",
	}
	return nil
}

// URL is the broker's address as amqp://.
func (b *Broker) URL() string { return fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", b.port) }

// TransportURL is the broker's address as OpenStack's services have it.
func (b *Broker) TransportURL() string {
	return fmt.Sprintf("rabbit://guest:guest@127.0.0.1:%d/", b.port)
}

// TLSURL is the broker's address with TLS. Its certificate, for localhost, is signed by
// the authority in Authority().
func (b *Broker) TLSURL() string { return fmt.Sprintf("amqps://guest:guest@localhost:%d/", b.tlsPort) }

// Authority is the path of the PEM file that a client of TLSURL trusts.
func (b *Broker) CAFile() string { return b.caFile }

// Kill ends the broker as a power failure does. What it has not written is lost.
func (b *Broker) Kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.server.kill()
	b.server = nil
	return err
}

// Freeze stops the broker's processes where they are, or lets them go on: a machine that
// hangs.
func (b *Broker) Freeze(frozen bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	signal := syscall.SIGCONT
	if frozen {
		signal = syscall.SIGSTOP
	}
	return b.server.signal(signal)
}

// Restart starts the broker again on the same ports, with what it had written, and
// returns once it takes connections.
func (b *Broker) Restart() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server != nil {
		if err := b.server.kill(); err != nil {
			return err
		}
	}
	log := filepath.Join(b.dir, "rabbitmq.log")
	var err error
	if b.server, err = start(log, b.environment, server()); err != nil {
		return err
	}
	for until := time.Now().Add(90 * time.Second); time.Now().Before(until); {
		if acceptsAMQP(b.port) {
			return nil
		}
		if b.server.endedWithin(100 * time.Millisecond) {
			break
		}
	}
	return errors.Join(fmt.Errorf("the broker does not answer: %s", tail(log)), b.server.kill())
}

// Stop ends the broker and what belongs to it. It may be called again.
func (b *Broker) Stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := errors.Join(b.server.kill(), b.epmd.kill())
	b.server, b.epmd = nil, nil
	return err
}

// Control runs rabbitmqctl on this broker.
func (b *Broker) Control(args ...string) error {
	cmd := exec.Command(filepath.Join(filepath.Dir(server()), "rabbitmqctl"), append([]string{"--node", b.node}, args...)...)
	cmd.Env = b.environment
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("rabbitmqctl %s: %w: %s", args[0], err, out)
	}
	return nil
}

// Log is what the broker wrote since it was made.
func (b *Broker) Log() string { return tail(filepath.Join(b.dir, "rabbitmq.log")) }

// greets says whether a broker answers AMQP's header there: an open port is not enough.
func acceptsAMQP(port int) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err != nil {
		return false
	}
	first := make([]byte, 1)
	err = conn.SetDeadline(time.Now().Add(2 * time.Second))
	if err == nil {
		_, err = conn.Write([]byte("AMQP\x00\x00\x09\x01"))
	}
	if err == nil {
		_, err = conn.Read(first)
	}
	// A method frame: connection.start.
	return errors.Join(err, conn.Close()) == nil && first[0] == 1
}

// freePorts are n ports that nobody listens on just now.
func freePorts(n int) (ports []int, err error) {
	var listeners []net.Listener
	defer func() {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(content[max(0, len(content)-20_000):]))
}
