package hardwaretest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// Block is the granularity of stamps: the smallest block of any device, so that
// devices with blocks of 4096 bytes carry eight stamps in each.
const Block = 512

// magic begins and ends each stamp and has no zero byte: the first and the last byte of a
// block, and even one byte behind a device's last whole block, show whether they were wiped.
const magic = "BURNISH!"

// stampLen is magic, LBA, nonce and magic again; a block repeats it.
const stampLen = 32

// stamp fills p, one block or the start of one, for the block number lba.
func stamp(p []byte, lba, nonce uint64) {
	var one [stampLen]byte
	copy(one[:], magic)
	binary.BigEndian.PutUint64(one[8:], lba)
	binary.BigEndian.PutUint64(one[16:], nonce)
	copy(one[24:], magic)
	for n := 0; n < len(p); {
		n += copy(p[n:], one[:])
	}
}

// Stamp writes LBA and nonce into every block of the first size bytes of w, in place of a
// tenant's data: Count then shows a wipe that is partial, misplaced or on the wrong device.
// An incomplete last block is stamped too.
func Stamp(w io.WriterAt, size int64, nonce uint64) error {
	p := make([]byte, 256*Block)
	for offset := int64(0); offset < size; offset += int64(len(p)) {
		n := min(int64(len(p)), size-offset)
		for at := int64(0); at < n; at += Block {
			stamp(p[at:min(at+Block, n)], uint64((offset+at)/Block), nonce)
		}
		if _, err := w.WriteAt(p[:n], offset); err != nil {
			return fmt.Errorf("stamp at %d: %w", offset, err)
		}
	}
	return nil
}

// Count reads the first size bytes of r and counts its blocks: those that carry
// exactly their own stamp with this nonce, those that are all zero, and all
// others: half wiped, moved, of another nonce. An incomplete last block counts.
func Count(r io.ReaderAt, size int64, nonce uint64) (stamped, zero, other int, err error) {
	var want, nothing [Block]byte
	p, allZero := make([]byte, 256*Block), make([]byte, 256*Block)
	for offset := int64(0); offset < size; offset += int64(len(p)) {
		n := min(int64(len(p)), size-offset)
		// io.ReaderAt may give io.EOF with the last byte; a short read is an error.
		if got, err := r.ReadAt(p[:n], offset); int64(got) < n {
			return stamped, zero, other, fmt.Errorf("count at %d: %d bytes of %d: %w", offset, got, n, err)
		}
		if bytes.Equal(p[:n], allZero[:n]) {
			zero += int((n + Block - 1) / Block)
			continue
		}
		for at := int64(0); at < n; at += Block {
			block := p[at:min(at+Block, n)]
			stamp(want[:len(block)], uint64((offset+at)/Block), nonce)
			switch {
			case bytes.Equal(block, want[:len(block)]):
				stamped++
			case bytes.Equal(block, nothing[:len(block)]):
				zero++
			default:
				other++
			}
		}
	}
	return stamped, zero, other, nil
}

// Find reads the first size bytes of r and counts the blocks that carry any stamp with
// this nonce, at whatever address: what is left of a device on the storage below it.
func Find(r io.ReaderAt, size int64, nonce uint64) (found int, err error) {
	p := make([]byte, 2048*Block)
	for offset := int64(0); offset < size; offset += int64(len(p)) {
		n := min(int64(len(p)), size-offset)
		if got, err := r.ReadAt(p[:n], offset); int64(got) < n {
			return found, fmt.Errorf("find at %d: %d bytes of %d: %w", offset, got, n, err)
		}
		for at := int64(0); at+stampLen <= n; at += Block {
			if bytes.HasPrefix(p[at:], []byte(magic)) && binary.BigEndian.Uint64(p[at+16:]) == nonce {
				found++
			}
		}
	}
	return found, nil
}
