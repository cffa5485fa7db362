package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Size gives a terminal's size in columns and lines; ok is false if the file is no terminal,
// or does not know its size.
func Size(f *os.File) (width, height int, ok bool) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Col == 0 || w.Row == 0 {
		return 0, 0, false
	}
	return int(w.Col), int(w.Row), true
}
