package pci

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/pcifunction"
)

// secure removes what a tenant left outside of the memory, and puts back the settings of the
// enrollment. A second run finds what is left.
func (h *handle) secure(ctx context.Context, run hardware.StepRun) (string, error) {
	var did []string
	for _, f := range h.functions {
		if len(f.Functions) == 0 {
			continue
		}
		if err := h.set(ctx, f.Path("sriov_numvfs"), "0"); err != nil {
			return "", err
		}
		did = append(did, fmt.Sprintf("%d virtual functions removed", len(f.Functions)))
	}
	if err := h.attach(ctx); err != nil {
		return "", err
	}
	ports, err := h.ports(ctx)
	if err != nil {
		return "", err
	}
	for handle, p := range ports {
		if p.Flavour == "pcisf" { // somebody added it
			if err := h.change(ctx, nil, "devlink", "port", "del", handle); err != nil {
				return "", err
			}
			did = append(did, "sub-function "+handle+" removed")
		}
	}
	put, err := h.putBack(ctx, run)
	if err != nil {
		return "", err
	}
	if did = append(did, put...); len(did) == 0 {
		did = []string{"nothing to put back"}
	}
	changed, err := h.checkFirmware(ctx)
	return strings.Join(append(did, changed...), "; "), err
}

// putBack gives each setting its value of the enrollment, and says which it changed. One that does not take
// it is a fault.
func (h *handle) putBack(ctx context.Context, run hardware.StepRun) (put []string, err error) {
	for round := 1; ; round++ {
		left, _, err := h.differences(ctx)
		if err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(left, func(d difference) bool { return toldBy(d.key) == "" })
		if len(left) == 0 {
			break
		}
		if round == 3 { // one may bring others along: an embedded switch has parameters of its own
			return nil, hardware.Refused(device.CodePropertiesMismatch, "put it back by hand, then clean "+h.target.Name,
				"settings of %s do not take their values of the enrollment: %s", h.functions[0].Address, listed(left))
		}
		var reload []string
		for _, d := range left {
			if d.set == nil || d.was == "" {
				continue // it is not there any more, or was not
			}
			if err := run.MayGoOn(); err != nil {
				return nil, err
			}
			command := slices.Clone(d.set)
			command[len(command)-1] += d.was
			if err := h.change(ctx, nil, command...); err != nil {
				return nil, err
			}
			put = append(put, d.key)
			if strings.HasSuffix(d.key, " driverinit") { // which counts after a reload
				reload = append(reload, d.set[4])
			}
		}
		for _, instance := range slices.Compact(reload) {
			if err := h.change(ctx, nil, "devlink", "dev", "reload", instance); err != nil {
				return nil, err
			}
		}
	}
	if len(put) > 0 {
		slices.Sort(put)
		put = []string{"put back " + strings.Join(slices.Compact(put), ", ")}
	}
	return put, nil
}

// difference is a fact that is not what it was.
type difference struct {
	fact
	key, was string
}

// differences compares what can be read now with the enrollment, nothing more and nothing less. What a program
// tells that the host did not have then is left out, and so is the ROM of another firmware; the note names them.
func (h *handle) differences(ctx context.Context) (all []difference, note string, err error) {
	now, err := h.facts(ctx)
	if err != nil {
		return nil, "", err
	}
	var notCompared []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		was, known := h.recorded[name]
		_, told := h.recorded[toldBy(name)]
		switch {
		case !known && strings.Contains(name, romOf), !told && toldBy(name) != "":
			notCompared = append(notCompared, name)
		case was != now[name].value:
			all = append(all, difference{now[name], name, was})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.recorded)) {
		if _, seen := now[name]; !seen && !strings.Contains(name, romOf) {
			all = append(all, difference{fact{}, name, h.recorded[name]})
		}
	}
	note = fmt.Sprintf("%d facts as at the enrollment", len(now)-len(notCompared))
	if len(notCompared) > 0 {
		note += "; not compared, because nothing was recorded: " + strings.Join(notCompared, ", ")
	}
	return all, note, nil
}

// verifyProperties proves that the device consists of what it consisted of at the enrollment, and is set
// as it was.
func (h *handle) verifyProperties(ctx context.Context, run hardware.StepRun) (string, error) {
	if run.Args != nil {
		return "", hardware.Invalid("a profile of the policy (properties) is for servers, not for %s", h.target.Name)
	}
	if err := h.attach(ctx); err != nil {
		return "", err
	}
	differ, note, err := h.differences(ctx)
	if err == nil && len(differ) > 0 {
		err = hardware.Refused(device.CodePropertiesMismatch,
			"find out what changed it; if it is intended, replace the device by itself",
			"%s is not what was enrolled: %s", h.functions[0].Address, listed(differ))
	}
	return note, err
}

// listed names the first differences.
func listed(all []difference) string {
	var words []string
	for _, d := range all {
		words = append(words, fmt.Sprintf("%s: %q instead of %q", d.key, d.value, d.was))
	}
	return hardware.OneLine(strings.Join(words, "; "))
}

// fact is one thing that can be read of a device, and that must be at the end of a clean as it was at the
// enrollment.
type fact struct {
	value string
	// set is the command that gives it another value, which goes behind; nil: it is no setting.
	set []string
}

// romOf is the middle of the key of an expansion ROM: each firmware may have another one.
const romOf = " rom of firmware "

// teller takes a fact of one function.
type teller func(words, value string, set ...string)

// key names a fact of the function with a number.
func key(function int, words string) string { return fmt.Sprint(function, " ", words) }

// programs tell settings, of which the program is the first word; that it is installed is a fact too.
var programs = []string{"devlink", "ethtool", "ip", "mstconfig"}

// toldBy is the key of the fact that the program which tells a setting is installed; "" of what is no setting.
func toldBy(key string) string {
	words := strings.Fields(key)
	if !slices.Contains(programs, words[1]) {
		return ""
	}
	return "program " + words[1]
}

// facts reads everything. The drivers must be bound as they were at the enrollment.
func (c *card) facts(ctx context.Context) (map[string]fact, error) {
	if err := c.each((*pcifunction.Function).Refresh); err != nil {
		return nil, err
	}
	now, err := c.firmware(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]fact{}
	for i, f := range c.functions {
		tell := func(words, value string, set ...string) { all[key(i, words)] = fact{value, set} }
		made, err := f.Made()
		if err != nil {
			return nil, err
		}
		digest, err := c.romDigest(f)
		all[fmt.Sprint(i, romOf, now.running)] = fact{value: digest}
		err = errors.Join(err, configurationFacts(f, made, tell), c.devlinkFacts(ctx, f, tell),
			c.interfaceFacts(ctx, made, tell), c.nonVolatileFacts(ctx, f, tell))
		if err != nil {
			return nil, err
		}
	}
	for _, program := range programs {
		if c.ran[program] {
			all["program "+program] = fact{value: "installed"}
		}
	}
	return all, nil
}

// record gives the facts as an identity keeps them.
func (c *card) record(ctx context.Context) (string, error) {
	all, err := c.facts(ctx)
	p := device.Properties{Facts: map[string]string{}}
	for key, one := range all {
		p.Facts[key] = one.value
	}
	text, failed := p.Text()
	return text, errors.Join(err, failed)
}

// configurationFacts are what every function has.
func configurationFacts(f *pcifunction.Function, made pcifunction.Made, tell teller) error {
	config, err := configuration(f)
	if err != nil {
		return err
	}
	var has []string
	places := capabilities(config)
	for _, at := range slices.Sorted(maps.Keys(places)) {
		has = append(has, fmt.Sprintf("%s@%x", places[at], at))
	}
	// Decoding and bus mastering go with the driver, which is compared itself.
	const withDriver = 0x7
	tell("driver", f.Driver)
	tell("interfaces", strconv.Itoa(len(made.Interfaces)))
	tell("capabilities", strings.Join(has, " "))
	tell("command", fmt.Sprintf("%04x", binary.LittleEndian.Uint16(config[4:])&^withDriver))
	tell("virtual functions", strconv.Itoa(len(f.Functions)))
	for _, name := range []string{"current_link_speed", "current_link_width"} {
		text, err := f.Attribute(name)
		if err != nil {
			return err
		}
		tell(name, text)
	}
	for name, size := range regions(f) {
		tell("size of "+name, strconv.FormatInt(size, 10))
	}
	return nil
}

// romDigest is the digest of the expansion ROM. The kernel reads it only of a function that is enabled, as a
// driver does.
func (c *card) romDigest(f *pcifunction.Function) (string, error) {
	if _, err := os.Stat(f.Path("rom")); err != nil {
		return "none", nil
	}
	names := []string{"enable", "rom"}
	if f.Driver != "" {
		names = names[1:]
	}
	var content []byte
	var unread, failed error
	for _, text := range []string{"1", "0"} {
		for _, name := range names {
			failed = errors.Join(failed, c.write(f.Path(name), text))
		}
		if text == "1" {
			content, unread = os.ReadFile(f.Path("rom"))
		}
	}
	switch {
	case failed != nil:
		return "", hardware.IOFault("enable and disable the expansion ROM of", f.Address, failed)
	case unread != nil:
		return "unreadable", nil // the kernel finds no ROM behind the region
	}
	return fmt.Sprintf("%x", sha256.Sum256(content)), nil
}

// devlinkFacts are the parameters of a function, and the settings of its embedded switch.
func (c *card) devlinkFacts(ctx context.Context, f *pcifunction.Function, tell teller) error {
	has, err := c.hasDevlink(ctx, f)
	if err != nil || !has {
		return err
	}
	name := instance(f)
	eswitch, err := devlink[map[string]any](ctx, c, f, "dev", "eswitch", "show", name)
	if err != nil {
		return err
	}
	for what, value := range eswitch[name] {
		tell("devlink eswitch "+what, fmt.Sprint(value), "devlink", "dev", "eswitch", "set", name, what, "")
	}
	params, err := devlink[[]struct {
		Name   string `json:"name"`
		Values []struct {
			Mode  string          `json:"cmode"`
			Value json.RawMessage `json:"value"`
		} `json:"values"`
	}](ctx, c, f, "dev", "param", "show") // of one device it wants a name
	for _, p := range params[name] {
		for _, v := range p.Values {
			tell("devlink parameter "+p.Name+" "+v.Mode, strings.Trim(string(v.Value), `"`),
				"devlink", "dev", "param", "set", name, "name", p.Name, "cmode", v.Mode, "value", "")
		}
	}
	return err
}

// interfaceFacts are the settings of the network interfaces, which are numbered in the order of their
// ports.
func (c *card) interfaceFacts(ctx context.Context, made pcifunction.Made, tell teller) error {
	for n, name := range made.Interfaces {
		var links []struct {
			MAC string `json:"address"`
		}
		if _, err := c.ask(ctx, &links, "ip", "-j", "link", "show", "dev", name); err != nil {
			return err
		}
		for _, link := range links {
			tell(fmt.Sprint("ip ", n, " address"), link.MAC, "ip", "link", "set", "dev", name, "address", "")
		}
		for _, option := range [][2]string{{"--show-priv-flags", "--set-priv-flags"}, {"-k", "-K"}, {"-l", "-L"}} {
			text, err := c.ask(ctx, nil, "ethtool", option[0], name)
			if err != nil {
				return err
			}
			for what, value := range pairs(text) {
				tell(fmt.Sprint("ethtool ", n, " ", option[1], " ", what), value, "ethtool", option[1], name, what, "")
			}
		}
	}
	return nil
}

// pairs reads lines "name: value", but those that cannot be changed. Of queues the highest numbers come first,
// and then the present ones.
func pairs(text string) map[string]string {
	all := map[string]string{}
	for row := range strings.Lines(text) {
		name, rest, ok := strings.Cut(row, ":")
		fields := strings.Fields(rest)
		if ok && len(fields) > 0 && fields[0] != "n/a" && !strings.Contains(rest, "[fixed]") {
			all[strings.ToLower(strings.TrimSpace(name))] = fields[0]
		}
	}
	return all
}

// mellanox is the vendor whose settings and firmware mstconfig and mstflint reach.
const mellanox = "15b3"

// nonVolatile is a setting as mstconfig shows it: "  SRIOV_EN   True(1)".
var nonVolatile = regexp.MustCompile(`(?m)^[ \t]+(\w+)[ \t]+(?:\S*\()?([^\s()]+)\)?[ \t]*$`)

// nonVolatileFacts are the settings that a Mellanox keeps without power.
func (c *card) nonVolatileFacts(ctx context.Context, f *pcifunction.Function, tell teller) error {
	if f.Vendor != mellanox {
		return nil
	}
	text, err := c.ask(ctx, nil, "mstconfig", "-d", f.Address, "q")
	for _, row := range nonVolatile.FindAllStringSubmatch(text, -1) {
		tell("mstconfig "+row[1], row[2], "mstconfig", "-y", "-d", f.Address, "set", row[1]+"=")
	}
	return err
}
