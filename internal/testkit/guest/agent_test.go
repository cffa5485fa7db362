package guest

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// far is the guest's end of an agent's line.
type far struct {
	net.Conn
	in *bufio.Reader
}

func newLine(t *testing.T) (*agent, far) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	return newAgent(ours), far{theirs, bufio.NewReader(theirs)}
}

// take reads a command, and gives its number and script.
func (f far) take(t *testing.T) (number int, script string) {
	t.Helper()
	line, err := f.in.ReadString('\n')
	require.NoError(t, err)
	var text string
	_, err = fmt.Sscan(line, &number, &text)
	require.NoError(t, err)
	decoded, err := base64.StdEncoding.DecodeString(text)
	require.NoError(t, err)
	return number, strings.TrimSpace(string(decoded))
}

func (f far) answer(t *testing.T, number int, stdout string) {
	t.Helper()
	_, err := fmt.Fprintf(f, "%d 0 o%s e\n", number, base64.StdEncoding.EncodeToString([]byte(stdout)))
	require.NoError(t, err)
}

// A command that the guest does not answer, or does not even take, ends with its context, and
// its error is the context's reason. The next command is answered all the same, and not by the
// late answer to the one before.
func TestACommandWithoutAnAnswerEnds(t *testing.T) {
	late := errors.New("no answer within its time")
	a, guest := newLine(t)
	for name, takes := range map[string]bool{"it is taken": true, "it is not taken": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := a.run(ctx, "sleep 1000")
				ended <- err
			}()
			number := 0
			if takes {
				number, _ = guest.take(t)
			}
			time.AfterFunc(50*time.Millisecond, func() { cancel(late) })
			require.ErrorIs(t, <-ended, late)

			if !takes {
				return // a part of it may have been taken: the line is of no use then
			}
			answered := make(chan Output, 1)
			go func() {
				out, err := a.run(t.Context(), "echo here")
				if err != nil {
					out.Stderr = err.Error()
				}
				answered <- out
			}()
			next, script := guest.take(t)
			require.Equal(t, "echo here", script)
			guest.answer(t, number, "too late")
			guest.answer(t, next, "here")
			require.Equal(t, Output{Stdout: "here"}, <-answered)
		})
	}
}

// A guest that ends while it is asked is an error at once.
func TestAGuestThatEndsAnswersNothing(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	var lines [2]net.Conn
	for i, end := range ends {
		file := os.NewFile(uintptr(end), "line")
		lines[i], err = net.FileConn(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	defer lines[0].Close()
	guest := far{lines[1], bufio.NewReader(lines[1])}
	ended := make(chan error, 1)
	go func() {
		_, err := newAgent(lines[0]).run(t.Context(), "true")
		ended <- err
	}()
	guest.take(t)
	require.NoError(t, guest.Close())
	require.EqualError(t, <-ended, "the guest ended")
}
