package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// aimedAct is one act of an operator or an instance, as an aimed kill interrupts it.
type aimedAct struct {
	name string
	// devices it needs; 0 is one.
	devices int
	// start brings the devices to where the act begins.
	start func(*aim) error
	// command is the act.
	command func(*aim) []string
	// done says what is missing of all of it.
	done func(*aim) error
	// first are the commands of which each may come first.
	first []string
	// nth and by are the write and the blow that are worst for it; 0: it is struck in a soak only.
	nth, by int
	// creates: it makes a provider. cleans: it may erase what an operator holds. ofInstance:
	// it is an act of an instance.
	creates, cleans, ofInstance, elsewhere bool

	// leads are how long it takes from the command to each of its writes, as measured where
	// nothing is killed.
	leads []time.Duration
}

func (a *aim) prepare(t *testing.T) {
	t.Helper()
	a.instance = uuid.NewString()
	if a.act.elsewhere {
		a.k.elsewhere(t)
	}
	for range max(1, a.act.devices) {
		a.newDevice(t)
	}
}

// Where acts begin.

func (a *aim) enroll(d Device, more ...string) error {
	return a.must(a.k.EnrollArgs(d, more...)...)
}

func enrolled(a *aim) error { return a.enroll(a.devices[0]) }

func available(a *aim) error {
	for _, d := range a.devices {
		if err := a.enroll(d, "--provide"); err != nil {
			return err
		}
	}
	for _, d := range a.devices {
		if err := a.awaitState(d.Name, device.Available); err != nil {
			return err
		}
	}
	return nil
}

// then is a start that continues another one by commands about the first device.
func then(start func(*aim) error, commands ...[]string) func(*aim) error {
	return func(a *aim) error {
		if err := start(a); err != nil {
			return err
		}
		for _, command := range commands {
			if _, err := a.k.Site.Site.Burnish(context.Background(), patiently(a.on(command...)...)...); err != nil {
				return err
			}
		}
		return nil
	}
}

// on is a command about the first device: its name follows the verb.
func (a *aim) on(command ...string) []string {
	return slices.Insert(slices.Clone(command), 1, a.devices[0].Name)
}

func about(command ...string) func(*aim) []string {
	return func(a *aim) []string { return a.on(command...) }
}

func bound(a *aim) error {
	if err := available(a); err != nil {
		return err
	}
	if err := a.must("bind", a.devices[0].Name, "--instance", a.instance); err != nil {
		return err
	}
	return a.stamp(2, 0)
}

// stamp writes to the devices with these indices.
func (a *aim) stamp(nonce uint64, indices ...int) error {
	for _, i := range indices {
		d := a.devices[i]
		file, err := os.OpenFile(d.Path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		if err := file.Close(); err != nil {
			return err
		}
		if err := stampAt(d, nonce); err != nil {
			return err
		}
	}
	return nil
}

// atHold: the clean waits for its operator.
func atHold(a *aim) error {
	if err := a.enroll(a.devices[0], "--type", heldByRunbook, "--provide"); err != nil {
		return err
	}
	return a.await(a.devices[0].Name, "to be on hold", func(v contract.DeviceStatus) bool {
		return v.Fault == string(device.CodeOnHold)
	})
}

// failed: the clean ended in error, and somebody's bytes are on the device since.
func failed(a *aim) error {
	if err := then(atHold, []string{"abort"})(a); err != nil {
		return err
	}
	if err := a.awaitState(a.devices[0].Name, device.Error); err != nil {
		return err
	}
	return a.stamp(5, 0)
}

// swapped: other hardware is where the device was.
func swapped(a *aim) error {
	if err := enrolled(a); err != nil {
		return err
	}
	d := a.devices[0]
	if err := os.Rename(d.Path, d.Path+".before"); err != nil {
		return err
	}
	return stampAt(d, 9)
}

func instanceHas(indices ...int) func(*aim) error {
	return func(a *aim) error {
		if err := a.provide(); err != nil {
			return err
		}
		args := []string{"instance", "bind", a.instance}
		for _, i := range indices {
			args = append(args, "--device", fmt.Sprintf("%s=role %d", a.devices[i].Name, i))
		}
		if err := a.must(args...); err != nil {
			return err
		}
		return a.stamp(2, indices...)
	}
}

// provide makes all devices available; of acts that move an instance the last half is on the
// other host.
func (a *aim) provide() error {
	if !a.act.elsewhere {
		return available(a)
	}
	for i, d := range a.devices {
		args := a.k.EnrollArgs(d, "--provide")
		if i >= len(a.devices)/2 {
			args[slices.Index(args, a.k.Host)] = a.k.away.Host
		}
		if err := a.must(args...); err != nil {
			return err
		}
	}
	for _, d := range a.devices {
		if err := a.awaitState(d.Name, device.Available); err != nil {
			return err
		}
	}
	return nil
}

func instanceMoves(a *aim) error {
	if err := instanceHas(0, 1)(a); err != nil {
		return err
	}
	if err := a.must(instanceMigrate(a)...); err != nil {
		return err
	}
	return a.stamp(5, 2, 3)
}

func instanceMigrate(a *aim) []string {
	return []string{"instance", "migrate", a.instance, "--to", a.k.away.Host, "--device", a.devices[2].Name, "--device",
		a.devices[3].Name}
}

func ofInstance(verb string, more ...string) func(*aim) []string {
	return func(a *aim) []string { return append([]string{"instance", verb, a.instance}, more...) }
}

// named is an act of the instance with devices by their indices.
func withDevices(verb string, indices ...int) func(*aim) []string {
	return func(a *aim) []string {
		args := []string{"instance", verb, a.instance}
		for _, i := range indices {
			args = append(args, "--device", fmt.Sprintf("%s=role %d", a.devices[i].Name, i))
		}
		return args
	}
}

// What is there when all of it is done.

func isAt(ok func(a *aim, f facts) bool) func(*aim) error {
	return func(a *aim) error {
		if f := a.after[0]; !ok(a, f) {
			return fmt.Errorf("%+v", f)
		}
		return nil
	}
}

func inState(state device.State, bytes string) func(*aim) error {
	return isAt(func(_ *aim, f facts) bool {
		return f.State == state && !f.OnHold && f.Bytes == bytes && f.Instance == ""
	})
}

var isFree = inState(device.Available, "zero")

// has are the indices of the devices that the instance has, all others are free.
func has(indices ...int) func(*aim) error {
	return func(a *aim) error {
		for i, f := range a.after {
			switch {
			case slices.Contains(indices, i):
				if f.State != device.Allocated || f.Instance != a.instance || !f.Managed && a.act.ofInstance {
					return fmt.Errorf("the instance has not %s: %+v", a.devices[i].Name, f)
				}
				if was := a.before[i]; was.Instance == a.instance && f.Bytes != was.Bytes {
					return fmt.Errorf("bytes of %s: before %+v, now %+v", a.devices[i].Name, was, f)
				}
			case f.State != device.Available || f.Bytes != "zero":
				return fmt.Errorf("%s is not free: %+v", a.devices[i].Name, f)
			}
		}
		return nil
	}
}

// aimedActs are all acts that write to the inventory, and some that should not.
func aimedActs() []*aimedAct {
	bind := func(more ...string) func(*aim) []string {
		return func(a *aim) []string {
			return append([]string{"bind", a.devices[0].Name, "--instance", a.instance}, more...)
		}
	}
	return []*aimedAct{
		{name: "bind", nth: 1, by: first, start: available, command: bind(), done: has(0), first: []string{"unbind", "retire --lost", "manage"}},
		{
			name: "bind with request and tag", nth: 1, by: alive, start: available,
			command: bind("--request", "r1", "--tag", "database"),
			done: isAt(func(a *aim, f facts) bool {
				return f.State == device.Allocated && f.Instance == a.instance && f.Request == "r1" && f.Tag == "database"
			}), first: []string{"retire --lost", "unbind"},
		},
		{
			name: "unbind", nth: 2, by: first, start: bound, done: isFree, first: []string{"retire --lost", "maintain"},
			command: func(a *aim) []string { return []string{"unbind", a.devices[0].Name, "--instance", a.instance} },
		},
		{name: "provide", start: enrolled, command: about("provide"), done: isFree, cleans: true, first: []string{"retire --lost", "abort"}},
		{
			name: "provide a clean one", nth: 2, by: first, start: then(available, []string{"manage"}),
			command: about("provide"), done: isFree,
			first: []string{"retire --lost"},
		},
		{
			name: "clean by a verify of one never provided", start: enrolled, command: about("clean", "--steps", "verify"),
			done:  isAt(func(_ *aim, f facts) bool { return f.operators() && f.Bytes == "tenant 1" }),
			first: []string{"maintain", "retire --lost"},
		},
		{
			// Its serial is confirmed: the write is in the same task as the request.
			name: "clean by a verify of one never provided, again", nth: 1, by: gone,
			start:   then(enrolled, []string{"clean", "--steps", "verify", "--wait"}, []string{"manage"}),
			command: about("clean", "--steps", "verify"),
			done:    isAt(func(_ *aim, f facts) bool { return f.operators() && f.Bytes == "tenant 1" }),
			first:   []string{"maintain", "retire --lost"},
		},
		{
			name: "clean by zero", start: enrolled, command: about("clean", "--steps", "zero"), cleans: true,
			done: inState(device.Manageable, "zero"), first: []string{"retire --lost", "abort"},
		},
		{
			name: "clean by a runbook", start: enrolled, command: about("clean", "--runbook", "by-hand"), cleans: true,
			done: inState(device.Manageable, "zero"), first: []string{"abort", "retire --lost"},
		},
		{
			name: "clean by a verify of one that was provided", start: then(available, []string{"manage"}),
			command: about("clean", "--steps", "verify"),
			done:    inState(device.Manageable, "zero"), first: []string{"maintain", "retire --lost"},
		},
		{name: "clean after an error", start: failed, command: about("clean"), cleans: true,
			done: isAt(func(_ *aim, f facts) bool {
				return f.State == device.Cleaning && f.Fault == string(device.CodeOnHold)
			}), first: []string{"retire --lost", "manage"}},
		{name: "manage", start: available, command: about("manage"), done: inState(device.Manageable, "zero"), first: []string{"retire --lost", "maintain"}},
		{name: "maintain", start: available, command: about("maintain", "--reason", "test"),
			done: isAt(func(_ *aim, f facts) bool {
				return f.State == device.Available && f.OnHold
			}), first: []string{"retire --lost", "manage"}},
		{
			name: "maintain --off", nth: 2, by: first, start: then(available, []string{"maintain", "--reason", "test"}),
			command: about("maintain", "--off"),
			done:    isFree, first: []string{"retire --lost", "manage"},
		},
		{name: "abort", start: atHold, command: about("abort"), cleans: true, done: isAt(func(_ *aim, f facts) bool { return f.State == device.Error })},
		{name: "release-hold", start: atHold, command: about("release-hold"), done: isFree, first: []string{"retire --lost", "abort"}},
		{name: "retire", start: available, command: about("retire", "--reason", "worn"), done: inState(device.Retired, "zero"), first: []string{"maintain", "manage"}},
		{
			name: "retire --lost", start: available, command: about("retire", "--lost", "--reason", "gone"),
			done:  inState(device.Retired, "zero"),
			first: []string{"manage"},
		},
		{
			name: "retire of an instance's", start: bound, done: inState(device.Retired, "tenant 2"), first: []string{"unbind"},
			command: func(a *aim) []string {
				return []string{"retire", a.devices[0].Name, "--reason", "worn", "--instance", a.instance}
			},
		},
		{name: "replace", start: swapped, command: about("replace"), done: inState(device.Manageable, "tenant 9"), first: []string{"retire --lost"}},
		{
			name: "replace --provide", start: swapped, command: about("replace", "--provide"), cleans: true, done: isFree,
			first: []string{"retire --lost", "manage"},
		},
		{
			name: "move", nth: 3, by: alive, devices: 2, creates: true, done: func(a *aim) error {
				if a.after[0].State != device.Absent || a.after[1].State != device.Manageable || a.after[1].Bytes != "tenant 1" {
					return fmt.Errorf("%+v", a.after)
				}
				return nil
			}, first: []string{"retire --lost"},
			start: func(a *aim) error {
				a.devices[1].Path = a.devices[0].Path
				return enrolled(a)
			},
			command: func(a *aim) []string { return []string{"move", a.devices[0].Name, a.devices[1].Name} },
		},
		{name: "forget", start: then(available, []string{"retire", "--reason", "worn"}), command: about("forget"), done: inState(device.Absent, "zero")},
		{
			name: "enroll", creates: true, start: func(*aim) error { return nil }, done: inState(device.Manageable, "tenant 1"),
			command: func(a *aim) []string { return a.k.EnrollArgs(a.devices[0]) },
		},
		{
			name: "enroll --provide", creates: true, cleans: true, start: func(*aim) error { return nil }, done: isFree,
			command: func(a *aim) []string { return a.k.EnrollArgs(a.devices[0], "--provide") },
		},
		{
			name: "instance bind", nth: 2, by: alive, devices: 3, ofInstance: true, start: available, done: has(0, 1, 2),
			first:   []string{"release"},
			command: withDevices("bind", 0, 1, 2),
		},
		{
			name: "instance attach", devices: 3, ofInstance: true, start: instanceHas(0), done: has(0, 1, 2),
			first:   []string{"release"},
			command: withDevices("attach", 1, 2),
		},
		{
			name: "instance detach", devices: 3, ofInstance: true, start: instanceHas(0, 1, 2), done: has(0),
			first: []string{"release"},
			command: func(a *aim) []string {
				return []string{"instance", "detach", a.instance, a.devices[1].Name, a.devices[2].Name}
			},
		},
		{
			name: "instance release", nth: 2, by: gone, devices: 2, ofInstance: true, start: instanceHas(0, 1), done: has(),
			first:   []string{"release"},
			command: ofInstance("release"),
		},
		{
			name: "instance migrate", nth: 2, by: alive, devices: 4, ofInstance: true, elsewhere: true, start: instanceHas(0, 1),
			done:    has(0, 1, 2, 3),
			command: instanceMigrate, first: []string{"release"},
		},
		{
			name: "instance confirm", devices: 4, ofInstance: true, elsewhere: true, start: instanceMoves, done: has(2, 3),
			command: ofInstance("confirm"), first: []string{"release"},
		},
		{
			name: "instance revert", devices: 4, ofInstance: true, elsewhere: true, start: instanceMoves, done: has(0, 1),
			command: ofInstance("revert"), first: []string{"release"},
		},
	}
}
