package hardware

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// ZeroesLen is how many zeroes Zeroes gives: the most that one write covers.
const ZeroesLen = 4 << 20

// zeroes is memory that the kernel itself keeps zero: a private anonymous mapping
// without write permission. A stray write ends the process instead of reaching a
// tenant's device, and its pages are all the kernel's one page of zeroes, so that
// any number of wipes costs no memory.
var zeroes = sync.OnceValues(func() ([]byte, error) {
	mapped, err := unix.Mmap(-1, 0, ZeroesLen, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map the buffer of zeroes: %w", err)
	}
	return mapped, nil
})

// Zeroes returns the process's one buffer of ZeroesLen zero bytes, aligned as
// O_DIRECT wants it. It cannot be written to.
func Zeroes() ([]byte, error) {
	return zeroes()
}
