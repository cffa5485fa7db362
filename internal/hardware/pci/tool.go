package pci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

// readTimeout bounds a program that only reads. It is long: devlink waits while a flash is under way.
const readTimeout = 90 * time.Second

// absent is what programs say of what is not there. Any other words are a fault.
var absent = regexp.MustCompile(`(?i)not supported|no such device|no data available|no such file|does not exist|` +
	`no private flags|failed to connect to devlink`)

// ask runs a program that only reads. It gives what it printed, which is JSON where into is not nil; "" where
// the device or the kernel has no such thing. installed says that there is the program.
func (d *Driver) ask(ctx context.Context, into any, name string, args ...string) (_ string, installed bool, _ error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = host.ChildAttr()
	var out bytes.Buffer
	cmd.Stdout = &out
	said, err := d.start(cmd)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", false, nil
	case err != nil && context.Cause(ctx) != nil:
		return "", true, fmt.Errorf("%s was stopped: %w", cmd, context.Cause(ctx))
	case err != nil && absent.MatchString(said):
		return "", true, nil
	case err != nil:
		return "", true, err
	}
	if into != nil && out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), into); err != nil {
			return "", true, hardware.Refused(device.CodeToolOutputInvalid, "report its output and its version", "%s: %v",
				strings.Join(cmd.Args, " "), err)
		}
	}
	return out.String(), true, nil
}

// change runs a program that changes the device, and waits for its end even after ctx ends: half-done is
// worse than late. The program holds the device's fence and locks for as long as it lives, and the death
// of this worker does not end it (F1). said, if not nil, takes what it prints.
func (c *card) change(ctx context.Context, said func(string), name string, args ...string) error {
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.target.Fence != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.target.Fence)
	}
	for i := range c.functions {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.functions[i].config)
	}
	if said != nil {
		cmd.Stdout = writer(said)
	}
	_, err := c.start(cmd)
	if errors.Is(err, exec.ErrNotFound) {
		return hardware.Refused(device.CodeToolMissing, "install it on this host", "cannot run %s: %v", name, err)
	}
	return err
}

// start runs a program, and gives what it complained. If it fails, the fault has its words.
func (d *Driver) start(cmd *exec.Cmd) (said string, err error) {
	var complaint bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stderr = host.ChildEnv(), "/", &complaint
	err = d.run(cmd)
	said = hardware.OneLine(complaint.String())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = hardware.Refused(device.CodeCommandRefused, "see the kernel's log (dmesg), then clean the device again",
			"%s fails (%v): %s", strings.Join(cmd.Args, " "), err, said)
	}
	return said, err
}

// writer passes on what is written to it.
type writer func(string)

// Write accepts everything.
func (w writer) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}
