package block

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Each change of a file has another mark, also of the file behind a loop device, and also where two
// changes follow each other at once. Reading changes none.
//
// F39
func TestEachChangeHasAnotherMark(t *testing.T) {
	dir := workDir(t)
	for name, enroll := range map[string]func(t *testing.T) (target hardware.Target, file string){
		"file": func(t *testing.T) (hardware.Target, string) {
			file := image(t, dir, evenSize)
			return targetAt(file), file
		},
		"loop": func(t *testing.T) (hardware.Target, string) {
			requireTools(t, "losetup")
			loop, file := loopOver(t, dir, evenSize)
			return targetAt(loop), file
		},
	} {
		t.Run(name, func(t *testing.T) {
			target, file := enroll(t)
			d := newDriver(t)
			found, err := d.Discover(t.Context(), target, device.Identity{})
			require.NoError(t, err)
			enrolled := found.Identity
			mark := func() string {
				found, err := d.Discover(t.Context(), target, enrolled)
				require.NoError(t, err)
				require.NotEmpty(t, found.Mark)
				return found.Mark
			}
			was := mark()
			require.Equal(t, was, mark())
			h, err := d.Open(t.Context(), target, enrolled, true)
			require.NoError(t, err)
			require.NoError(t, h.ZeroAt(t.Context(), 0, h.Size()))
			require.NoError(t, h.Flush(t.Context()))
			own, err := h.(hardware.ChangeMarker).ChangeMark(t.Context())
			require.NoError(t, err)
			require.NoError(t, h.Close())
			require.NotEqual(t, was, own)
			require.Equal(t, own, mark())
			h, err = d.Open(t.Context(), target, enrolled, false)
			require.NoError(t, err)
			_, err = h.ReadAt(make([]byte, h.Size()), 0)
			require.NoError(t, err)
			require.NoError(t, h.Close())
			require.Equal(t, own, mark(), "it was only read")

			foreign := map[string]func() error{
				"written":  func() error { return writeByte(file, 0) },
				"touched":  func() error { return os.Chtimes(file, time.Unix(1, 0), time.Unix(1, 0)) },
				"its mode": func() error { return os.Chmod(file, 0o640) },
				"mapped":   func() error { return writeMapped(file) },
			}
			if name == "loop" {
				foreign["written through the loop"] = func() error { return writeByte(target.Settings["path"], 0) }
				foreign["in the cache of the loop"] = func() error {
					f, err := os.OpenFile(target.Settings["path"], os.O_WRONLY, 0)
					if err != nil {
						return err
					}
					t.Cleanup(func() { require.NoError(t, f.Close()) }) // which writes it out
					_, err = f.WriteAt([]byte{1}, 8192)
					return err
				}
			}
			for what, change := range foreign {
				before := mark()
				require.NoError(t, change())
				require.NotEqual(t, before, mark(), what)
			}
		})
	}
}

func writeByte(path string, b byte) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = f.WriteAt([]byte{b}, 4096); err != nil {
		return err
	}
	return f.Sync()
}

func writeMapped(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	memory, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	memory[0] = 1
	return unix.Munmap(memory)
}
