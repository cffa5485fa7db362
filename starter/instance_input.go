package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"burnish/internal/device"
	"burnish/internal/nova/metadata"
	"burnish/internal/tagging"
	"burnish/internal/yamlfile"
	"burnish/workflows/client"
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
	flags.Func("device", usage, d.addDevice)
	flags.Func("guest", "`bus=B[,address=A][,path=P][,devname=N]`: where the guest "+
		"finds the device; right behind its --device. bus is pci, usb, scsi, ide, xen or none; address has the form of "+
		"the bus; path and devname only where they are fixed in the guest. Repeatable: Xen shows a disk on two buses. "+
		"Without it the guest's address is not known, and left out", d.addGuest)
}

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
	var g contract.GuestAddress
	err := readPairs(text, map[string]*string{"bus": &g.Bus, "address": &g.Address, "path": &g.Path,
		"devname": &g.Devname}, nil)
	if last.Guest = append(last.Guest, g); err == nil {
		err = tagging.CheckGuest(last.Guest)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", last.Name, err)
	}
	return nil
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
	if err := checkRequest(&r); err != nil {
		return err
	}
	d.requests, d.guestless = append(d.requests, r), true
	return nil
}

// readPairs reads key=value,key=value,… A comma that no key follows belongs to the value. Those
// of lists may be repeated.
func readPairs(text string, texts map[string]*string, lists map[string]*[]string) error {
	known := slices.AppendSeq(slices.Collect(maps.Keys(texts)), maps.Keys(lists))
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

// parseInstanceFile reads a request file of `instance bind` and `instance attach`. Its error
// names the line.
func parseInstanceFile(data []byte) (in contract.InstanceBindInput, err error) {
	r := &yamlfile.Reader{}
	body := r.Parse(data)
	if len(r.Problems()) == 0 && body.Nothing() {
		return in, errors.New("must be a mapping with the keys devices or requests")
	}
	r.Decode(body, "a request file", &in, checkRequested)
	if err := firstProblem(r); err != nil {
		return in, err
	}
	return in.Normalize()
}

// checkRequested checks a part of a request file, and gives it its one spelling.
func checkRequested(part any) (err error) {
	switch part := part.(type) {
	case *contract.GuestAddress:
		return tagging.CheckGuest([]contract.GuestAddress{*part})
	case *contract.DeviceChoice:
		if part.Tag != "" {
			err = device.CheckTag(part.Tag)
		}
		var name string
		if err == nil {
			name, err = device.CanonicalName(part.Name)
		}
		part.Name = name
		return cmp.Or(err, tagging.CheckGuest(part.Guest))
	case *contract.DeviceRequest:
		part.Count = max(part.Count, 1)
		return checkRequest(part)
	}
	return nil
}

// checkRequest checks a request for free devices, and gives it its one spelling.
func checkRequest(r *contract.DeviceRequest) error {
	if r.Tag != "" {
		if err := device.CheckTag(r.Tag); err != nil {
			return err
		}
	}
	checked, err := contract.InstanceBindInput{Requests: []contract.DeviceRequest{*r}}.Normalize()
	if err == nil {
		*r = checked.Requests[0]
	}
	return err
}

// readInstanceFile reads the file that the operator named.
func (a *app) readInstanceFile(ctx context.Context, path string) (contract.InstanceBindInput, error) {
	data, err := a.readFile(ctx, path)
	if err != nil {
		return contract.InstanceBindInput{}, err
	}
	in, err := parseInstanceFile(data)
	if err != nil {
		return in, usagef("%s: %s", path, err)
	}
	return in, nil
}

// readDomain reads libvirt's domain from the file; "" is none.
func (a *app) readDomain(ctx context.Context, file string,
	devices []contract.DeviceChoice) (map[string][]contract.GuestAddress, error) {
	if file == "" {
		return nil, nil
	}
	if len(devices) == 0 {
		return nil, usagef("--domain goes with named devices: it says where the guest finds them")
	}
	data, err := a.readFile(ctx, file)
	if err != nil {
		return nil, err
	}
	found, err := metadata.FromDomain(bytes.NewReader(data))
	if err != nil {
		return nil, usagef("%s: %s", file, err)
	}
	return found, nil
}

// addDomain gives each device without a guest's address the one that the domain has for it: by
// the address or the path that the device has on its host. One that the domain does not have is
// named; the guest's address stays unknown. Without a domain it does nothing.
func (a *app) addDomain(ctx context.Context, l deviceClient, found map[string][]contract.GuestAddress,
	devices []contract.DeviceChoice) error {
	for i, d := range devices {
		if len(d.Guest) > 0 || found == nil {
			continue
		}
		address, path, err := a.onHost(ctx, l, d.Name)
		if err != nil {
			return err
		}
		devices[i].Guest = found[address]
		if len(devices[i].Guest) == 0 && path != "" {
			devices[i].Guest = found[path]
		}
		if len(devices[i].Guest) == 0 {
			a.note(d.Name, "the domain does not give it to its guest; where the guest finds it stays unknown")
		}
	}
	return nil
}

// onHost gives a device's PCI address and its path on its host. A NAME of the form HOST_ADDRESS
// says enough.
func (a *app) onHost(ctx context.Context, l deviceClient, name string) (address, path string, err error) {
	if _, address, ok := device.SplitName(name); ok {
		return address, "", nil
	}
	e, err := ask(ctx, a, l, name, func(ctx context.Context) (client.Execution, error) {
		e, err := l.Describe(ctx, name)
		return e, cmp.Or(err, e.Gone())
	})
	return e.Status.StdBoardInfo.PCIAddress, e.Status.Path, err
}
