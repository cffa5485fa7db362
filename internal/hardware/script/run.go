package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

const (
	// grace is how long a program that was told to end (SIGTERM) may take until it is
	// killed.
	grace = 10 * time.Second
	// identifyTimeout bounds what only asks: with the grace it is less than anybody who
	// waits for a look has patience.
	identifyTimeout = 30 * time.Second
	// stopCheckInterval is how often it is asked, while a program runs, whether it may go on.
	stopCheckInterval = 2 * time.Second
)

// busyStatus is the exit status of a program whose device is still in use (EX_TEMPFAIL of
// sysexits.h).
const busyStatus = 75

// uninterruptible says that a verb is not told to end half-way: a firmware half written, or a
// device that is off its bus, is worse than a late end.
func uninterruptible(verb string) bool { return verb == firmwareReflash || verb == pciReset }

// call runs the device's program with a verb and gives the last line that it printed, and
// the SHA-256 of what ran. mayGoOn, where there is one, is asked before the program starts
// and while it runs. Nothing of it runs any more when call returns.
func (c *pciDevice) call(ctx context.Context, verb string, who device.Identity, mayGoOn func() error) (line []byte, sum string, err error) {
	p, err := c.program(c.script)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, p.bytes.Close()) }()
	if verb == identify {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.identifyTimeout, c.stepFailed(verb, "it did not end within "+c.identifyTimeout.String()))
		defer cancel()
	}
	if err := context.Cause(ctx); err != nil {
		return nil, "", err
	}
	if mayGoOn != nil {
		if err := mayGoOn(); err != nil {
			return nil, "", err
		}
	}
	held := []*os.File{c.config, p.bytes}
	if c.target.Fence != nil {
		held = append([]*os.File{c.target.Fence}, held...)
	}
	made, err := c.supervise(ctx, launchRequest{
		Args: []string{p.rule.Path, verb, c.pci.Address},
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C",
			"BURNISH_DEVICE=" + c.target.Name, "BURNISH_ADDRESS=" + c.pci.Address, "BURNISH_SERIAL=" + who.Serial,
		},
		Held: len(held), Credential: p.credential, Grace: c.grace, Uninterruptible: uninterruptible(verb),
	}, held, mayGoOn)
	switch {
	case err != nil:
		return nil, "", err
	case host.IsTransient(made.StartErrno):
		return nil, "", fmt.Errorf("start the script %s: %w", c.script, made.StartErrno)
	case made.Status == busyStatus:
		return nil, "", hardware.Busy("the device at %s is in use, says the script %s: %s", c.pci.Address, c.script, oneLine(made.Stderr))
	case made.Failed != "":
		why := made.Failed
		if made.Stderr != "" {
			why += ": " + made.Stderr
		}
		return nil, "", c.stepFailed(verb, why)
	}
	return []byte(made.Stdout), p.rule.SHA256, nil
}

// stepFailed is the fault of a program that did not do what it was called for.
func (c *pciDevice) stepFailed(verb, why string) error {
	return hardware.Refused(device.CodeStepFailed, "see on the host what "+c.script+" "+verb+" does, then clean "+c.target.Name,
		"script %s, %s of %s: %s", c.script, verb, c.pci.Address, oneLine(why))
}

// supervise has a keeper carry out the order. Where ctx ends, or the caller may not go on, the
// program is told to end, and that is the error, when it has ended.
func (c *pciDevice) supervise(ctx context.Context, o launchRequest, held []*os.File, mayGoOn func() error) (made exitReport, err error) {
	line, err := json.Marshal(o)
	if err != nil {
		return exitReport{}, err
	}
	for _, file := range held {
		if file.Fd() == ^uintptr(0) {
			return exitReport{}, fmt.Errorf("start the keeper of the script %s: %s: %w", c.script, file.Name(), os.ErrClosed)
		}
	}
	var answer, words bytes.Buffer
	cmd := &exec.Cmd{
		Path: c.supervisor, Args: []string{os.Args[0], Subcommand}, Env: []string{"LC_ALL=C"}, Dir: "/",
		Stdout: &answer, Stderr: &words, ExtraFiles: held, SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		return exitReport{}, fmt.Errorf("start the keeper of the script %s: %w", c.script, err)
	}
	if err := cmd.Start(); err != nil {
		return exitReport{}, fmt.Errorf("start the keeper of the script %s: %w", c.script, err)
	}
	_, writeErr := input.Write(append(line, '\n')) // one that ended at once says why
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	why := waitSupervisor(ctx, ended, mayGoOn, func() { _ = input.Close() }) // closed again by Wait
	if err := errors.Join(writeErr, why.ended); err != nil {
		return exitReport{}, fmt.Errorf("the keeper of the script %s: %w: %s", c.script, err, oneLine(words.String()))
	}
	if err := json.Unmarshal(answer.Bytes(), &made); err != nil {
		return exitReport{}, fmt.Errorf("the keeper of the script %s: %w", c.script, err)
	}
	if why.stopped != nil && made.Stopped {
		return exitReport{}, why.stopped
	}
	return made, nil
}

// outcome is how a keeper ended, and why it was told to, if it was.
type outcome struct{ ended, stopped error }

// waitSupervisor waits for the keeper's end, and calls stop once where ctx ends, or the caller may
// not go on.
func waitSupervisor(ctx context.Context, ended <-chan error, mayGoOn func() error, stop func()) (o outcome) {
	asks := time.NewTicker(stopCheckInterval)
	defer asks.Stop()
	over := ctx.Done() // nil where it has no end, and once it was heard
	for {
		select {
		case o.ended = <-ended:
			return o
		case <-over: // never again after the first reason to stop
			o.stopped = context.Cause(ctx)
		case <-asks.C:
			if mayGoOn == nil || o.stopped != nil {
				continue
			}
			if o.stopped = mayGoOn(); o.stopped == nil {
				continue
			}
		}
		over = nil
		stop()
	}
}
