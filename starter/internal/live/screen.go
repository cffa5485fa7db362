package live

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"golang.org/x/sys/unix"

	"burnish/starter/internal/terminal"
)

// Screen runs a Model on a terminal, from its first page on.
type Screen struct {
	ctx   context.Context
	in    io.Reader
	out   *os.File
	model Model
	quit  func()

	program *tea.Program // nil before the first page
	ended   chan struct{}
	err     error
	seen    atomic.Pointer[[]string]
}

// New prepares a screen; in is nil if no keys can be read. quit is called when the operator
// ends it.
func New(ctx context.Context, in io.Reader, out *os.File, m Model, quit func()) *Screen {
	return &Screen{ctx: ctx, in: in, out: out, model: m, quit: quit, ended: make(chan struct{})}
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
	s.program = tea.NewProgram(watched{s.model, s}, tea.WithContext(s.ctx), tea.WithInput(s.in), tea.WithOutput(s.out),
		// Whether there are colors was decided before, and Ctrl-C is a key, or ends the context.
		tea.WithColorProfile(colorprofile.ANSI), tea.WithoutSignalHandler())
	go func() {
		defer close(s.ended)
		last, err := s.program.Run()
		if s.ctx.Err() == nil {
			s.err = err
		}
		s.model = last.(watched).Model
		s.quit()
	}()
}

// Note says why there is no new page.
func (s *Screen) Note(text string) {
	if s.program != nil {
		s.program.Send(Note(text))
	}
}

// Seen names what is in view; nil if that is not known.
func (s *Screen) Seen() []string {
	if seen := s.seen.Load(); seen != nil {
		return *seen
	}
	return nil
}

// Close gives the terminal back, and leaves the last picture on it.
func (s *Screen) Close() error {
	if s.program == nil {
		return nil
	}
	s.program.Quit()
	<-s.ended
	width, height, ok := terminal.Size(s.out)
	if s.err != nil || !ok {
		return s.err
	}
	_, err := io.WriteString(s.out, strings.Join(s.model.last(width, max(height-1, 1)), "\n")+"\n")
	return err
}

// watched is a Model whose screen knows what is in view.
type watched struct {
	Model

	screen *Screen
}

func (w watched) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	m, cmd := w.Model.Update(msg)
	w.Model = m.(Model)
	seen := w.Seen()
	w.screen.seen.Store(&seen)
	return w, cmd
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
