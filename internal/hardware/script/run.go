package script

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/host"
)

const (
	// grace is the time between SIGTERM and SIGKILL.
	grace = 10 * time.Second
	// identifyTimeout limits identify. With grace it is shorter than the time that callers
	// of Discover wait.
	identifyTimeout = 30 * time.Second
	// stopCheckInterval is how often mayGoOn is called while a program runs.
	stopCheckInterval = 2 * time.Second
)

// busyStatus is the exit status for a device that is in use (EX_TEMPFAIL of sysexits.h).
const busyStatus = 75

// uninterruptible: the verb is not stopped half-way, because half-written firmware, or a
// device that is off the bus, is worse than a late end.
func uninterruptible(verb string) bool { return verb == firmwareReflash || verb == pciReset }

// call runs the device's program with a verb, and returns its last line of output and the
// SHA-256 of the program. mayGoOn, if not nil, is called before the program starts and while
// it runs. When call returns, the program and all its children have ended.
func (c *pciDevice) call(ctx context.Context, verb string, identity device.Identity,
	mayGoOn func() error) (line []byte, sum string, err error) {
	p, err := c.program(c.script)
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, p.bytes.Close()) }()
	if verb == identify {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.identifyTimeout,
			c.stepFailed(verb, "it did not end within "+c.identifyTimeout.String()))
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
	if verb != identify {
		if err := hardware.MayWrite(ctx); err != nil {
			return nil, "", err
		}
	}
	held := []*os.File{c.Config, p.bytes}
	if c.target.Fence != nil {
		held = append([]*os.File{c.target.Fence}, held...)
	}
	result, err := c.supervise(ctx, launchRequest{
		Args: []string{p.rule.Path, verb, c.Address},
		Env: host.ChildEnv("BURNISH_DEVICE="+c.target.Name, "BURNISH_ADDRESS="+c.Address,
			"BURNISH_SERIAL="+identity.Serial),
		Held: len(held), Credential: p.credential, Grace: c.grace, Uninterruptible: uninterruptible(verb),
	}, held, mayGoOn)
	switch {
	case err != nil:
		return nil, "", err
	case host.IsTransient(result.StartErrno):
		return nil, "", fmt.Errorf("start the script %s: %w", c.script, result.StartErrno)
	case result.Status == busyStatus:
		return nil, "", hardware.Busy("the device at %s is in use according to the script %s: %s", c.Address, c.script,
			hardware.OneLine(result.Stderr))
	case result.Failed != "":
		why := result.Failed
		if result.Stderr != "" {
			why += ": " + result.Stderr
		}
		return nil, "", c.stepFailed(verb, why)
	}
	return []byte(result.Stdout), p.rule.SHA256, nil
}

// step runs a verb that is a step, and gives its note for the record.
func (c *pciDevice) step(ctx context.Context, verb string, identity device.Identity,
	mayGoOn func() error) (note string, err error) {
	line, sum, err := c.call(ctx, verb, identity, mayGoOn)
	if err != nil {
		return "", err
	}
	if note, err = parseStepReply(line); err != nil {
		return "", c.badAnswer(verb, err)
	}
	if note != "" {
		note = ": " + note
	}
	return fmt.Sprintf("script %s, sha256 %.12s%s", c.script, sum, note), nil
}

// Call runs a step of a program on a device that its caller has locked, and has proved to be free.
func (d *Driver) Call(ctx context.Context, name, verb string, t hardware.Target, f *pcifunction.Function,
	serial string, mayGoOn func() error) (note string, err error) {
	c := &pciDevice{Driver: d, Function: f, script: name, target: t}
	return c.step(ctx, verb, device.Identity{Serial: serial}, mayGoOn)
}

// stepFailed is the fault of a program that failed.
func (c *pciDevice) stepFailed(verb, why string) error {
	return hardware.Refused(device.CodeStepFailed, "find out on the host why "+c.script+" "+verb+" fails, then clean "+
		c.target.Name,
		"script %s, %s of %s: %s", c.script, verb, c.Address, hardware.OneLine(why))
}

// supervise runs the program in a supervisor process. If ctx ends, or mayGoOn fails, the
// supervisor stops the program; when it has ended, that reason is the error.
func (c *pciDevice) supervise(ctx context.Context, o launchRequest, held []*os.File,
	mayGoOn func() error) (result exitReport, err error) {
	line, err := json.Marshal(o)
	if err != nil {
		return exitReport{}, err
	}
	for _, file := range held {
		if file.Fd() == ^uintptr(0) {
			return exitReport{}, fmt.Errorf("start the supervisor of the script %s: %s: %w", c.script, file.Name(), os.ErrClosed)
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	defer func() { stop(nil); asking.Wait() }()
	if mayGoOn != nil {
		asking.Go(func() { askUntilRefused(ctx, mayGoOn, stop) })
	}
	var answer, words bytes.Buffer
	cmd := exec.CommandContext(ctx, c.supervisor)
	cmd.Args, cmd.Env, cmd.Dir = []string{os.Args[0], Subcommand}, []string{"LC_ALL=C"}, "/"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr = &answer, &words, held, &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err == nil {
		// The end of its input asks the supervisor to stop. How it ends is what counts, not that it was asked.
		cmd.Cancel = func() error { return errors.Join(input.Close(), os.ErrProcessDone) }
		err = cmd.Start()
	}
	if err != nil {
		err = fmt.Errorf("start the supervisor of the script %s: %w", c.script, err)
		return exitReport{}, cmp.Or(context.Cause(ctx), err)
	}
	_, err = input.Write(append(line, '\n')) // if the supervisor ended at once, its stderr says why
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return exitReport{},
			fmt.Errorf("the supervisor of the script %s: %w: %s", c.script, err, hardware.OneLine(words.String()))
	}
	if err := json.Unmarshal(answer.Bytes(), &result); err != nil {
		return exitReport{}, fmt.Errorf("the supervisor of the script %s: %w", c.script, err)
	}
	if why := context.Cause(ctx); why != nil && result.Stopped {
		return exitReport{}, why
	}
	return result, nil
}

// askUntilRefused asks mayGoOn until ctx ends, which its first error does.
func askUntilRefused(ctx context.Context, mayGoOn func() error, stop context.CancelCauseFunc) {
	asks := time.NewTicker(stopCheckInterval)
	defer asks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-asks.C:
			if err := mayGoOn(); err != nil {
				stop(err)
			}
		}
	}
}
