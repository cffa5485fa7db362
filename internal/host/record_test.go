package host

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// F10
func TestRecordOutlivesTheWorker(t *testing.T) {
	dir, name := testDir(t), hostName(t)
	want := Record{
		Name: "h1_0000:01:00.0", UUID: "u1", Driver: "block", Address: "0000:01:00.0",
		Settings: map[string]string{"path": "/dev/sdb"},
		Identity: device.Identity{Serial: "S1", Size: 5, Device: 1 << 63, Inode: 3}, Binding: 4, Generation: 9, Clean: 2,
		Seq: 11, Forgotten: true,
	}
	h, err := Open(dir, name, nil)
	require.NoError(t, err)
	_, found, err := h.LoadRecord(want.Name)
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, h.SaveRecord(want))
	require.NoError(t, h.SaveRecord(Record{Name: "a"}))
	require.NoError(t, h.Close())

	h, err = Open(dir, name, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close()) }()
	have, found, err := h.LoadRecord(want.Name)
	require.NoError(t, err)
	require.True(t, found)
	require.False(t, have.Updated.IsZero())
	want.Updated = have.Updated
	require.Equal(t, want, have)
	all, err := h.ListRecords()
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "a", all[0].Name)
	require.Equal(t, want, all[1])
}

// F10
func TestUpdateLosesNothing(t *testing.T) {
	h := openHost(t)
	var group sync.WaitGroup
	failed := make(chan error, 20)
	for range 10 {
		group.Go(func() { failed <- h.UpdateRecord("d1", func(r *Record) error { r.Seq++; return nil }) })
		group.Go(func() {
			failed <- h.UpdateRecord("d1", func(r *Record) error { r.Binding++; r.Name = "other"; return nil })
		})
	}
	group.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	no := errors.New("no")
	require.ErrorIs(t, h.UpdateRecord("d1", func(r *Record) error { r.Seq = 0; return no }), no)
	r, _, err := h.LoadRecord("d1")
	require.NoError(t, err)
	require.EqualValues(t, 10, r.Seq)
	require.Equal(t, 10, r.Binding)
	require.Equal(t, "d1", r.Name)

	require.NoError(t, os.WriteFile(h.path(devicesFolder, "d1"+extension), []byte("{"), 0o600))
	var corrupt *CorruptError
	require.ErrorAs(t, h.UpdateRecord("d1", func(*Record) error { return nil }), &corrupt)
	require.NoError(t, h.SaveRecord(r), "SaveRecord replaces a corrupt record")
}

// F23, F35
func TestFindOtherWith(t *testing.T) {
	h := openHost(t)
	for name, identity := range map[string]device.Identity{
		"drive":   {Serial: "S1", Device: 5, Inode: 6},
		"file":    {Device: 1, Inode: 100},
		"nothing": {Model: "M"},
		"card":    {Path: "0000:01:00.0"},
		"disk":    {Path: "0000:02:00.0", Serial: "S3"},
	} {
		require.NoError(t, h.SaveRecord(Record{Name: name, Driver: "pci", Identity: identity}))
	}
	require.NoError(t,
		h.SaveRecord(Record{Name: "gone", Identity: device.Identity{Serial: "S9", Device: 9, Inode: 9}, Forgotten: true}))
	for what, c := range map[string]struct {
		identity device.Identity
		except   string
		want     string
	}{
		"same serial":             {device.Identity{Serial: "S1", Model: "other"}, "new", "drive"},
		"written otherwise":       {device.Identity{Serial: " s_1"}, "new", "drive"}, // F35
		"itself":                  {device.Identity{Serial: "S1"}, "drive", ""},
		"another serial":          {device.Identity{Serial: "S2"}, "new", ""},
		"no serial":               {device.Identity{Model: "M"}, "new", ""},
		"same file":               {device.Identity{Device: 1, Inode: 100, Serial: "made up"}, "new", "file"},
		"same inode elsewhere":    {device.Identity{Device: 2, Inode: 100}, "new", ""},
		"another inode":           {device.Identity{Device: 1, Inode: 101}, "new", ""},
		"inode 0 is not set":      {device.Identity{Device: 0, Inode: 0}, "new", ""},
		"same place, no serials":  {device.Identity{Path: "0000:01:00.0"}, "new", "card"},
		"same place, now it has":  {device.Identity{Path: "0000:01:00.0", Serial: "S4"}, "new", "card"},
		"same place, now it lost": {device.Identity{Path: "0000:02:00.0"}, "new", "disk"},
		"another in its place":    {device.Identity{Path: "0000:02:00.0", Serial: "S4"}, "new", ""},
		"forgotten, by serial":    {device.Identity{Serial: "S9"}, "new", ""},
		"forgotten, by its inode": {device.Identity{Device: 9, Inode: 9}, "new", ""},
	} {
		other, err := h.FindOtherWith(c.identity, "pci", c.except)
		require.NoError(t, err, what)
		require.Equal(t, c.want, other, what)
	}
	other, err := h.FindOtherWith(device.Identity{Path: "0000:02:00.0", Serial: "S4"}, "script", "new")
	require.NoError(t, err)
	require.Equal(t, "disk", other, "its serials are those of two drivers")

	require.NoError(t, os.WriteFile(h.path(devicesFolder, "nothing"+extension), []byte("{"), 0o600))
	_, err = h.FindOtherWith(device.Identity{Serial: "S2"}, "pci", "new")
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt, "an unreadable record proves nothing")
	other, err = h.FindOtherWith(device.Identity{Serial: "S1"}, "pci", "new")
	require.NoError(t, err)
	require.Equal(t, "drive", other)
	other, err = h.FindOtherWith(device.Identity{Serial: "S2"}, "pci", "nothing")
	require.NoError(t, err, "a device's own record does not matter")
	require.Empty(t, other)
}
