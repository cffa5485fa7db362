package configdrive

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/diskfs/go-diskfs/backend"
)

// memory is what the library writes to. The library passes over errors of most of its writes;
// these have none.
type memory struct {
	bytes  []byte
	offset int64
}

var errNoFile = errors.New("the image is in memory")

// Writable gives the same bytes for writing.
func (m *memory) Writable() (backend.WritableFile, error) { return m, nil }

// WriteAt grows the image as far as it must.
func (m *memory) WriteAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	if more := offset + int64(len(p)) - int64(len(m.bytes)); more > 0 {
		m.bytes = append(m.bytes, make([]byte, more)...)
	}
	return copy(m.bytes[offset:], p), nil
}

// ReadAt reads as an io.ReaderAt does.
func (m *memory) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	n := 0
	if offset < int64(len(m.bytes)) {
		n = copy(p, m.bytes[offset:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) Read(p []byte) (int, error) {
	n, err := m.ReadAt(p, m.offset)
	m.offset += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// Seek sets where Read goes on.
func (m *memory) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += m.offset
	case io.SeekEnd:
		offset += int64(len(m.bytes))
	}
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	m.offset = offset
	return offset, nil
}

// Stat and Sys have nothing to give: there is no file.
func (m *memory) Stat() (fs.FileInfo, error) { return nil, errNoFile }

// Sys has no file.
func (m *memory) Sys() (*os.File, error) { return nil, errNoFile }

// Path has no file.
func (m *memory) Path() string { return "" }

// Close has nothing to end.
func (m *memory) Close() error { return nil }
