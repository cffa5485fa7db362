package instance

import (
	"fmt"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// migrate binds a device on another host for each of the instance's, which keeps both until
// confirm or revert. The document shows those of the destination from then on. No data is
// copied (S0.21, S0.23); a live migration needs devices that are marked for it (S0.24).
func (i *instance) migrate(in contract.InstanceMoveInput, request string, live bool) error {
	devices, err := i.destination(in, request, live)
	if err != nil {
		return err
	}
	verb := contract.VerbInstanceMigrate.Update()
	if live {
		verb = contract.VerbInstanceLiveMigrate.Update()
	}
	i.Move = &contract.InstanceMove{Verb: verb, From: hostOf(i.Devices), To: in.To, Source: i.Devices, Since: i.Now()}
	i.Devices, i.Phase = devices, contract.InstanceMigrating
	return nil
}

// confirm ends a migration: the source is unbound, and is cleaned before anybody else gets it. The devices that stay
// are asked first: without them, the data on the source is all that the instance has.
func (i *instance) confirm() error {
	if len(i.Devices) == 0 {
		return refuse(device.CodeRefused, "no device of the destination is the instance's any more",
			"revert the migration, or release the instance")
	}
	if err := i.confirmed(i.Devices); err != nil {
		return err
	}
	source := i.Move.Source
	i.Move, i.Phase = nil, contract.InstanceActive
	i.unbind(source)
	return nil
}

// revert takes a migration back: the destination is unbound and cleaned (S0.22). The source is asked first.
func (i *instance) revert() error {
	if len(i.Move.Source) == 0 {
		return refuse(device.CodeRefused, "no device of the source is the instance's any more",
			"confirm the migration, or release the instance")
	}
	if err := i.confirmed(i.Move.Source); err != nil {
		return err
	}
	destination := i.Devices
	i.Devices = i.Move.Source
	i.Move, i.Phase = nil, contract.InstanceActive
	i.unbind(destination)
	return nil
}

// evacuate binds devices on another host and unbinds the present ones, whose host may be dead:
// they stay burned, and are cleaned when it is back (S0.19, S0.20).
func (i *instance) evacuate(in contract.InstanceMoveInput, request string) error {
	devices, err := i.destination(in, request, false)
	if err != nil {
		return err
	}
	source := i.Devices
	i.Devices = devices
	i.dropLeft() // what was bound first may have left while the rest was bound
	i.unbind(source)
	return nil
}

// destination binds a device on another host for each of the instance's, with its tag.
func (i *instance) destination(in contract.InstanceMoveInput, request string,
	live bool) ([]contract.HeldDevice, error) {
	if live {
		if err := marked(i.Devices); err != nil {
			return nil, err
		}
	}
	w := wanted{request: request, host: in.To, allowed: func(found []contract.HeldDevice) error {
		return i.replaces(in.To, found, live)
	}}
	for n, d := range i.Devices {
		if d.Type == contract.TypeNode {
			return nil, refuse(device.CodeRefused, d.Name+" is a whole server and cannot be left for another host",
				"bind a server to another instance instead")
		}
		if len(in.Devices) == 0 {
			w.requests = append(w.requests, contract.DeviceRequest{Type: d.Type, Count: 1, Tag: d.Tag, Vendor: d.Vendor,
				Model: d.Model, LiveMigratable: live})
			continue
		}
		c := in.Devices[n]
		if c.Tag != "" && c.Tag != d.Tag {
			return nil,
				refuse(device.CodeRefused, fmt.Sprintf("%s takes the place of %s, whose tag is %q", c.Name, d.Name, d.Tag),
					"name the devices in the order of the instance's, without tags")
		}
		c.Tag = d.Tag
		w.named = append(w.named, c)
	}
	return i.acquire(w)
}

// replaces refuses devices that cannot take the places of the instance's.
func (i *instance) replaces(to string, found []contract.HeldDevice, live bool) error {
	if len(found) != len(i.Devices) {
		return refuse(device.CodeInternal, fmt.Sprintf("%d devices were found for %d", len(found), len(i.Devices)), "")
	}
	for n, d := range found {
		switch {
		case d.Host != to:
			return refuse(device.CodeRefused, fmt.Sprintf("%s is on host %s, not on %s", d.Name, d.Host, to),
				"name devices of the host to move to")
		case d.Type != i.Devices[n].Type:
			return refuse(device.CodeRefused, fmt.Sprintf("%s is of type %s, %s of type %s", d.Name, d.Type, i.Devices[n].Name,
				i.Devices[n].Type), "name the devices in the order of the instance's")
		}
	}
	if live {
		return marked(found)
	}
	return nil
}

// marked refuses devices that are not marked live-migratable (S0.24).
func marked(devices []contract.HeldDevice) error {
	for _, d := range devices {
		if !d.LiveMigratable {
			return refuse(device.CodeRefused, d.Name+" is not marked as live-migratable",
				"use migrate, or mark the device on its host")
		}
	}
	return nil
}

// errMoving refuses what is not legal during a migration.
func (i *instance) errMoving() error {
	return refuse(device.CodeRefused, "the instance is migrating from "+i.Move.From+" to "+i.Move.To,
		"confirm or revert the migration first")
}
