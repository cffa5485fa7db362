package host

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
)

func sampleEntry() Entry {
	return Entry{
		Seq: 7, Attempt: 2, Clean: "h1_0000:01:00.0/3", Step: "zero", Serial: "S1", Size: 1 << 40, Offset: 1 << 30,
		RunTime: 90 * time.Second, Working: true, Done: true, Result: json.RawMessage(`{"bytes":1,"note":"<&>\u2028"}`),
	}
}

// F2
func TestSaveAndLoad(t *testing.T) {
	h := openHost(t)
	for _, name := range []string{"h1_0000:01:00.0", "../../etc/passwd", ".", "..", "a b\n\"%", "%2E",
		strings.Repeat("ü", 127)} {
		j := h.Journal(name)
		_, found, err := j.Load()
		require.NoError(t, err)
		require.False(t, found)

		want := sampleEntry()
		before := time.Now()
		require.NoError(t, j.Save(want))
		have, found, err := j.Load()
		require.NoError(t, err)
		require.True(t, found)
		require.WithinRange(t, have.Updated, before.Add(-time.Second), time.Now().Add(time.Second))
		want.Updated = have.Updated
		require.JSONEq(t, string(want.Result), string(have.Result))
		want.Result = have.Result
		require.Equal(t, want, have)
	}
	entries, err := h.Entries()
	require.NoError(t, err)
	require.Len(t, entries, 7)
	inside, err := os.ReadDir(filepath.Dir(h.Dir()))
	require.NoError(t, err)
	require.Len(t, inside, 1, "a name was saved outside the journal's folder")
}

func TestFileName_IsDistinctAndSafe(t *testing.T) {
	long := strings.Repeat("x", 300)
	seen := make(map[string]string)
	for _, name := range []string{"a", "A", "a/b", "a%2Fb", ".a", "%2Ea", "a.b", "..", "a\x00", "a%00", long, long + "y",
		"y" + long, long[:100] + "%~"} {
		file, err := fileName(name)
		require.NoError(t, err)
		require.LessOrEqual(t, len(file)+len(extension), 255)
		require.NotContains(t, file, "/")
		require.NotContains(t, file, "\x00")
		require.NotEqual(t, '.', rune(file[0]))
		require.NotContains(t, seen, file, "%q and %q share a file", name, seen[file])
		seen[file] = name
	}
	_, err := fileName("")
	require.Error(t, err)
}

// F2
func TestKilledAtAnyMomentTheEntryIsWhole(t *testing.T) {
	h := openHost(t)
	j := h.Journal("d1")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	next, rounds := int64(1), 0
	for end := time.Now().Add(3 * time.Second); rounds < 8 || rounds < 60 && time.Now().Before(end); rounds++ {
		child := startChild(t, childCommand("journal", h.Dir(), "d1", strconv.FormatInt(next, 10)))
		acknowledged := next - 1
		for range random.IntN(4) {
			n, err := strconv.ParseInt(child.line(t), 10, 64)
			require.NoError(t, err)
			acknowledged = n
		}
		// Killed without waiting, at a random moment.
		<-time.After(time.Duration(random.IntN(int(4 * time.Millisecond))))
		child.kill9(t)
		for {
			line, err := child.out.ReadString('\n')
			if err != nil {
				break
			}
			acknowledged, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			require.NoError(t, err)
		}

		e, found, err := j.Load()
		require.NoError(t, err, "round %d", rounds)
		if !found {
			require.Zero(t, acknowledged, "round %d: an acknowledged entry is gone", rounds)
			continue
		}
		require.Contains(t, []int64{acknowledged, acknowledged + 1}, e.Seq, "round %d", rounds)
		want := crashEntry(e.Seq)
		want.Updated = e.Updated
		require.Equal(t, want, e, "round %d: a mixture of entries", rounds)
		next = e.Seq + 1
	}
	t.Logf("%d kills, %d entries", rounds, next-1)

	// A worker that starts removes the unfinished files of the killed ones.
	require.NoError(t, os.WriteFile(h.path(journalFolder, atomicfile.TempPrefix+"1"), []byte("{"), 0o600))
	require.NoError(t, h.Close())
	again, err := Open(h.Dir(), h.Name(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, again.Close()) }()
	left, err := filepath.Glob(h.path(journalFolder, atomicfile.TempPrefix+"*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// F2
func TestFullDiskKeepsTheOldEntry(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system that is small enough to fill")
	}
	dir := testDir(t)
	require.NoError(t, os.Mkdir(dir, 0o700))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=512k,mode=0700"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	h, err := Open(dir, hostName(t), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()

	j := h.Journal("d1")
	old := sampleEntry()
	require.NoError(t, j.Save(old))
	ballast := filepath.Join(dir, "ballast")
	err = os.WriteFile(ballast, make([]byte, 1<<20), 0o600)
	require.ErrorIs(t, err, unix.ENOSPC)

	bigger := old
	bigger.Offset++
	bigger.Result = json.RawMessage(`"` + strings.Repeat("x", 64<<10) + `"`)
	for range 3 {
		fault := requireFault(t, j.Save(bigger), device.Transient, device.CodeStateDirError)
		require.Contains(t, fault.Message, "no space left")
		require.Contains(t, fault.Remedy, h.path(journalFolder))
	}
	have, found, err := j.Load()
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, old.Offset, have.Offset)
	files, err := os.ReadDir(h.path(journalFolder))
	require.NoError(t, err)
	require.Len(t, files, 1, "an unfinished file takes space on the full disk")

	// A file system that is read-only, as after an error, is no other fault.
	folder := h.path(journalFolder)
	require.NoError(t, unix.Mount(folder, folder, "", unix.MS_BIND, ""))
	require.NoError(t, unix.Mount("", folder, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	fault := requireFault(t, j.Save(bigger), device.Transient, device.CodeStateDirError)
	require.Contains(t, fault.Message, "read-only file system")
	require.NoError(t, unix.Unmount(folder, unix.MNT_DETACH))
	require.NoError(t, os.Remove(ballast))
	require.NoError(t, j.Save(bigger))
	have, _, err = j.Load()
	require.NoError(t, err)
	require.Equal(t, bigger.Offset, have.Offset)
}

// F2
func TestCorruptEntryIsNeverUsed(t *testing.T) {
	h := openHost(t)
	j := h.Journal("d1")
	require.NoError(t, j.Save(sampleEntry()))
	path := h.path(journalFolder, "d1"+extension)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, h.Journal("d2").Save(sampleEntry()))
	others, err := os.ReadFile(h.path(journalFolder, "d2"+extension))
	require.NoError(t, err)
	changed := strings.Replace(string(good), `"offset":1073741824`, `"offset":1073741825`, 1)
	require.NotEqual(t, string(good), changed)

	cases := map[string]string{
		"empty": "", "zeroes": string(make([]byte, len(good))), "no json": "x", "null": "null", "other json": "{}",
		"one digit": changed, "another device's": string(others), "more behind it": string(good) + "{}",
		"no data": `{"name":"d1","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`,
	}
	for n := 0; n < len(good)-1; n += 17 {
		cases[fmt.Sprintf("cut after %d", n)] = string(good[:n])
	}
	for what, content := range cases {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		e, found, err := j.Load()
		var corrupt *CorruptError
		require.ErrorAs(t, err, &corrupt, what)
		require.Equal(t, "d1", corrupt.Name)
		require.Equal(t, path, corrupt.Path)
		require.False(t, found, what)
		require.Zero(t, e, what)
		require.Zero(t, ResumeOffset(e, found, "h1_0000:01:00.0/3", "zero", "S1", 1<<40), what)

		entries, err := h.Entries()
		require.ErrorAs(t, err, &corrupt, what)
		require.Len(t, entries, 1, "the other entries are returned")
		require.Equal(t, "d2", entries[0].Name)
	}
	require.NoError(t, j.Save(sampleEntry()), "a corrupt entry can be replaced")
	_, found, err := j.Load()
	require.NoError(t, err)
	require.True(t, found)
}

// F2
func TestUnreadableEntryIsNotMissing(t *testing.T) {
	h := openHost(t)
	require.NoError(t, os.Mkdir(h.path(journalFolder, "d1"+extension), 0o700))
	_, found, err := h.Journal("d1").Load()
	requireFault(t, err, device.Transient, device.CodeStateDirError)
	require.False(t, found)
}

// F1, F26
func TestAdmit(t *testing.T) {
	done := json.RawMessage(`{"bytes":5}`)
	of := func(seq int64, attempt int32, change ...func(*Entry)) Entry {
		e := Entry{Seq: seq, Attempt: attempt, Clean: "c1 g7 v1", Step: "verify", Serial: "S1", Size: 1 << 30}
		for _, do := range change {
			do(&e)
		}
		return e
	}
	finished := func(e *Entry) { e.Done, e.Result = true, done }
	cases := map[string]struct {
		stored  Entry
		missing bool
		seq     int64
		attempt int32
		want    string
	}{
		"nothing stored":                   {missing: true, seq: 1, attempt: 1, want: "go"},
		"nothing stored, fields ignored":   {stored: of(9, 0, finished), missing: true, seq: 1, attempt: 1, want: "go"},
		"newer scheduling":                 {stored: of(4, 9), seq: 5, attempt: 1, want: "go"},
		"newer scheduling, older done":     {stored: of(4, 9, finished), seq: 5, attempt: 1, want: "go"},
		"older scheduling":                 {stored: of(6, 1), seq: 5, attempt: 9, want: "superseded"},
		"older scheduling, newer one done": {stored: of(6, 1, finished), seq: 5, attempt: 9, want: "superseded"},
		"next attempt":                     {stored: of(5, 1), seq: 5, attempt: 2, want: "go"},
		"same attempt":                     {stored: of(5, 2), seq: 5, attempt: 2, want: "go"},
		"older attempt":                    {stored: of(5, 3), seq: 5, attempt: 2, want: "superseded"},
		"done, next attempt":               {stored: of(5, 2, finished), seq: 5, attempt: 3, want: "done"},
		"done, older attempt":              {stored: of(5, 2, finished), seq: 5, attempt: 1, want: "done"},
		"only the number is known":         {stored: Entry{Seq: 6}, seq: 5, attempt: 1, want: "superseded"},
		// A workflow that was put back to an earlier moment gives out numbers twice.
		"done in another clean":      {stored: of(5, 2, finished, func(e *Entry) { e.Clean = "c1 g6 v1" }), seq: 5, attempt: 1, want: "superseded"},
		"done by another step":       {stored: of(5, 2, finished, func(e *Entry) { e.Step = "zero" }), seq: 5, attempt: 1, want: "superseded"},
		"done on another unit":       {stored: of(5, 2, finished, func(e *Entry) { e.Serial = "S2" }), seq: 5, attempt: 1, want: "superseded"},
		"done on another size":       {stored: of(5, 2, finished, func(e *Entry) { e.Size++ }), seq: 5, attempt: 1, want: "superseded"},
		"begun in another clean":     {stored: of(5, 1, func(e *Entry) { e.Clean = "c2 g7 v1" }), seq: 5, attempt: 2, want: "superseded"},
		"older and of another clean": {stored: of(4, 2, finished, func(e *Entry) { e.Clean = "c0 g3 v1" }), seq: 5, attempt: 1, want: "go"},
	}
	for what, c := range cases {
		t.Run(what, func(t *testing.T) {
			have := Admit(c.stored, !c.missing, of(c.seq, c.attempt))
			switch c.want {
			case "go":
				require.Equal(t, Admission{Go: true}, have)
			case "done":
				require.Equal(t, Admission{Done: true, Result: done}, have)
			case "superseded":
				requireFault(t, have.Fault, device.Permanent, device.CodeSuperseded)
				require.False(t, have.Go || have.Done)
			}
		})
	}
}

// The fence's key is the serial, the journal's the name: after a replacement, an attempt
// that still hangs on the old hardware must not overwrite what the new one's steps wrote.
//
// F1, F26
func TestAnOlderEntryNeverReplacesANewerOne(t *testing.T) {
	h := openHost(t)
	j := h.Journal("d1")
	newer := sampleEntry()
	newer.Serial = "S2"
	require.NoError(t, j.Save(newer))
	for what, change := range map[string]func(*Entry){
		"an older scheduling, of the hardware before": func(e *Entry) { e.Seq, e.Serial, e.Attempt = newer.Seq-1, "S1", 9 },
		"an older attempt":                            func(e *Entry) { e.Attempt = newer.Attempt - 1 },
	} {
		old := newer
		change(&old)
		requireFault(t, h.Journal("d1").Save(old), device.Permanent, device.CodeSuperseded)
		have, _, err := j.Load()
		require.NoError(t, err)
		require.Equal(t, newer.Serial, have.Serial, what)
		require.Equal(t, newer.Attempt, have.Attempt, what)
	}
	newer.Offset++
	require.NoError(t, j.Save(newer))
}

// F2
func TestResumeOffset(t *testing.T) {
	const offset = 1 << 20
	stored := Entry{Clean: "c1", Step: "zero", Serial: "S1", Size: 1 << 30, Offset: offset}
	resume := func(change func(*Entry)) int64 {
		e := stored
		change(&e)
		return ResumeOffset(e, true, "c1", "zero", "S1", 1<<30)
	}
	require.EqualValues(t, offset, resume(func(*Entry) {}))
	require.EqualValues(t, 1<<30, resume(func(e *Entry) { e.Offset = 1 << 30 }), "everything is done except the flush")
	// The scheduling, the attempt and their results do not matter for the offset.
	require.EqualValues(t, offset, resume(func(e *Entry) { e.Seq, e.Attempt, e.Working = 9, 9, true }))

	for what, change := range map[string]func(*Entry){
		"another clean":      func(e *Entry) { e.Clean = "c2" },
		"another step":       func(e *Entry) { e.Step = "verify" },
		"another serial":     func(e *Entry) { e.Serial = "S2" },
		"no serial":          func(e *Entry) { e.Serial = "" },
		"another size":       func(e *Entry) { e.Size = 1<<30 + 1 },
		"before the start":   func(e *Entry) { e.Offset = -1 },
		"past the end":       func(e *Entry) { e.Offset = 1<<30 + 1 },
		"entry of no clean":  func(e *Entry) { e.Clean = "" },
		"entry of no step":   func(e *Entry) { e.Step = "" },
		"entry of zero size": func(e *Entry) { e.Size = 0 },
	} {
		require.Zero(t, resume(change), what)
	}
	require.Zero(t, ResumeOffset(stored, false, "c1", "zero", "S1", 1<<30), "nothing was found")
	none := stored
	none.Clean = ""
	require.Zero(t, ResumeOffset(none, true, "", "zero", "S1", 1<<30), "two empty cleans are not the same clean")
	none = stored
	none.Step = ""
	require.Zero(t, ResumeOffset(none, true, "c1", "", "S1", 1<<30), "two empty steps are not the same step")
}
