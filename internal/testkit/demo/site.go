package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"burnish/workflows/contract"
)

// site is one server and one worker on this machine, with a folder of their own.
type site struct {
	bin, dir, host string
	// stays: the processes outlive this program, and are found by their pid files.
	stays   bool
	address string
	// port and uiPort stay the same when the server is started again.
	port, uiPort int
	allowed      []string // paths besides those of the site's own folder
	enrolled     int
	server       *exec.Cmd
	worker       *exec.Cmd
}

func (s *site) start(ctx context.Context) error {
	for _, sub := range []string{"state", "files"} {
		if err := os.MkdirAll(filepath.Join(s.dir, sub), 0o700); err != nil {
			return err
		}
	}
	if err := s.allow(); err != nil {
		return err
	}
	if err := s.startServer(); err != nil {
		return err
	}
	return s.startWorker()
}

func (s *site) hostFile() string { return filepath.Join(s.dir, "host.yaml") }

// allow adds paths to what may be destroyed; the files of the site always may.
func (s *site) allow(paths ...string) error {
	s.allowed = append(s.allowed, paths...)
	var rules strings.Builder
	rules.WriteString("allow:\n  fake: true\n  paths:\n")
	for _, path := range append([]string{filepath.Join(s.dir, "files") + "/**"}, s.allowed...) {
		fmt.Fprintf(&rules, "    - %q\n", path)
	}
	return os.WriteFile(s.hostFile(), []byte(rules.String()), 0o600)
}

func (s *site) startServer() error {
	again := s.port != 0
	if !again {
		var err error
		if s.port, s.uiPort, err = s.ports(); err != nil {
			return err
		}
	}
	s.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
	s.server = s.command("burnish-devserver", "--port", strconv.Itoa(s.port), "--ui-port", strconv.Itoa(s.uiPort),
		"--db", filepath.Join(s.dir, "temporal.db"))
	log, err := os.OpenFile(filepath.Join(s.dir, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.server.Stderr = log
	out, err := s.server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.launch("server", s.server); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server did not start; %s: %s", log.Name(), tail(log.Name()))
	}
	if again {
		return nil
	}
	fmt.Print(line)
	fmt.Printf("Web UI: http://127.0.0.1:%d   devices that wait for an operator, as a query there:\n  %s\n", s.uiPort, contract.QueryStuck)
	return nil
}

func (s *site) startWorker() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.worker = s.command("burnish-worker")
	s.worker.Env = append(s.worker.Env, "BURNISH_ROLE=all", "BURNISH_HOST="+s.host,
		"BURNISH_STATE_DIR="+filepath.Join(s.dir, "state"), "BURNISH_HOST_FILE="+s.hostFile(), "BURNISH_MAX_CLEANS_PER_HOST=4")
	s.worker.Stderr = log
	return s.launch("worker", s.worker)
}

func (s *site) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+s.address, "TEMPORAL_NAMESPACE=default")
	return cmd
}

// launch starts a process; one that stays gets a session of its own and a pid file.
func (s *site) launch(name string, cmd *exec.Cmd) error {
	// A process of this program's own group would get the user's Ctrl-C before the
	// demo could end it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the %s: %w", name, err)
	}
	if !s.stays {
		return nil
	}
	return os.WriteFile(s.pidFile(name), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600)
}

func (s *site) pidFile(name string) string { return filepath.Join(s.dir, name+".pid") }

// pid reads a pid file and says whether that process is still the one it names.
func (s *site) pid(name string) (int, bool, error) {
	text, err := os.ReadFile(s.pidFile(name))
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", s.pidFile(name), err)
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return pid, err == nil && strings.Contains(string(command), "burnish-"), nil
}

func (s *site) running() (bool, error) {
	_, server, err := s.pid("server")
	_, worker, err2 := s.pid("worker")
	return server || worker, errors.Join(err, err2)
}

// stop ends worker and server, in order, and waits for both.
func (s *site) stop() error {
	if !s.stays {
		return errors.Join(end(s.worker), end(s.server))
	}
	for _, name := range []string{"worker", "server"} {
		pid, alive, err := s.pid(name)
		if err != nil {
			return err
		}
		if alive {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				return fmt.Errorf("end the %s: %w", name, err)
			}
			if err := await(context.Background(), time.Minute, "the "+name+" to end", func() (bool, error) {
				_, alive, err := s.pid(name)
				return !alive, err
			}); err != nil {
				return err
			}
		}
		if err := os.Remove(s.pidFile(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func end(cmd *exec.Cmd) error {
	if cmd == nil || cmd.Process == nil || cmd.ProcessState != nil {
		return nil
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}

// kill is kill -9, of all before any is waited for.
func kill(all ...*exec.Cmd) error {
	for _, cmd := range all {
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
	}
	for _, cmd := range all {
		var killed *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &killed) {
			return err
		}
	}
	return nil
}

// burnish runs the command line as an operator would, and shows it.
func (s *site) burnish(args ...string) (string, error) {
	fmt.Printf("$ burnish %s\n", strings.Join(args, " "))
	out, err := s.quietly(args...)
	fmt.Print(out)
	return out, err
}

func (s *site) quietly(args ...string) (string, error) {
	cmd := s.command("burnish", args...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("burnish %s: %s (%w)", strings.Join(args, " "), strings.TrimSpace(string(out)), err)
	}
	return string(out), nil
}

func (s *site) devices() ([]contract.DeviceStatus, error) {
	out, err := s.quietly("list", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Devices []contract.DeviceStatus `json:"devices"`
	}
	return list.Devices, json.Unmarshal([]byte(out), &list)
}

func (s *site) device(name string) (contract.DeviceStatus, error) {
	var v contract.DeviceStatus
	out, err := s.quietly("show", name, "-o", "json", "--timeout", "20s")
	if err != nil {
		return v, err
	}
	// A note about a worker that does not answer may stand before the object.
	return v, json.Unmarshal([]byte(out[max(strings.Index(out, "{"), 0):]), &v)
}

// await polls until done says so; it gives up after limit.
func await(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited %s for %s in vain", limit, what)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// ports are Temporal's usual ones for a site that stays, where both are free, so that
// `burnish` and `temporal` find it unasked; otherwise any free ones.
func (s *site) ports() (int, int, error) {
	if s.stays {
		if port, uiPort, err := freePorts("7233", "8233"); err == nil {
			return port, uiPort, nil
		}
	}
	return freePorts("0", "0")
}

func freePorts(wanted ...string) (int, int, error) {
	var ports [2]int
	for i := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", wanted[i]))
		if err != nil {
			return 0, 0, err
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1], nil
}

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}
