package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"burnish/internal/device"
	"burnish/internal/tagging"
	"burnish/workflows/contract"
)

// deviceFlags are --device, --guest and --request, whose order matters: a --guest belongs to
// the --device that it follows.
type deviceFlags struct {
	devices  []contract.DeviceChoice
	requests []contract.DeviceRequest
	// guestless: the last of these flags was a --request.
	guestless bool
}

// flags are those of the devices that an instance gets by name.
func (d *deviceFlags) flags(flags *pflag.FlagSet, usage string) {
	flags.Var(flagFunc{"name[=tag]", d.addDevice}, "device", usage)
	flags.Var(flagFunc{"key=value", d.addGuest}, "guest", "`bus=B[,address=A][,path=P][,devname=N]`: where the guest "+
		"finds the device; right behind its --device. bus is pci, usb, scsi, ide, xen or none; address has the form of "+
		"the bus; path and devname only where they are fixed in the guest. Repeatable: Xen shows a disk on two buses. "+
		"Without it the guest's address is not known, and left out")
}

// flagFunc is a flag that may be repeated: each of its values is given to a function.
type flagFunc struct {
	kind string
	add  func(string) error
}

func (f flagFunc) String() string { return "" }

func (f flagFunc) Type() string { return f.kind }

func (f flagFunc) Set(text string) error { return f.add(text) }

// addDevice reads NAME or NAME=TAG: a NAME may contain a colon, a TAG anything but a comma and
// a slash.
func (d *deviceFlags) addDevice(text string) error {
	name, tag, tagged := strings.Cut(text, "=")
	name, err := device.CanonicalName(name)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(d.devices, func(c contract.DeviceChoice) bool { return c.Name == name }) {
		return fmt.Errorf("%s is named twice", name)
	}
	if tagged {
		if err := device.CheckTag(tag); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	d.devices, d.guestless = append(d.devices, contract.DeviceChoice{Name: name, Tag: tag}), false
	return nil
}

// addGuest reads where the guest finds the last device.
func (d *deviceFlags) addGuest(text string) error {
	if len(d.devices) == 0 || d.guestless {
		return errors.New("it must stand right behind the --device that it belongs to")
	}
	last := &d.devices[len(d.devices)-1]
	var found contract.GuestAddress
	err := readPairs(text, guestKeys(&found), nil)
	if err == nil {
		last.Guest, err = appendGuest(last.Guest, found)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", last.Name, err)
	}
	return nil
}

// guestKeys are the keys of one guest's address.
func guestKeys(g *contract.GuestAddress) map[string]*string {
	return map[string]*string{"bus": &g.Bus, "address": &g.Address, "path": &g.Path, "devname": &g.Devname}
}

// appendGuest adds a guest's address, if all together are valid.
func appendGuest(known []contract.GuestAddress, found contract.GuestAddress) ([]contract.GuestAddress, error) {
	all := append(slices.Clone(known), found)
	if err := tagging.CheckGuest(all); err != nil {
		return known, err
	}
	return all, nil
}

// addRequest reads a request for free devices.
func (d *deviceFlags) addRequest(text string) error {
	r := contract.DeviceRequest{Count: 1}
	var count, live string
	texts := map[string]*string{
		"type": &r.Type, "vendor": &r.Vendor, "model": &r.Model, "tag": &r.Tag, "count": &count, "live_migratable": &live,
	}
	if err := readPairs(text, texts, map[string]*[]string{"trait": &r.Traits}); err != nil {
		return err
	}
	if count != "" {
		n, err := strconv.ParseUint(count, 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("count %q: must be a number from 1 to %d", count, contract.MaxInstanceDevices)
		}
		r.Count = int(n)
	}
	switch live {
	case "", "false":
	case "true":
		r.LiveMigratable = true
	default:
		return fmt.Errorf("live_migratable %q: must be true or false", live)
	}
	if r.Tag != "" {
		if err := device.CheckTag(r.Tag); err != nil {
			return err
		}
	}
	checked, err := contract.InstanceBindInput{Requests: []contract.DeviceRequest{r}}.Normalize()
	if err != nil {
		return err
	}
	d.requests, d.guestless = append(d.requests, checked.Requests...), true
	return nil
}

// readPairs reads key=value,key=value,… A comma that no key follows belongs to the value. Those
// of lists may be repeated.
func readPairs(text string, texts map[string]*string, lists map[string]*[]string) error {
	var known []string
	for key := range texts {
		known = append(known, key)
	}
	for key := range lists {
		known = append(known, key)
	}
	slices.Sort(known)
	seen := map[string]bool{}
	for _, pair := range strings.Split(settingForm.ReplaceAllString(text, "\x00$1"), "\x00") {
		key, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok || key == "":
			return fmt.Errorf("%q: must be of the form key=value, with the keys %s", pair, strings.Join(known, ", "))
		case !slices.Contains(known, key):
			return fmt.Errorf("unknown key %q: must be one of %s", key, strings.Join(known, ", "))
		case value == "":
			return fmt.Errorf("%s is empty", key)
		case lists[key] != nil:
			*lists[key] = append(*lists[key], value)
		case seen[key]:
			return fmt.Errorf("%s is given twice", key)
		default:
			*texts[key] = value
		}
		seen[key] = true
	}
	return nil
}
