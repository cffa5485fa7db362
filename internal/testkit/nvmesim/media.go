package nvmesim

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// extentAlignment is that of the extents of namespaces.
const extentAlignment = 4096

func (w *state) media(s *slot) string { return filepath.Join(w.dir, "media", s.Media) }

// insert puts a new drive into the slot. It places the namespaces and creates the media,
// all zeros.
func (w *state) insert(s *slot, index int) error {
	c := &s.Controller
	s.Size = c.Capacity
	for i := range c.Namespaces {
		n := &c.Namespaces[i]
		if n.Format >= len(c.Formats) {
			return fmt.Errorf("namespace %d of %s has format %d of %d", n.NSID, c.Serial, n.Format, len(c.Formats))
		}
		n.Offset = s.freeExtent(s.bytes(n), c.Namespaces[:i])
		end := n.Offset + s.bytes(n)
		if c.Capacity == 0 {
			s.Size = max(s.Size, end)
		}
		if end > s.Size {
			return fmt.Errorf("namespace %d of %s does not fit on %d bytes", n.NSID, c.Serial, s.Size)
		}
	}
	s.Media = fmt.Sprintf("%d-%s.img", index, strings.ReplaceAll(c.Serial, "/", "_"))
	file, err := os.OpenFile(w.media(s), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Truncate(int64(s.Size)), file.Close()); err != nil {
		return err
	}
	s.Polls = 0
	return w.recordMediaTime(s)
}

// freeExtent is the lowest offset with so many free bytes beside these namespaces. The extent
// may end after the media.
func (s *slot) freeExtent(size uint64, beside []Namespace) uint64 {
	type extent struct{ from, to uint64 }
	var taken []extent
	for i := range beside {
		taken = append(taken, extent{beside[i].Offset, beside[i].Offset + s.bytes(&beside[i])})
	}
	slices.SortFunc(taken, func(a, b extent) int { return cmp.Compare(a.from, b.from) })
	var offset uint64
	for _, e := range taken {
		if offset+size <= e.from {
			break
		}
		offset = max(offset, (e.to+extentAlignment-1)/extentAlignment*extentAlignment)
	}
	return offset
}

// unallocated is UNVMCAP.
func (s *slot) unallocated() uint64 {
	left := s.Controller.Capacity
	for i := range s.Controller.Namespaces {
		left -= min(left, s.bytes(&s.Controller.Namespaces[i]))
	}
	if s.Controller.HidesUnallocatable {
		left -= min(left, s.Controller.Unallocatable)
	}
	return left
}

// recordMediaTime keeps the media's modification time, in order to detect later writes.
func (w *state) recordMediaTime(s *slot) error {
	var stat unix.Stat_t
	if err := unix.Stat(w.media(s), &stat); err != nil {
		return err
	}
	s.MediaTime = stat.Mtim.Nano()
	return nil
}

// detectWrites clears GlobalErased if the media was written to.
func (w *state) detectWrites(s *slot) error {
	before := s.MediaTime
	if err := w.recordMediaTime(s); err != nil {
		return err
	}
	if before != s.MediaTime && !s.Controller.Sanitize.IgnoresWrites {
		s.Controller.Sanitize.GlobalErased = false
	}
	return nil
}

// erase gives the media the content that a sanitize leaves.
func (w *state) erase(s *slot, leaves Leaves) error {
	path, size := w.media(s), int64(s.Size)
	switch leaves {
	case LeavesUnchanged:
		return w.recordMediaTime(s)
	case LeavesZeros, "":
		if err := errors.Join(os.Truncate(path, 0), os.Truncate(path, size)); err != nil {
			return err
		}
	case LeavesUnreadable:
		// A loop device answers EIO where its file has no bytes.
		if err := os.Truncate(path, 0); err != nil {
			return err
		}
	case LeavesOnes, LeavesRandom:
		if err := fill(path, size, leaves); err != nil {
			return err
		}
	default:
		return fmt.Errorf("a sanitize cannot leave %q", leaves)
	}
	return w.recordMediaTime(s)
}

func fill(path string, size int64, leaves Leaves) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for i := range chunk {
		chunk[i] = 0xff
	}
	for at := int64(0); at < size && err == nil; at += int64(len(chunk)) {
		if leaves == LeavesRandom {
			_, _ = rand.Read(chunk) // it never fails
		}
		_, err = file.WriteAt(chunk[:min(int64(len(chunk)), size-at)], at)
	}
	return errors.Join(err, file.Close())
}
