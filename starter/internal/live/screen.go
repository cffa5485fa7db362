package live

import (
	"io"
	"os"
	"os/signal"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/sys/unix"
)

// Screen runs a Model on a terminal, from its first page on.
type Screen struct {
	in    io.Reader
	out   io.Writer
	model Model
	quit  func()

	program *tea.Program // nil before the first page
	ended   chan struct{}
	err     error
}

// New prepares a screen; in is nil if no keys can be read. quit is called when the operator
// ends it.
func New(in io.Reader, out io.Writer, m Model, quit func()) *Screen {
	return &Screen{in: in, out: out, model: m, quit: quit, ended: make(chan struct{})}
}

// Opened says whether there was a page.
func (s *Screen) Opened() bool { return s.program != nil }

// Show shows a page.
func (s *Screen) Show(p Page) {
	if s.program != nil {
		s.program.Send(p)
		return
	}
	s.model.take(p)
	s.program = tea.NewProgram(s.model, tea.WithInput(s.in), tea.WithOutput(s.out),
		// Whether there are colors was decided before, and Ctrl-C is a key, or ends the command.
		tea.WithColorProfile(colorprofile.ANSI), tea.WithoutSignalHandler())
	go func() {
		defer close(s.ended)
		_, s.err = s.program.Run()
		s.quit()
	}()
}

// Note says why there is no new page.
func (s *Screen) Note(text string) {
	if s.program != nil {
		s.program.Send(note(text))
	}
}

// Close gives the terminal back, and leaves the last picture on it.
func (s *Screen) Close() error {
	if s.program == nil {
		return nil
	}
	s.program.Send(over{})
	<-s.ended
	return s.err
}

// stopLimit is how soon a process is stopped. Where nobody could continue it, because its shell is
// gone, the kernel drops the signal, and it goes on.
const stopLimit = 100 * time.Millisecond

// stop stops the program and what it runs in, as Ctrl-Z does, until it is continued.
type stop struct{}

func (stop) Run() error {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if err := unix.Kill(0, unix.SIGTSTP); err != nil {
		return err
	}
	select {
	case <-continued:
	case <-time.After(stopLimit):
	}
	return nil
}

func (stop) SetStdin(io.Reader)  {}
func (stop) SetStdout(io.Writer) {}
func (stop) SetStderr(io.Writer) {}
