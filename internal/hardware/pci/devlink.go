package pci

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// instance is the name of a function in devlink.
func instance(f *function) string { return "pci/" + f.Address }

// info is what devlink says of a device; zero where it has none.
type info struct {
	Serial   string `json:"serial_number"`
	Board    string `json:"board.serial_number"`
	Versions struct {
		Running map[string]string `json:"running"`
		Stored  map[string]string `json:"stored"`
	} `json:"versions"`
}

// hasDevlink says that a function is a device of devlink. What lists those of all the host, or the ports, waits for
// each of them, such as one whose firmware is being written: only those that are one are asked for more.
func (d *Driver) hasDevlink(ctx context.Context, f *function) (has, installed bool, err error) {
	if !onHost(f) {
		return false, false, nil
	}
	text, installed, err := d.ask(ctx, nil, "devlink", "-j", "dev", "show", instance(f))
	return text != "", installed, err
}

func (c *card) info(ctx context.Context) (info, error) {
	if !onHost(&c.functions[0]) {
		return info{}, nil
	}
	var answer struct {
		Info map[string]info `json:"info"`
	}
	first := instance(&c.functions[0])
	_, _, err := c.ask(ctx, &answer, "devlink", "-j", "dev", "info", first)
	return answer.Info[first], err
}

// component is the name in devlink of the firmware that a policy names, or of the device's own where it
// names none; "" where there is none.
func component(versions map[string]string, wanted string) string {
	names := []string{wanted}
	if wanted == "" {
		names = append([]string{"fw", "fw.version", "fw.mgmt"}, slices.Sorted(maps.Keys(versions))...)
	}
	i := slices.IndexFunc(names, func(name string) bool { return versions[name] != "" })
	if i < 0 {
		return ""
	}
	return names[i]
}

// port is one port of a function in devlink.
type port struct {
	Type    string `json:"type"`
	Netdev  string `json:"netdev"`
	Flavour string `json:"flavour"`
}

// subFunction is the flavour of a port that somebody added.
const subFunction = "pcisf"

// ports lists the ports of the functions by their names in devlink.
func (c *card) ports(ctx context.Context) (map[string]port, error) {
	ports := map[string]port{}
	for i := range c.functions {
		f := &c.functions[i]
		has, _, err := c.hasDevlink(ctx, f)
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		var answer struct {
			Port map[string]port `json:"port"`
		}
		if _, _, err := c.ask(ctx, &answer, "devlink", "-j", "port", "show"); err != nil {
			return nil, err
		}
		maps.DeleteFunc(answer.Port, func(name string, _ port) bool { return !strings.HasPrefix(name, instance(f)+"/") })
		maps.Copy(ports, answer.Port)
	}
	return ports, nil
}

// devlinkFacts are the parameters of a function, and the settings of its embedded switch.
func (c *card) devlinkFacts(ctx context.Context, i int, f *function) (all []fact, err error) {
	var eswitch struct {
		Dev map[string]map[string]any `json:"dev"`
	}
	var params struct {
		Param map[string][]struct {
			Name   string `json:"name"`
			Values []struct {
				Mode  string          `json:"cmode"`
				Value json.RawMessage `json:"value"`
			} `json:"values"`
		} `json:"param"`
	}
	name := instance(f)
	has, installed, err := c.hasDevlink(ctx, f)
	if err == nil && has {
		_, _, err = c.ask(ctx, &eswitch, "devlink", "-j", "dev", "eswitch", "show", name)
	}
	if err == nil && has {
		_, _, err = c.ask(ctx, &params, "devlink", "-j", "dev", "param", "show") // of one device it wants a name
	}
	if err != nil || !installed {
		return nil, err
	}
	for what, value := range eswitch.Dev[name] {
		all = append(all, fact{key: key(i, "eswitch", what), value: fmt.Sprint(value), set: func(value string) []string {
			return []string{"devlink", "dev", "eswitch", "set", name, what, value}
		}})
	}
	for _, p := range params.Param[name] {
		for _, v := range p.Values {
			text := string(v.Value)
			if unquoted, err := strconv.Unquote(text); err == nil {
				text = unquoted
			}
			one := fact{key: key(i, "parameter", p.Name, v.Mode), value: text, set: func(value string) []string {
				return []string{"devlink", "dev", "param", "set", name, "name", p.Name, "value", value, "cmode", v.Mode}
			}}
			if v.Mode == "driverinit" {
				one.reload = name
			}
			all = append(all, one)
		}
	}
	return toldBy("devlink", i, all), nil
}
