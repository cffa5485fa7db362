package block

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// signature recognizes one kind of content by bytes at a fixed offset.
type signature struct {
	name string
	// at is the offset from the start. A negative one counts from the end, rounded down to
	// a multiple of round.
	at    int64
	round int64
	bytes string
	// check, if set, compares other bytes that must match too: a magic number of two bytes
	// also occurs in random data.
	check func(r io.ReaderAt, at int64) (bool, error)
}

// signatureTable is what a first enrollment refuses to destroy without consent (F15). The
// names are values of `--accept-signature`.
var signatureTable = []signature{
	{name: "ext", at: 0x438, bytes: "\x53\xef", check: checkExt},
	{name: "xfs", at: 0, bytes: "XFSB"},
	{name: "btrfs", at: 0x10040, bytes: "_BHRfS_M"},
	{name: "bcachefs", at: 0x1018, bytes: "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"},
	{name: "f2fs", at: 0x400, bytes: "\x10\x20\xf5\xf2"},
	{name: "vfat", at: 0x52, bytes: "FAT32   "},
	{name: "vfat", at: 0x36, bytes: "FAT16   "},
	{name: "vfat", at: 0x36, bytes: "FAT12   "},
	{name: "exfat", at: 3, bytes: "EXFAT   "},
	{name: "ntfs", at: 3, bytes: "NTFS    "},
	{name: "iso9660", at: 0x8001, bytes: "CD001"},

	{name: "md", at: 0, bytes: "\xfc\x4e\x2b\xa9"},                        // 1.1
	{name: "md", at: 0x1000, bytes: "\xfc\x4e\x2b\xa9"},                   // 1.2
	{name: "md", at: -0x2000, round: 0x1000, bytes: "\xfc\x4e\x2b\xa9"},   // 1.0
	{name: "md", at: -0x10000, round: 0x10000, bytes: "\xfc\x4e\x2b\xa9"}, // 0.90
	{name: "md", at: -0x10000, round: 0x10000, bytes: "\xa9\x2b\x4e\xfc"}, // 0.90 of a big-endian machine
	{name: "md", at: -0x400, round: 0x200, bytes: "Intel Raid ISM Cfg Sig. "},
	{name: "md", at: -0x200, round: 0x200, bytes: "\xde\x11\xde\x11"}, // DDF

	{name: "lvm2", at: 0x018, bytes: "LVM2 001", check: checkLVM},
	{name: "lvm2", at: 0x218, bytes: "LVM2 001", check: checkLVM},
	{name: "lvm2", at: 0x418, bytes: "LVM2 001", check: checkLVM},
	{name: "lvm2", at: 0x618, bytes: "LVM2 001", check: checkLVM},
	{name: "bcache", at: 0x1018, bytes: "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
	{name: "luks", at: 0, bytes: "LUKS\xba\xbe"},
	{name: "luks", at: 0x4000, bytes: "SKUL\xba\xbe"}, // LUKS2's second header, at its usual offset

	{name: "gpt", at: 0x200, bytes: "EFI PART"},
	{name: "gpt", at: 0x1000, bytes: "EFI PART"},
	{name: "gpt", at: -0x200, round: 0x200, bytes: "EFI PART"}, // the second copy
	{name: "gpt", at: -0x1000, round: 0x1000, bytes: "EFI PART"},
	{name: "dos", at: 0x1fe, bytes: "\x55\xaa", check: checkDOS},
}

// swapMagics are the last ten bytes of a swap's first page, or of a hibernated machine's
// memory image.
var swapMagics = []string{"SWAP-SPACE", "SWAPSPACE2", "S1SUSPEND\x00", "S2SUSPEND\x00", "ULSUSPEND\x00", "LINHIB0001"}

// pageSizes are the page sizes of machines that may have made a swap.
var pageSizes = []int64{4 << 10, 8 << 10, 16 << 10, 64 << 10}

// findSignatures names the kinds of content in r, in the order of the table, without
// duplicates.
func findSignatures(r io.ReaderAt, size int64) ([]string, error) {
	var found []string
	add := func(name string) {
		if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	for _, m := range signatureTable {
		at := m.at
		if at < 0 {
			at += size / m.round * m.round
		}
		here, err := holds(r, at, m.bytes)
		if err == nil && here && m.check != nil {
			here, err = m.check(r, at)
		}
		if err != nil {
			return nil, err
		}
		if here {
			add(m.name)
		}
	}
	for _, page := range pageSizes {
		for _, text := range swapMagics {
			here, err := holds(r, page-int64(len(text)), text)
			if err != nil {
				return nil, err
			}
			if here {
				add("swap")
			}
		}
	}
	here, err := holdsZFS(r, size)
	if err != nil {
		return nil, err
	}
	if here {
		add("zfs")
	}
	return found, nil
}

// holds: r has these bytes at this offset.
func holds(r io.ReaderAt, at int64, text string) (bool, error) {
	p, err := peek(r, at, len(text))
	return err == nil && string(p) == text, err
}

// peek reads n bytes. Outside of r it returns fewer, without an error.
func peek(r io.ReaderAt, at int64, n int) ([]byte, error) {
	if at < 0 {
		return nil, nil
	}
	p := make([]byte, n)
	got, err := r.ReadAt(p, at)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return p[:got], nil
}

// checkExt wants at least one inode and one block, and a valid block size.
func checkExt(r io.ReaderAt, at int64) (bool, error) {
	p, err := peek(r, at-0x38, 0x38)
	if err != nil || len(p) < 0x38 {
		return false, err
	}
	number := func(at int) uint32 { return binary.LittleEndian.Uint32(p[at:]) }
	return number(0) > 0 && number(4) > 0 && number(0x18) <= 6, nil
}

// checkLVM wants the label at the start of the same sector.
func checkLVM(r io.ReaderAt, at int64) (bool, error) {
	return holds(r, at-0x18, "LABELONE")
}

// checkDOS wants four entries with valid flags, of which at least one is in use and is not
// the protective entry of a GPT. A boot sector ends in the same two bytes, but has its
// program where a table has its entries.
func checkDOS(r io.ReaderAt, at int64) (bool, error) {
	const entry = 16
	table, err := peek(r, at-4*entry, 4*entry)
	if err != nil || len(table) < 4*entry {
		return false, err
	}
	const protectsGPT = 0xee
	used := false
	for part := range slices.Chunk(table, entry) {
		if part[0]&0x7f != 0 {
			return false, nil
		}
		kind, start, length := part[4], binary.LittleEndian.Uint32(part[8:]), binary.LittleEndian.Uint32(part[12:])
		used = used || kind != 0 && kind != protectsGPT && start > 0 && length > 0
	}
	return used, nil
}

// holdsZFS searches for an uberblock in the four labels, two at each end. Any one is enough to
// import the pool.
func holdsZFS(r io.ReaderAt, size int64) (bool, error) {
	const label, ring, slot = 256 << 10, 128 << 10, 1 << 10
	number := binary.LittleEndian.AppendUint64(nil, 0x00bab10c)
	swapped := binary.BigEndian.AppendUint64(nil, 0x00bab10c)
	end := size / label * label
	for _, at := range []int64{0, label, end - 2*label, end - label} {
		if at < 0 {
			continue
		}
		p, err := peek(r, at+ring, label-ring)
		if err != nil {
			return false, err
		}
		for block := range slices.Chunk(p, slot) {
			if bytes.HasPrefix(block, number) || bytes.HasPrefix(block, swapped) {
				return true, nil
			}
		}
	}
	return false, nil
}

// refuseSignatures refuses a target with data that its owner may still want, unless the
// operator accepts all of it by name (F15). If the device was moved here or imported, its
// tenants wrote the data.
func refuseSignatures(r io.ReaderAt, path string, size int64, t hardware.Target) error {
	if t.MovedFrom != "" || t.Imported { // not even read
		return nil
	}
	found, err := findSignatures(r, size)
	if err != nil {
		return hardware.IOFault("read", path, err)
	}
	if !slices.ContainsFunc(found, func(name string) bool { return !t.Accepts(name) }) {
		return nil
	}
	all := strings.Join(found, ",")
	return hardware.Refused(device.CodeFilesystemSignature,
		fmt.Sprintf("if it may be destroyed, enroll it with --accept-signature %s", all),
		"%q holds %s", path, strings.Join(found, ", "))
}

// fdReader is an io.ReaderAt that reads a descriptor through the cache.
type fdReader struct {
	sys system
	fd  int
}

// ReadAt implements io.ReaderAt.
func (d fdReader) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		got, err := d.sys.readAt(d.fd, p[n:], offset+int64(n))
		if err != nil {
			return n, err
		}
		if got == 0 {
			return n, io.EOF
		}
		n += got
	}
	return n, nil
}
