package hardware

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Seals keep every process from changing a file in memory between its check and its use.
const Seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL

// Sealed copies a file into memory, seals the copy, and gives it with its SHA-256: what is used are
// the bytes that were checked. Of a file that is larger than most it copies one byte more. flags are
// those of memfd_create besides the usual ones. The caller closes the copy.
func Sealed(from io.Reader, most int64, flags int) (copied *os.File, size int64, digest [sha256.Size]byte, err error) {
	const usual = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("burnish", usual|flags)
	if errors.Is(err, unix.EINVAL) { // kernels before 6.3 neither have nor need MFD_EXEC
		fd, err = unix.MemfdCreate("burnish", usual)
	}
	if err != nil {
		return nil, 0, digest, fmt.Errorf("create a file in memory: %w", err)
	}
	copied = os.NewFile(uintptr(fd), "burnish")
	sum := sha256.New()
	size, err = io.Copy(copied, io.LimitReader(from, most+1))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, Seals)
	}
	if err == nil { // not before it is sealed: others may have it open through /proc
		_, err = io.Copy(sum, io.NewSectionReader(copied, 0, size))
	}
	if err != nil {
		return nil, 0, digest, errors.Join(fmt.Errorf("copy it into memory: %w", err), copied.Close())
	}
	return copied, size, [sha256.Size]byte(sum.Sum(nil)), nil
}
