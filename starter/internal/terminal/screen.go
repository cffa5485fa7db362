package terminal

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

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

// redrawInterval is how often a Screen is drawn without anything new: what it shows depends on
// the time.
const redrawInterval = time.Second

// What a Screen writes when it takes the terminal, and when it gives it back: the alternate
// screen, the cursor, and the end of lines.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leave = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Screen draws a picture on a whole terminal, again when its size changes, and gives the
// terminal back while the program is stopped and at the end.
type Screen struct {
	out     *os.File
	picture func(width, height int) []string

	mu   sync.Mutex
	err  error // the first that a drawing of its own met
	stop chan struct{}
	done sync.WaitGroup
}

// Open takes the terminal. picture gives at most height lines of at most width columns; it is
// called from several goroutines, one after the other.
func Open(out *os.File, picture func(width, height int) []string) (*Screen, error) {
	s := &Screen{out: out, picture: picture, stop: make(chan struct{})}
	if _, err := out.WriteString(enter); err != nil {
		return nil, err
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT)
	s.done.Go(func() {
		defer signal.Stop(signals)
		s.follow(signals)
	})
	return s, nil
}

// follow draws whenever the terminal or the time makes it necessary.
func (s *Screen) follow(signals chan os.Signal) {
	tick := time.NewTicker(redrawInterval)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-s.stop:
			return
		case got := <-signals:
			if got == unix.SIGTSTP {
				err = s.suspend()
			} else {
				err = s.Draw()
			}
		case <-tick.C:
			err = s.Draw()
		}
		if err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			return
		}
	}
}

// Draw draws the picture now, in one write. It fails if an earlier drawing failed.
func (s *Screen) Draw() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draw("")
}

func (s *Screen) draw(before string) error {
	if s.err != nil {
		return s.err
	}
	width, height, ok := Size(s.out)
	if !ok {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(before + "\x1b[H")
	for i, line := range s.picture(width, height) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, err := s.out.WriteString(b.String())
	return err
}

// suspend gives the terminal back, stops the program as Ctrl-Z does, and takes the terminal
// again when the program is continued.
func (s *Screen) suspend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.WriteString(leave); err != nil {
		return err
	}
	if err := stopAsByDefault(); err != nil {
		return err
	}
	return s.draw(enter)
}

// Close gives the terminal back.
func (s *Screen) Close() error {
	close(s.stop)
	s.done.Wait()
	_, err := s.out.WriteString(leave)
	if s.err != nil {
		err = s.err
	}
	return err
}
