package main

import (
	"bytes"
	"context"

	"burnish/internal/device"
	"burnish/internal/nova/metadata"
	"burnish/workflows/contract"
)

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
// named; the guest's address stays unknown.
func (a *app) addDomain(ctx context.Context, l deviceClient, found map[string][]contract.GuestAddress,
	devices []contract.DeviceChoice) ([]contract.DeviceChoice, error) {
	if found == nil {
		return devices, nil
	}
	for i, d := range devices {
		if len(d.Guest) > 0 {
			continue
		}
		address, path, err := a.onHost(ctx, l, d.Name)
		if err != nil {
			return nil, err
		}
		devices[i].Guest = found[address]
		if len(devices[i].Guest) == 0 && path != "" {
			devices[i].Guest = found[path]
		}
		if len(devices[i].Guest) == 0 {
			a.note(d.Name, "the domain does not give it to its guest; where the guest finds it stays unknown")
		}
	}
	return devices, nil
}

// onHost gives a device's PCI address and its path on its host. A NAME of the form HOST_ADDRESS
// says enough.
func (a *app) onHost(ctx context.Context, l deviceClient, name string) (address, path string, err error) {
	if _, address, ok := device.SplitName(name); ok {
		return address, "", nil
	}
	rctx, cancel := a.requestContext(ctx)
	defer cancel()
	e, err := l.Describe(rctx, name)
	if err != nil {
		return "", "", a.explain(ctx, l, name, err)
	}
	if !e.Running {
		return "", "", noLongerRunning(e)
	}
	return e.Status.StdBoardInfo.PCIAddress, e.Status.Path, nil
}
