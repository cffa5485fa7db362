package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// childMode makes the test binary run one of the processes below instead of the tests.
const childMode = "BURNISH_HOST_TEST_CHILD"

func TestMain(m *testing.M) {
	mode := os.Getenv(childMode)
	if mode == "" {
		os.Exit(m.Run())
	}
	child, ok := children[mode]
	if !ok {
		fmt.Fprintln(os.Stderr, "no child of that name:", mode)
		os.Exit(2)
	}
	if err := child(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// children are the processes that tests kill. Each prints a line when it is ready, and ends
// when its standard input does: no child outlives the tests.
var children = map[string]func(args []string) error{
	"idle":    idleChild,
	"worker":  workerChild,
	"fence":   fenceChild,
	"parent":  parentChild,
	"count":   countChild,
	"journal": journalChild,
}

// idleChild does nothing but keep the descriptors that it inherited.
func idleChild([]string) error {
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// workerChild opens the host: DIR NAME.
func workerChild(args []string) error {
	h, err := Open(args[0], args[1], nil)
	if err != nil {
		return err
	}
	if err := idleChild(nil); err != nil {
		return err
	}
	return h.Close()
}

// fenceChild opens the host, takes a fence and starts an orphan-to-be that inherits
// it: DIR NAME KEY. It prints the orphan's pid.
func fenceChild(args []string) error {
	h, err := Open(args[0], args[1], nil)
	if err != nil {
		return err
	}
	f, err := h.Fence(context.Background(), args[2], nil)
	if err != nil {
		return err
	}
	if err := f.Describe("zero of clean 7"); err != nil {
		return err
	}
	orphan := childCommand("idle")
	orphan.Stdin = os.Stdin
	orphan.ExtraFiles = []*os.File{f.File()}
	if err := startReady(orphan); err != nil {
		return err
	}
	fmt.Println(orphan.Process.Pid)
	return orphan.Wait()
}

// parentChild starts a child with ChildAttr that keeps this process's descriptor 3.
// It prints the child's pid.
func parentChild([]string) error {
	child := childCommand("idle")
	child.Stdin = os.Stdin
	child.SysProcAttr = ChildAttr()
	child.ExtraFiles = []*os.File{os.NewFile(3, "inherited")}
	if err := startReady(child); err != nil {
		return err
	}
	fmt.Println(child.Process.Pid)
	return child.Wait()
}

// countChild adds 1 to the number in a file, N times, each time under the fence. Counts are
// lost if two processes do so at once: DIR KEY FILE N.
func countChild(args []string) error {
	n, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	return count(&Host{dir: args[0]}, args[1], args[2], n)
}

func count(h *Host, key, file string, n int) error {
	for range n {
		f, err := h.Fence(context.Background(), key, nil)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		was, err := strconv.Atoi(string(text))
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(was+1)), 0o600); err != nil {
			return err
		}
		if err := f.Held(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// journalChild saves entry after entry until it is killed, and prints the number of
// each that Save acknowledged: DIR NAME FIRST.
func journalChild(args []string) error {
	first, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	j := (&Host{dir: args[0]}).Journal(args[1])
	for n := first; ; n++ {
		if err := j.Save(crashEntry(n)); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// crashEntry is an entry of which every field contains its number. It is so large that
// writing it takes a while.
func crashEntry(n int64) Entry {
	return Entry{
		Seq: n, Attempt: int32(n), Clean: fmt.Sprint(n), Size: n << 20, Offset: n << 10, RunTime: time.Duration(n),
		Result: json.RawMessage(fmt.Sprintf(`{"n":%d,"long":%q}`, n, strings.Repeat("x", 256<<10))),
	}
}

// childCommand is a process of this test binary that is not started yet.
func childCommand(mode string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

// startReady starts a child and reads its first line.
func startReady(cmd *exec.Cmd) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	return err
}

// running is a child of a test.
type running struct {
	*exec.Cmd
	out    *bufio.Reader
	killed sync.Once
}

// startChild starts a child that ends with the test, together with its own children: their
// standard input ends then.
func startChild(t *testing.T, cmd *exec.Cmd) *running {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &running{Cmd: cmd, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		c.kill9(t)
		require.NoError(t, in.Close())
		require.NoError(t, out.Close())
	})
	return c
}

func (c *running) line(t *testing.T) string {
	t.Helper()
	line, err := c.out.ReadString('\n')
	require.NoError(t, err, "the child ended early")
	return strings.TrimSpace(line)
}

// kill9 kills the child and waits until it has ended. It does not call Cmd.Wait, which would
// close the standard input that the child shares with its own children.
func (c *running) kill9(t *testing.T) {
	t.Helper()
	c.killed.Do(func() {
		require.NoError(t, c.Process.Kill())
		_, err := c.Process.Wait()
		require.NoError(t, err)
	})
}

// testDir is the path of a state directory, whatever the umask.
func testDir(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state")
}

// hostName is a name that no other test on this machine has.
func hostName(t *testing.T) string {
	return fmt.Sprintf("%s.%d", strings.ReplaceAll(t.Name(), "/", "."), os.Getpid())
}

// openHost opens a host in a directory of its own.
func openHost(t *testing.T) *Host {
	t.Helper()
	h, err := Open(testDir(t), hostName(t), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

// requireFault requires a fault of class and code with a one-line message and remedy.
func requireFault(t *testing.T, err error, class device.Class, code device.Code) device.Fault {
	t.Helper()
	f, ok := device.AsFault(err)
	require.True(t, ok, "want a fault %s, have %v", code, err)
	require.Equal(t, code, f.Code, f.Message)
	require.Equal(t, class, f.Class, f.Message)
	require.NotEmpty(t, f.Message)
	require.NotContains(t, f.Error(), "\n")
	require.NotEmpty(t, f.Remedy)
	return *f
}
