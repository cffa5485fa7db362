package hardware

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// ZeroesLen is the length of Zeroes, and so the most that one write covers.
const ZeroesLen = 4 << 20

// zeroes is a private anonymous mapping without write permission. A stray write crashes
// the process instead of reaching a tenant's device. All its pages are the kernel's single
// zero page, so it costs no memory however many wipes run.
var zeroes = sync.OnceValues(func() ([]byte, error) {
	mapped, err := unix.Mmap(-1, 0, ZeroesLen, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map the buffer of zeroes: %w", err)
	}
	return mapped, nil
})

// Zeroes returns the process's one buffer of ZeroesLen zero bytes, aligned for O_DIRECT. It
// is read-only.
func Zeroes() ([]byte, error) {
	return zeroes()
}
