package file_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/file"
	"burnish/internal/testkit/suites/inventorytest"
)

func open(t *testing.T, dir string) *file.Store {
	t.Helper()
	s, err := file.New(dir)
	require.NoError(t, err)
	return s
}

func TestFileStore(t *testing.T) {
	inventorytest.Run(t, func(t *testing.T) inventorytest.Fixture {
		dir := t.TempDir()
		s := open(t, dir)
		return inventorytest.Fixture{
			Store: s, Allocate: s.UnsafeAllocate, Deallocate: s.UnsafeDeallocate,
			Open: func(t *testing.T) inventory.Store { return open(t, dir) },
		}
	})
}

// example is a provider with a known file content.
var example = inventory.Provider{
	UUID:   "0f6a1c52-8d3e-5b0a-9c41-2f7d3e9b6a10",
	Name:   "h1_0000:3b:00.0",
	Class:  "CUSTOM_PCI_144D_A80A",
	Traits: []string{"HW_PCI_ONE_TIME_USE"},
}

const exampleFile = `{
  "class": "CUSTOM_PCI_144D_A80A",
  "consumers": [],
  "generation": 0,
  "name": "h1_0000:3b:00.0",
  "reserved": 1,
  "total": 1,
  "traits": [
    "HW_PCI_ONE_TIME_USE"
  ],
  "used": 0,
  "uuid": "0f6a1c52-8d3e-5b0a-9c41-2f7d3e9b6a10"
}
`

// created makes a directory with the example.
func created(t *testing.T) (*file.Store, string, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a", "inventory")
	s := open(t, dir)
	require.NoError(t, s.Create(t.Context(), example))
	return s, dir, filepath.Join(dir, example.UUID+".json")
}

// callAll makes every call on the example and gives the errors by name.
func callAll(ctx context.Context, s *file.Store) map[string]error {
	_, usages := s.Usages(ctx, example.UUID)
	_, stock := s.Reservation(ctx, example.UUID)
	_, put := s.PutReserved(ctx, example.UUID, 0, 0, nil)
	return map[string]error{
		"Create": s.Create(ctx, example), "Usages": usages, "Stock": stock, "PutReserved": put,
		"Delete":   s.Delete(ctx, example.UUID),
		"Allocate": s.UnsafeAllocate(ctx, example.UUID, "c"), "Deallocate": s.UnsafeDeallocate(ctx, example.UUID, "c"),
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestFilesAreReadable(t *testing.T) {
	_, dir, path := created(t)
	require.Equal(t, exampleFile, read(t, path))
	for p, mode := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		info, err := os.Stat(p)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), p)
	}
}

func TestNewReportsWhatPreventsIt(t *testing.T) {
	_, err := file.New("")
	require.Error(t, err)
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = file.New(path)
	require.ErrorContains(t, err, path)
}

func TestReopenedAfterAnyWrite(t *testing.T) {
	s, dir, _ := created(t)
	_, err := s.PutReserved(t.Context(), example.UUID, 0, 0, nil)
	require.NoError(t, err)
	require.NoError(t, s.UnsafeAllocate(t.Context(), example.UUID, "c1"))
	v, err := inventory.Read(t.Context(), open(t, dir), example.UUID)
	require.NoError(t, err)
	require.Equal(t, device.Inventory{Generation: 2, Total: 1, Used: 1, Consumers: []string{"c1"}}, v)
}

// requireRefused requires that every call refuses the file, names it, and does not change it.
func requireRefused(t *testing.T, s *file.Store, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	for name, err := range callAll(t.Context(), s) {
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
		f, _ := device.AsFault(err)
		require.Contains(t, f.Message, path, name)
		require.Contains(t, f.Remedy, "restore", name)
	}
	require.Equal(t, content, read(t, path))
}

func TestHalfWrittenFileIsNeverTakenForEmpty(t *testing.T) {
	s, _, path := created(t)
	whole := len(exampleFile) - 1 // the last newline may be missing
	for n := range whole {
		requireRefused(t, s, path, exampleFile[:n])
	}
	require.NoError(t, os.WriteFile(path, []byte(exampleFile[:whole]), 0o600))
	_, err := s.Reservation(t.Context(), example.UUID)
	require.NoError(t, err)
}

func TestInconsistentFileIsRefused(t *testing.T) {
	s, _, path := created(t)
	for _, change := range [][2]string{
		{exampleFile, "null"},
		{exampleFile, "[]"},
		{exampleFile, string(make([]byte, len(exampleFile)))}, // as other stores leave it after a power failure
		{exampleFile, exampleFile + exampleFile},
		{`"reserved": 1,`, ``},
		{`"reserved": 1`, `"reserved": null`},
		{`"reserved": 1`, `"Reserved": 1`},
		{`"reserved": 1`, `"reserved": "1"`},
		{`"reserved": 1`, `"reserved": 0.5`},
		{`"reserved": 1`, `"reserved": 2`},
		{`"reserved": 1`, `"reserved": -1`},
		{`"total": 1`, `"total": 0`},
		{`"total": 1,`, ``},
		{`"generation": 0,`, ``},
		{`"generation": 0`, `"generation": -1`},
		{`"used": 0`, `"used": 1`},
		{`"used": 0`, `"used": -1`},
		{`"consumers": []`, `"consumers": ["c"]`},
		{`"name": "h1_0000:3b:00.0"`, `"name": ""`},
		{`"uuid": "0f6a`, `"uuid": "1f6a`},
	} {
		content := string(bytes.Replace([]byte(exampleFile), []byte(change[0]), []byte(change[1]), 1))
		require.NotEqual(t, exampleFile, content)
		requireRefused(t, s, path, content)
	}
}

// A second spelling of a field is an unknown field.
func TestFieldsAreCaseSensitive(t *testing.T) {
	s, _, path := created(t)
	content := `{"Reserved": 0, ` + exampleFile[1:len(exampleFile)-3] + `, "RESERVED": 0}`
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	st, err := s.Reservation(t.Context(), example.UUID)
	require.NoError(t, err)
	require.Equal(t, 1, st.Reserved)
}

func TestUnreadableFileIsNeverTakenForMissing(t *testing.T) {
	s, _, path := created(t)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	for name, err := range callAll(t.Context(), s) {
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
		require.ErrorContains(t, err, path, name)
	}
}

func TestUnknownFieldsAreKept(t *testing.T) {
	s, _, path := created(t)
	var before map[string]any
	content := `{"later": {"a": [1, 12345678901234567890]}, "traits": null, ` + exampleFile[1:]
	content = string(bytes.Replace([]byte(content), []byte(`  "traits": [
    "HW_PCI_ONE_TIME_USE"
  ],
`), nil, 1))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(t, json.Unmarshal([]byte(content), &before))
	_, err := s.PutReserved(t.Context(), example.UUID, 0, 0, nil)
	require.NoError(t, err)

	var after map[string]any
	got := read(t, path)
	require.NoError(t, json.Unmarshal([]byte(got), &after))
	before["reserved"], before["generation"], before["traits"] = 0.0, 1.0, []any{}
	require.Equal(t, before, after)
	require.Contains(t, got, "12345678901234567890", "a number was rounded")
}

func TestFullDiskKeepsTheOldContent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system that is small enough to fill")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("cannot mount a small file system here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	s, err := file.New(dir)
	require.NoError(t, err)
	require.NoError(t, s.Create(t.Context(), example))
	ballast := filepath.Join(dir, "ballast")
	require.ErrorIs(t, os.WriteFile(ballast, make([]byte, 1<<20), 0o600), unix.ENOSPC)

	_, err = s.PutReserved(t.Context(), example.UUID, 0, 0, nil)
	inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
	require.ErrorIs(t, err, unix.ENOSPC)
	require.Equal(t, exampleFile, read(t, filepath.Join(dir, example.UUID+".json")))

	p := inventorytest.NewProvider()
	err = s.Create(t.Context(), p)
	inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
	require.ErrorIs(t, err, unix.ENOSPC)
	_, err = s.Reservation(t.Context(), p.UUID)
	inventorytest.RequireCode(t, device.CodeNoProvider, err)
	left, err := filepath.Glob(filepath.Join(dir, atomicfile.TempPrefix+"*"))
	require.NoError(t, err)
	require.Empty(t, left, "an unfinished file takes space on the full disk")

	// When there is space again, the same calls succeed.
	require.NoError(t, os.Remove(ballast))
	st, err := s.PutReserved(t.Context(), example.UUID, 0, 0, nil)
	require.NoError(t, err)
	require.Equal(t, int64(1), st.Generation)
	require.NoError(t, s.Create(t.Context(), p))
}

func TestUnfinishedFilesOfACrashAreRemovedAtTheNextStart(t *testing.T) {
	s, dir, path := created(t)
	left := filepath.Join(dir, atomicfile.TempPrefix+"1")
	require.NoError(t, os.WriteFile(left, []byte(exampleFile[:20]), 0o600))
	_, err := s.PutReserved(t.Context(), example.UUID, 0, 1, nil)
	require.NoError(t, err)

	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, atomicfile.Lock(int(lock.Fd())))
	_, err = file.New(dir)
	require.NoError(t, err)
	require.FileExists(t, left, "another process may be writing it")
	require.NoError(t, lock.Close())

	_, err = file.New(dir)
	require.NoError(t, err)
	require.NoFileExists(t, left)
	require.FileExists(t, path)
}

func TestUUIDHasOneSpelling(t *testing.T) {
	s, _, _ := created(t)
	for _, id := range []string{"", "../x", "0F6A1C52-8D3E-5B0A-9C41-2F7D3E9B6A10", example.UUID + "/..",
		example.UUID + "\n"} {
		_, err := s.Reservation(t.Context(), id)
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, s.Delete(t.Context(), id))
		p := example
		p.UUID = id
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, s.Create(t.Context(), p))
	}
	p := inventorytest.NewProvider()
	p.Class = ""
	inventorytest.RequireCode(t, device.CodeInventoryInvalid, s.Create(t.Context(), p))
}

func TestDeleteLeavesNothing(t *testing.T) {
	s, dir, _ := created(t)
	require.NoError(t, s.Delete(t.Context(), example.UUID))
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	inIndex, err := filepath.Glob(filepath.Join(dir, "hardware", "*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, ".lock"), filepath.Join(dir, "hardware")}, append(left, inIndex...))
}

// F5
func TestOnlyATotalOfOneIsLowered(t *testing.T) {
	s, _, path := created(t)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	two := strings.Replace(strings.Replace(string(text), `"total": 1`, `"total": 2`, 1), `"reserved": 1`,
		`"reserved": 2`, 1)
	require.NoError(t, os.WriteFile(path, []byte(two), 0o600))
	for _, reserved := range []int{0, 1} {
		_, err = s.PutReserved(t.Context(), example.UUID, 0, reserved, nil)
		inventorytest.RequireCode(t, device.CodeInventoryInvalid, err)
		require.ErrorContains(t, err, "total 2")
	}
	st, err := s.PutReserved(t.Context(), example.UUID, 0, 2, nil)
	require.NoError(t, err)
	require.Equal(t, 2, st.Reserved)
}
