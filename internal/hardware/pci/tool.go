package pci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
	"burnish/internal/host"
)

// readTimeout bounds a program that only reads. It is long: devlink waits while a flash is under way.
const readTimeout = 90 * time.Second

// absent is what programs say of what is not there. Any other words are a fault.
var absent = regexp.MustCompile(`(?i)not supported|no such device|no data available|no such file|does not exist|` +
	`no private flags|failed to connect to devlink`)

// ask runs a program that only reads. It gives what it printed, which is JSON where into is not nil; "" where
// the device, the kernel or the host has no such thing.
func (c *card) ask(ctx context.Context, into any, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = host.ChildAttr()
	var out bytes.Buffer
	cmd.Stdout = &out
	said, err := c.start(cmd)
	c.ran[name] = !errors.Is(err, exec.ErrNotFound)
	switch {
	case !c.ran[name], err != nil && ctx.Err() == nil && absent.MatchString(said):
		return "", nil
	case err != nil && ctx.Err() != nil:
		return "", fmt.Errorf("%s was stopped: %w", cmd, context.Cause(ctx))
	case err == nil && into != nil && out.Len() > 0:
		if err = json.Unmarshal(out.Bytes(), into); err != nil {
			err = hardware.Refused(device.CodeToolOutputInvalid, "report its output and its version", "%s: %v",
				strings.Join(cmd.Args, " "), err)
		}
	}
	return out.String(), err
}

// change runs a program that changes the device, and waits for its end even after ctx ends: half-done is
// worse than late. The program holds the device's fence and locks for as long as it lives, and the death
// of this worker does not end it (F1). said, if not nil, takes what it prints.
func (c *card) change(ctx context.Context, said io.Writer, command ...string) error {
	if err := hardware.MayWrite(ctx); err != nil {
		return err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.SysProcAttr, cmd.Stdout = &syscall.SysProcAttr{Setpgid: true}, said
	if c.target.Fence != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, c.target.Fence)
	}
	for _, f := range c.functions {
		cmd.ExtraFiles = append(cmd.ExtraFiles, f.Config)
	}
	_, err := c.start(cmd)
	if errors.Is(err, exec.ErrNotFound) {
		return hardware.Refused(device.CodeToolMissing, "install it on this host", "cannot run %s: %v", command[0], err)
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

// instance is the name of a function in devlink.
func instance(f *pcifunction.Function) string { return "pci/" + f.Address }

// devlink gives what devlink answers of a function and of its ports, by their names in devlink. It has only those that
// a driver of the host's has.
func devlink[T any](ctx context.Context, c *card, f *pcifunction.Function, args ...string) (map[string]T, error) {
	if !onHost(f) {
		return nil, nil
	}
	var answer map[string]map[string]T // the outer one has one key, which is the kind of these
	_, err := c.ask(ctx, &answer, "devlink", append([]string{"-j"}, args...)...)
	for _, all := range answer {
		maps.DeleteFunc(all, func(name string, _ T) bool { return !strings.HasPrefix(name+"/", instance(f)+"/") })
		return all, err
	}
	return nil, err
}

// hasDevlink says that a function is a device of devlink. What lists those of all the host, or the ports, waits for
// each of them, such as one whose firmware is being written: only those that are one are asked for more.
func (c *card) hasDevlink(ctx context.Context, f *pcifunction.Function) (bool, error) {
	all, err := devlink[any](ctx, c, f, "dev", "show", instance(f))
	return len(all) > 0, err
}

// info is what devlink says of a device; zero where it has none.
type info struct {
	Serial   string `json:"serial_number"`
	Board    string `json:"board.serial_number"`
	Versions struct {
		Running map[string]string `json:"running"`
		Stored  map[string]string `json:"stored"`
	} `json:"versions"`
}

func (c *card) info(ctx context.Context) (info, error) {
	first := c.functions[0]
	all, err := devlink[info](ctx, c, first, "dev", "info", instance(first))
	return all[instance(first)], err
}

// port is one port of a function in devlink.
type port struct {
	Type    string `json:"type"`
	Netdev  string `json:"netdev"`
	Flavour string `json:"flavour"`
}

// ports lists the ports of the functions by their names in devlink.
func (c *card) ports(ctx context.Context) (map[string]port, error) {
	ports := map[string]port{}
	for _, f := range c.functions {
		has, err := c.hasDevlink(ctx, f)
		var all map[string]port
		if has {
			all, err = devlink[port](ctx, c, f, "port", "show")
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(ports, all)
	}
	return ports, nil
}
