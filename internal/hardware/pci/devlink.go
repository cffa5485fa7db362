package pci

import (
	"context"
	"strings"

	"burnish/internal/hardware/pcifunction"
)

// instance is the name of a function in devlink.
func instance(f *pcifunction.Function) string { return "pci/" + f.Address }

// devlink gives what devlink answers of each device, or port, by its name; nothing where there is no devlink.
func devlink[T any](ctx context.Context, c *card, args ...string) (map[string]T, error) {
	var answer map[string]map[string]T // the outer one has one key, which is the kind of these
	_, err := c.ask(ctx, &answer, "devlink", append([]string{"-j"}, args...)...)
	for _, all := range answer {
		return all, err
	}
	return nil, err
}

// hasDevlink says that a function is a device of devlink. What lists those of all the host, or the ports, waits for
// each of them, such as one whose firmware is being written: only those that are one are asked for more.
func (c *card) hasDevlink(ctx context.Context, f *pcifunction.Function) (bool, error) {
	if !onHost(f) {
		return false, nil
	}
	text, err := c.ask(ctx, nil, "devlink", "-j", "dev", "show", instance(f))
	return text != "", err
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
	if !onHost(c.functions[0]) {
		return info{}, nil
	}
	all, err := devlink[info](ctx, c, "dev", "info", instance(c.functions[0]))
	return all[instance(c.functions[0])], err
}

// component is the name in devlink of the firmware that a policy names, or of the device's own where it
// names none; "" where there is none.
func (i info) component(wanted string) string {
	names := []string{"fw", "fw.version", "fw.mgmt"}
	if wanted != "" {
		names = []string{wanted}
	}
	for _, name := range names {
		if i.Versions.Running[name] != "" {
			return name
		}
	}
	return ""
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
			all, err = devlink[port](ctx, c, "port", "show")
		}
		if err != nil {
			return nil, err
		}
		for name, p := range all {
			if strings.HasPrefix(name, instance(f)+"/") {
				ports[name] = p
			}
		}
	}
	return ports, nil
}
