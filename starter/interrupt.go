package main

import (
	"context"
	"errors"

	"burnish/internal/device"
)

// interrupted is the failure of a command that Ctrl-C ended. It is no failure of a device: what
// says what becomes of that.
func interrupted(what, remedy string) *failure {
	f := &failure{exit: exitInterrupted, code: device.CodeInterrupted, message: "interrupted", remedy: remedy}
	if what != "" {
		f.message += "; " + what
	}
	return f
}

// nothingSent is what an interrupted command says that has asked for nothing yet.
const nothingSent = "nothing was sent"

// isInterrupted says that the operator ended the command. The end of a --timeout is no
// interruption.
func isInterrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// notAsked is the failure for a device that an interrupted command has not come to; nil if the
// command goes on.
func notAsked(ctx context.Context, name string) *failure {
	if !isInterrupted(ctx) {
		return nil
	}
	f := interrupted(nothingSent, "")
	f.notAsked, f.device = true, name
	return f
}

// unlessEnded returns do's answer, or ctx's error as soon as ctx ends: nothing else ends a read from a
// terminal or a pipe. do is then left alone.
func unlessEnded[T any](ctx context.Context, do func() (T, error)) (T, error) {
	type answer struct {
		got T
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		got, err := do()
		answers <- answer{got, err}
	}()
	select {
	case a := <-answers:
		return a.got, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
