package guest

import (
	"fmt"
	"io"
	"io/fs"
)

// archive writes a cpio archive of the form newc, which the kernel unpacks into its
// first file system.
type archive struct {
	to     io.Writer
	length int64
	inode  int
	err    error // the first one; nothing is written after it
}

// The types of entries.
const (
	typeDirectory = 0o040000
	typeFile      = 0o100000
	typeLink      = 0o120000
)

// trailer ends an archive.
const trailer = "TRAILER!!!"

func (a *archive) directory(name string, mode fs.FileMode) {
	a.entry(name, typeDirectory|uint32(mode.Perm()), nil)
}

func (a *archive) file(name string, mode fs.FileMode, content []byte) {
	a.entry(name, typeFile|uint32(mode.Perm()), content)
}

func (a *archive) link(name, target string) {
	a.entry(name, typeLink|0o777, []byte(target))
}

func (a *archive) close() error {
	a.entry(trailer, 0, nil)
	return a.err
}

// entry writes one entry that belongs to root: thirteen numbers in hex, the name with a
// zero byte, the content; name and content each end on a multiple of four.
func (a *archive) entry(name string, mode uint32, content []byte) {
	links := 1
	if mode&typeDirectory != 0 {
		links = 2
	}
	a.inode++
	header := "070701"
	for _, number := range []int{a.inode, int(mode), 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0} {
		header += fmt.Sprintf("%08x", number)
	}
	a.write([]byte(header + name + "\x00"))
	a.pad()
	a.write(content)
	a.pad()
}

func (a *archive) pad() {
	const align = 4
	a.write(make([]byte, (align-a.length%align)%align))
}

func (a *archive) write(p []byte) {
	if a.err != nil || len(p) == 0 {
		return
	}
	n, err := a.to.Write(p)
	a.length += int64(n)
	a.err = err
}
