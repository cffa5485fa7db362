package pci

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// fact is one thing that can be read of a device, and that must be at the end of a clean as it was at the
// enrollment.
type fact struct {
	key, value string
	// tool is the program that tells it; "": the kernel.
	tool string
	// set is the command that gives it another value; nil: it is no setting.
	set func(value string) []string
	// reload is the devlink instance to reload so that the value counts; "": it counts at once.
	reload string
}

// key names a fact of the function with a number.
func key(function int, words ...string) string {
	return strconv.Itoa(function) + " " + strings.Join(words, " ")
}

// isSetting: the fact can be set, or is that what tells such facts is installed.
func isSetting(key string) bool {
	return slices.Contains([]string{"eswitch", "parameter", "interface", "mstconfig", "program"}, strings.Fields(key)[1])
}

// facts reads everything. The drivers must be bound as they were at the enrollment.
func (c *card) facts(ctx context.Context) (all []fact, err error) {
	if err := c.refresh(); err != nil {
		return nil, err
	}
	now, err := c.firmwareOf(ctx, "")
	if err != nil {
		return nil, err
	}
	for i := range c.functions {
		f := &c.functions[i]
		for _, read := range []func(context.Context, int, *function) ([]fact, error){
			c.configurationFacts, c.devlinkFacts, c.interfaceFacts, c.nonVolatileFacts,
		} {
			some, err := read(ctx, i, f)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		digest, err := c.romDigest(f)
		if err != nil {
			return nil, err
		}
		all = append(all, fact{key: key(i, "rom of firmware", now.running), value: digest})
	}
	return all, nil
}

// record gives the facts as an identity keeps them.
func (c *card) record(ctx context.Context) (string, error) {
	all, err := c.facts(ctx)
	p := device.Properties{Facts: map[string]string{}}
	for _, one := range all {
		p.Facts[one.key] = one.value
	}
	text, failed := p.Text()
	return text, errors.Join(err, failed)
}

// recordedFacts are the facts of the enrollment.
func recordedFacts(enrolled device.Identity) (map[string]string, error) {
	p, err := device.ParseProperties(enrolled.Properties)
	if err != nil {
		return nil, hardware.Changed("properties", err.Error())
	}
	return p.Facts, nil
}

// configurationFacts are what every function has.
func (c *card) configurationFacts(_ context.Context, i int, f *function) ([]fact, error) {
	config, err := f.configuration()
	if err != nil {
		return nil, err
	}
	names, err := c.children(f, users{})
	if err != nil {
		return nil, err
	}
	var has []string
	places := capabilities(config)
	for _, id := range slices.Sorted(maps.Keys(places)) {
		has = append(has, fmt.Sprintf("%s@%x", id, places[id]))
	}
	// Decoding and bus mastering go with the driver, which is compared itself.
	const withDriver = 0x7
	command := binary.LittleEndian.Uint16(config[4:]) &^ withDriver
	all := []fact{
		{key: key(i, "driver"), value: f.Driver}, {key: key(i, "interfaces"), value: strconv.Itoa(len(names))},
		{key: key(i, "capabilities"), value: strings.Join(has, " ")},
		{key: key(i, "command"), value: fmt.Sprintf("%04x", command)},
		{key: key(i, "virtual functions"), value: strconv.Itoa(len(f.Functions))},
	}
	for _, name := range []string{"current_link_speed", "current_link_width"} {
		text, err := c.attribute(f, name)
		if err != nil {
			return nil, err
		}
		all = append(all, fact{key: key(i, name), value: text})
	}
	regions, err := c.regions(f)
	for n, r := range regions {
		all = append(all, fact{key: key(i, "region", strconv.Itoa(n)), value: fmt.Sprintf("%d bytes, %x", r.size, r.flags)})
	}
	return all, err
}

// romDigest is the digest of the expansion ROM. The kernel reads it only of a function that is enabled, as a
// driver does.
func (c *card) romDigest(f *function) (string, error) {
	if _, err := os.Stat(c.path(f, "rom")); err != nil {
		return "none", nil
	}
	names := []string{"enable", "rom"}
	if f.Driver != "" {
		names = names[1:]
	}
	write := func(text string) (err error) {
		for _, name := range names {
			err = errors.Join(err, c.write(c.path(f, name), text))
		}
		return err
	}
	if err := write("1"); err != nil {
		return "", hardware.IOFault("enable the expansion ROM of", f.Address, err)
	}
	content, err := os.ReadFile(c.path(f, "rom"))
	if err := write("0"); err != nil {
		return "", hardware.IOFault("disable the expansion ROM of", f.Address, err)
	}
	if err != nil {
		return "unreadable", nil // the kernel finds no ROM behind the region
	}
	return fmt.Sprintf("%x", sha256.Sum256(content)), nil
}

// toldBy marks facts of a program; that it is installed is one of them.
func toldBy(tool string, i int, all []fact) []fact {
	all = append(all, fact{key: key(i, "program", tool), value: "installed"})
	for n := range all {
		all[n].tool = tool
	}
	return all
}

// interfaceFacts are the settings of the network interfaces, which are numbered in the order of their
// ports.
func (c *card) interfaceFacts(ctx context.Context, i int, f *function) (all []fact, err error) {
	names, err := c.children(f, users{})
	if err != nil {
		return nil, err
	}
	for n, name := range names {
		is, err := c.interfaceOf(ctx, name)
		if err != nil {
			return nil, err
		}
		number, told := strconv.Itoa(n), []fact(nil)
		all = append(all, fact{key: key(i, "interface", number, "address"), value: is.Address,
			set: func(value string) []string { return []string{"ip", "link", "set", "dev", name, "address", value} }})
		for _, kind := range [][3]string{{"--show-priv-flags", "--set-priv-flags"}, {"-k", "-K"},
			{"-l", "-L", "Current hardware settings"}} {
			text, installed, err := c.ask(ctx, nil, "ethtool", kind[0], name)
			if err != nil || !installed {
				return all, err
			}
			for _, pair := range pairs(text, kind[2]) {
				told = append(told, fact{key: key(i, "interface", number, kind[1], pair[0]), value: pair[1],
					set: func(value string) []string { return []string{"ethtool", kind[1], name, pair[0], value} }})
			}
		}
		all = append(all, toldBy("ethtool", i, told)...)
	}
	return all, nil
}

// mellanox is the vendor whose settings and firmware mstconfig and mstflint reach.
const mellanox = "15b3"

// nonVolatileFacts are the settings that a Mellanox keeps without power.
func (c *card) nonVolatileFacts(ctx context.Context, i int, f *function) (all []fact, err error) {
	if f.Vendor != mellanox {
		return nil, nil
	}
	text, installed, err := c.ask(ctx, nil, "mstconfig", "-d", f.Address, "q")
	if err != nil || !installed {
		return nil, err
	}
	_, table, _ := strings.Cut(text, "Configurations:")
	_, table, _ = strings.Cut(table, "\n")
	for row := range strings.Lines(table) {
		fields := strings.Fields(row)
		if len(fields) != 2 {
			continue
		}
		value := fields[1] // True(1)
		if _, number, ok := strings.Cut(strings.TrimSuffix(value, ")"), "("); ok {
			value = number
		}
		all = append(all, fact{key: key(i, "mstconfig", fields[0]), value: value, set: func(value string) []string {
			return []string{"mstconfig", "-y", "-d", f.Address, "set", fields[0] + "=" + value}
		}})
	}
	return toldBy("mstconfig", i, all), nil
}

// pairs reads lines "name: value" after a heading, but those that cannot be changed.
func pairs(text, after string) (all [][2]string) {
	if after != "" {
		_, text, _ = strings.Cut(text, after)
	}
	for row := range strings.Lines(text) {
		name, rest, ok := strings.Cut(row, ":")
		fields := strings.Fields(rest)
		if ok && len(fields) > 0 && fields[0] != "n/a" && !strings.Contains(rest, "[fixed]") {
			all = append(all, [2]string{strings.ToLower(strings.TrimSpace(name)), fields[0]})
		}
	}
	return all
}

// difference is a fact that is not what it was.
type difference struct {
	fact
	was string
}

// String says it in the words of a fault.
func (d difference) String() string {
	return fmt.Sprintf("%s: %q instead of %q", d.key, d.value, d.was)
}

// differences compares facts with those of the enrollment, nothing more and nothing less. What a program
// tells that the host did not have then is left out, and so is the ROM of another firmware; notCompared
// names them.
func differences(recorded map[string]string, now []fact) (all []difference, notCompared []string) {
	seen := map[string]bool{}
	for _, one := range now {
		was, known := recorded[one.key]
		seen[one.key] = true
		number, _, _ := strings.Cut(one.key, " ")
		_, told := recorded[number+" program "+one.tool]
		switch rom := strings.Contains(one.key, " rom of firmware "); {
		case rom && !known, one.tool != "" && !told:
			notCompared = append(notCompared, one.key)
		case was != one.value:
			all = append(all, difference{one, was})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(recorded)) {
		if !seen[name] && !strings.Contains(name, " rom of firmware ") {
			all = append(all, difference{fact{key: name}, recorded[name]})
		}
	}
	return all, notCompared
}
