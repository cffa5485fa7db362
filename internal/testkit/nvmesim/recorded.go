package nvmesim

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What nvme admin-passthru prints depends on its arguments, its input and the answer to its one
// ioctl alone. To start it costs far more than the rest of a command does, so each version runs
// once for each such case in a test program, and [Host.Run] prints what it printed then the next
// time.

// recordedRun is how nvme sends a command: the ioctl, with its structure.
type recordedRun struct {
	Request   uint32
	Structure []byte
}

// recordedEnd is how nvme ends after an answer.
type recordedEnd struct {
	Stdout, Stderr []byte
	Code           int
}

// recorder records runs of nvme in a folder, and finds them there.
type recorder struct {
	dir   string
	key   string // of the arguments and the input
	input []byte
}

// runsFile is the file of a host with the path of the folder.
const runsFile = "nvme-runs"

// newRecorder gives nil for a run that is no passthrough command, or that a test means to end early,
// and where nothing is recorded. It reads what the command sends.
func newRecorder(dir string, tool, args []string, stdin io.Reader) (*recorder, error) {
	if len(args) < 2 || args[0] != "admin-passthru" {
		return nil, nil
	}
	var now state
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err == nil {
		err = json.Unmarshal(text, &now)
	}
	if err != nil || slices.ContainsFunc(now.Slots, func(s *slot) bool {
		return slices.ContainsFunc(s.Controller.Inject, Injection.neverAnswers)
	}) {
		return nil, err
	}
	path, err := os.ReadFile(filepath.Join(dir, runsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &recorder{dir: string(path)}
	if slices.Contains(args, "--write") {
		if r.input, err = io.ReadAll(stdin); err != nil {
			return nil, err
		}
	}
	node := strings.TrimPrefix(args[1], dir)
	r.key = keyOf(strings.Join(tool, "\n"), node, strings.Join(args[2:], "\n"), fmt.Sprint(len(r.input)))
	return r, nil
}

func keyOf(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// read finds a record, false for none.
func (r *recorder) read(key string, into any) bool {
	text, err := os.ReadFile(filepath.Join(r.dir, key))
	return err == nil && json.Unmarshal(text, into) == nil
}

// write keeps a record. One that another process has written meanwhile is the same.
func (r *recorder) write(key string, record any) error {
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	next := filepath.Join(r.dir, fmt.Sprintf("%s.%d", key, os.Getpid()))
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(r.dir, key))
}

// Offsets in struct nvme_passthru_cmd, and where a replayed command has its data.
const (
	dataAddressAt, dataLengthAt = 24, 36
	replayedData                = 1 << 20
)

// replayed is the memory of a process that would have sent a command.
type replayed struct{ structure, data []byte }

func (m *replayed) at(address uint64, size int) ([]byte, error) {
	from := m.structure
	if address >= replayedData {
		from, address = m.data, address-replayedData
	}
	if address+uint64(size) > uint64(len(from)) {
		return nil, fmt.Errorf("%d bytes at %d of a recorded command", size, address)
	}
	return from[address : address+uint64(size)], nil
}

func (m *replayed) read(address uint64, size int) ([]byte, error) {
	found, err := m.at(address, size)
	return bytes.Clone(found), err
}

func (m *replayed) write(address uint64, data []byte) error {
	into, err := m.at(address, len(data))
	copy(into, data)
	return err
}

// given is an answer to the ioctl of a run: its value, and what the process has in its memory then.
type given struct {
	Value           int64
	Structure, Data []byte
}

// givenFile is the environment variable with the path of the answer to a run that was given already.
const givenFile = "BURNISH_TEST_NVME_GIVEN"

// endKey is the key of how nvme ends after an answer.
func (r *recorder) endKey(g given) string {
	structure := bytes.Clone(g.Structure)
	clear(structure[dataAddressAt : dataAddressAt+8])
	return keyOf(r.key, fmt.Sprint(g.Value), string(structure), string(g.Data))
}

// recorded answers the ioctl that nvme would send, false if that is not known.
func (r *recorder) recorded(node string, answer answerer) (given, bool) {
	var run recordedRun
	if !r.read(r.key, &run) {
		return given{}, false
	}
	file, err := os.Open(node)
	if err != nil {
		return given{}, false // nvme says why
	}
	defer func() { _ = file.Close() }()
	m := &replayed{run.Structure, make([]byte, binary.LittleEndian.Uint32(run.Structure[dataLengthAt:]))}
	copy(m.data, r.input)
	binary.LittleEndian.PutUint64(m.structure[dataAddressAt:], replayedData)
	value, _ := answer(m, node, run.Request, 0)
	return given{value, m.structure, m.data}, true
}

// give puts an answer that was given already into the memory of nvme.
func (g given) give(p memory, address uint64) error {
	own, err := p.read(address, len(g.Structure))
	if err != nil {
		return err
	}
	data := binary.LittleEndian.Uint64(own[dataAddressAt:])
	const after = dataLengthAt + 4 + 4*6 // the result follows dwords 10 to 15 and the time-out
	return errors.Join(p.write(data, g.Data), p.write(address+after, g.Structure[after:]))
}

// take reads the answer that nvme got, and the ioctl before it.
func take(p memory, address uint64, request uint32, value int64) (given, error) {
	structure, err := p.read(address, int(request>>16&0x3fff))
	if err != nil {
		return given{}, err
	}
	little := binary.LittleEndian
	data, err := p.read(little.Uint64(structure[dataAddressAt:]), int(little.Uint32(structure[dataLengthAt:])))
	return given{value, structure, data}, err
}

// run runs nvme, in the program that stands for it, and records that. It returns the exit code.
func (r *recorder) run(tool, args []string, answer answerer) (int, error) {
	var g given
	known := os.Getenv(givenFile) != ""
	if known {
		text, err := os.ReadFile(os.Getenv(givenFile))
		if err = errors.Join(err, json.Unmarshal(text, &g)); err != nil {
			return 0, err
		}
	}
	requests := 0
	var run recordedRun
	var failed error
	// Files, because trace waits for nvme itself, and for no goroutine that copies.
	var files [3]*os.File
	for i := range files {
		fd, err := unix.MemfdCreate("nvme", unix.MFD_CLOEXEC)
		if err != nil {
			return 0, err
		}
		files[i] = os.NewFile(uintptr(fd), "nvme")
	}
	if _, err := files[0].WriteAt(r.input, 0); err != nil {
		return 0, err
	}
	code, err := trace(tool, args, files[0], files[1], files[2],
		func(p memory, path string, request uint32, address uint64) (int64, bool) {
			if known {
				failed = errors.Join(failed, g.give(p, address))
				return g.Value, true
			}
			before, err := take(p, address, request, 0)
			failed = errors.Join(failed, err)
			value, answered := answer(p, path, request, address)
			if !answered {
				return value, false
			}
			requests++
			run = recordedRun{request, before.Structure}
			g, err = take(p, address, request, value)
			failed = errors.Join(failed, err)
			return value, true
		})
	end := recordedEnd{contents(files[1]), contents(files[2]), code}
	if err == nil && failed == nil && requests <= 1 && g.Structure != nil {
		err = r.write(r.endKey(g), end)
		if !known {
			err = errors.Join(err, r.write(r.key, run))
		}
	}
	return code, errors.Join(err, end.print(os.Stdout, os.Stderr))
}

// contents is what is in a file in memory.
func contents(file *os.File) []byte {
	text, _ := io.ReadAll(io.NewSectionReader(file, 0, maxData)) // a file in memory can be read
	return text
}

// print prints what nvme printed.
func (e recordedEnd) print(stdout, stderr io.Writer) error {
	_, out := stdout.Write(e.Stdout)
	_, complaint := stderr.Write(e.Stderr)
	return errors.Join(out, complaint)
}

// Run runs a command of the Tool to its end. What nvme is known to print then is printed in this
// process.
func (s *Host) Run(cmd *exec.Cmd) error {
	if cmd.Path != s.Tool() || cmd.Err != nil {
		return cmd.Run()
	}
	tool, err := toolOf(s.Dir)
	if err != nil {
		return err
	}
	r, err := newRecorder(s.Dir, tool, cmd.Args[1:], cmd.Stdin)
	if err != nil {
		return err
	}
	if r == nil {
		return cmd.Run()
	}
	e := emulator{dir: s.Dir, inTest: true}
	g, known := r.recorded(cmd.Args[2], e.answer)
	var end recordedEnd
	switch {
	case e.err != nil:
		return fmt.Errorf("the NVMe emulator failed: %w", e.err)
	case known && r.read(r.endKey(g), &end):
		err = end.print(cmd.Stdout, cmd.Stderr)
		if end.Code != 0 {
			err = errors.Join(err, fmt.Errorf("exit status %d", end.Code))
		}
		return err
	case known:
		text, err := json.Marshal(g)
		if err != nil {
			return err
		}
		path := filepath.Join(s.t.TempDir(), "given")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, givenFile+"="+path)
	}
	if r.input != nil {
		cmd.Stdin = bytes.NewReader(r.input)
	}
	return cmd.Run()
}
