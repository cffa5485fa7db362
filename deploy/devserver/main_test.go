package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// runsAsServer makes the test binary be the program, so that the tests kill a
// real process without building a second binary.
const runsAsServer = "BURNISH_DEVSERVER_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runsAsServer) != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is one burnish-devserver.
type process struct {
	cmd     *exec.Cmd
	ready   string // its line on stdout
	address string
	stderr  *safeBuffer
	rest    chan string // everything after the ready line, when stdout ends
}

var readyPattern = regexp.MustCompile(`^burnish-devserver ready: temporal (\S+), web ui (\S+), database (.+)$`)

// start runs the program and waits for its ready line.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: command(args...), stderr: &safeBuffer{}, rest: make(chan string, 1)}
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		switch {
		case p.ready == "": // it ended before
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		case p.cmd.ProcessState == nil:
			p.kill(t)
		}
	})
	lines := bufio.NewReader(stdout)
	p.ready, err = lines.ReadString('\n')
	require.NoError(t, err, "stderr: %s", p.stderr)
	match := readyPattern.FindStringSubmatch(strings.TrimSuffix(p.ready, "\n"))
	require.NotNil(t, match, "ready line: %q", p.ready)
	p.address = match[1]
	go func() {
		var rest bytes.Buffer
		_, _ = rest.ReadFrom(lines)
		p.rest <- rest.String()
	}()
	return p
}

// kill ends the process like a crash.
func (p *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Kill())
	<-p.rest
	require.Error(t, p.cmd.Wait())
}

// stop ends the process in order and checks that it printed nothing more.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Empty(t, <-p.rest, "stdout after the ready line")
	require.NoError(t, p.cmd.Wait(), "stderr: %s", p.stderr)
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), runsAsServer+"=1")
	return cmd
}

// refused runs the program to its end and returns its one line of error.
func refused(t *testing.T, wantExit int, args ...string) string {
	t.Helper()
	cmd := command(args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Run(), &exit)
	require.Equal(t, wantExit, exit.ExitCode(), "stderr: %s", &stderr)
	require.Empty(t, stdout.String())
	require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line: %q", &stderr)
	return stderr.String()
}

func dial(t *testing.T, p *process) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: p.address})
	require.NoError(t, err)
	return c
}

const (
	testQueue  = "devserver-test"
	timerDelay = 4 * time.Second // doubled on a machine that is too busy for it
)

var deviceState = temporal.NewSearchAttributeKeyKeyword("DeviceState")

// waitForTimer is a device that is busy for a while.
func waitForTimer(ctx workflow.Context, delay time.Duration) (string, error) {
	if err := workflow.UpsertTypedSearchAttributes(ctx, deviceState.ValueSet("cleaning")); err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, delay); err != nil {
		return "", err
	}
	return "fired", workflow.UpsertTypedSearchAttributes(ctx, deviceState.ValueSet("available"))
}

func startWorker(t *testing.T, c client.Client) worker.Worker {
	t.Helper()
	w := worker.New(c, testQueue, worker.Options{})
	w.RegisterWorkflow(waitForTimer)
	require.NoError(t, w.Start())
	return w
}

func count(t *testing.T, c client.Client, query string) int64 {
	t.Helper()
	response, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	require.NoError(t, err)
	return response.GetCount()
}

func clusterID(t *testing.T, c client.Client) string {
	t.Helper()
	info, err := c.WorkflowService().GetClusterInfo(t.Context(), &workflowservice.GetClusterInfoRequest{})
	require.NoError(t, err)
	return info.GetClusterId()
}

func TestTimerFiresAfterKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "temporal.db")
	first := start(t, "--db", file, "--port", "0", "--ui-port", "0")
	c := dial(t, first)
	w := startWorker(t, c)
	id := clusterID(t, c)
	var began time.Time
	var device string
	is := func(state string) bool {
		return count(t, c, fmt.Sprintf("DeviceState = '%s' AND WorkflowId = '%s'", state, device)) == 1
	}
	delay := timerDelay
	for ; ; delay *= 2 {
		require.Less(t, delay, 5*time.Minute)
		device = fmt.Sprintf("device/h1_0000:01:00.%d", delay/timerDelay)
		began = time.Now()
		_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: device, TaskQueue: testQueue},
			waitForTimer, delay)
		require.NoError(t, err)
		for !is("cleaning") && time.Since(began) < delay/2 {
			<-time.After(10 * time.Millisecond)
		}
		if is("cleaning") && time.Since(began) < delay*3/4 {
			break
		}
	}

	first.kill(t)
	w.Stop()
	c.Close()

	second := start(t, "--db", file, "--port", "0", "--ui-port", "0")
	c = dial(t, second)
	defer c.Close()
	require.Equal(t, id, clusterID(t, c), "the cluster stays the same for one file")
	w = startWorker(t, c)
	defer w.Stop()
	require.Eventually(t, func() bool { return is("available") }, delay+time.Minute, 20*time.Millisecond)
	took := time.Since(began)
	require.GreaterOrEqual(t, took, delay)
	t.Logf("a timer of %s fired %s after it was set, with a crash in between", delay, took)
	var result string
	require.NoError(t, c.GetWorkflow(t.Context(), device, "").Get(t.Context(), &result))
	require.Equal(t, "fired", result)
}

func TestNamespaceIsReadyForDevices(t *testing.T) {
	p := start(t, "--port", "0", "--ui-port", "0", "--namespace", "site")
	c := dial(t, p)
	defer c.Close()
	response, err := c.WorkflowService().
		DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "site"})
	require.NoError(t, err)
	require.Equal(t, retention, response.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration())
	require.Empty(t, p.stderr.String()) // polls that a stop interrupts are logged later
	p.stop(t)
}

func TestOlderDatabaseGetsNewAttributes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "temporal.db")
	db, err := openDatabase(file, false)
	require.NoError(t, err)
	require.NoError(t, db.makeSchema())
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, "default", false, map[string]enumspb.IndexedValueType{
		"DeviceState": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	})
	require.NoError(t, err)
	require.NoError(t, sqliteschema.CreateNamespaces(db.sqlConfig(), ns))
	require.NoError(t, db.unlock())

	p := start(t, "--db", file, "--port", "0", "--ui-port", "0")
	c := dial(t, p)
	defer c.Close()
	require.Zero(t, count(t, c, attributesQuery()))
}

func TestStopLeavesTheWholeStateInTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "temporal.db")
	p := start(t, "--db", file, "--port", "0", "--ui-port", "0")
	p.stop(t)
	log, err := os.Stat(file + "-wal")
	if err == nil {
		require.Zero(t, log.Size())
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(copied, data, 0o600))
	start(t, "--db", copied, "--port", "0", "--ui-port", "0")
}

func TestTwoServersSideBySide(t *testing.T) {
	dir := t.TempDir()
	one := start(t, "--db", filepath.Join(dir, "one.db"), "--port", "0", "--ui-port", "0")
	two := start(t, "--db", filepath.Join(dir, "two.db"), "--port", "0", "--ui-port", "0")
	require.NotEqual(t, one.address, two.address)
	_, port, err := net.SplitHostPort(one.address)
	require.NoError(t, err)

	line := refused(t, exitFailed, "--db", filepath.Join(dir, "one.db"), "--port", "0")
	require.Contains(t, line, "in use by another burnish-devserver")
	require.NoError(t, os.Symlink("one.db", filepath.Join(dir, "alias.db")))
	line = refused(t, exitFailed, "--db", filepath.Join(dir, "alias.db"), "--port", "0")
	require.Contains(t, line, "in use by another burnish-devserver")
	line = refused(t, exitFailed, "--port", port)
	require.Contains(t, line, "port "+port+" on 127.0.0.1 (temporal) is in use")
	require.Contains(t, line, "--port")
	line = refused(t, exitFailed, "--port", "0", "--ui-port", port)
	require.Contains(t, line, "(web ui) is in use")
}

func TestRefusesWhatIsNotADatabase(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.db")
	require.NoError(t, os.WriteFile(junk, []byte(strings.Repeat("not a database\n", 100)), 0o600))
	require.Contains(t, refused(t, exitFailed, "--db", junk, "--port", "0"), "not a database")
	require.Contains(t, refused(t, exitFailed, "--db", filepath.Join(dir, "no", "such.db"), "--port", "0"),
		"create its directory")
	require.Contains(t, refused(t, exitFailed, "--db", dir, "--port", "0"), "is not writable")
}

// safeBuffer is written by the process and read by the test.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
