package lifecycle

import (
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// suggestRemedy is the remedy for an action that the state does not allow. A command in it is
// written as an operator types it behind "burnish", and leads to where the action is possible,
// or to what it is for: what follows "or" is another way, what follows "then" comes after the
// former has ended.
func suggestRemedy(s *contract.DeviceState, verb string, e *device.IllegalError) string {
	r := remedy{s}
	switch dev := s.Device; verb {
	case contract.VerbUnbind.Update(), contract.VerbRebuild.Update():
		if dev.State == device.Allocated && dev.Binding != nil {
			return "name the instance that has it: " + r.command(verb, "--instance "+dev.Binding.Instance)
		}
		if dev.State == device.Unknown && !dev.AwaitingManualClean {
			return r.reach("")
		}
		return "none is needed: no instance has it"
	case contract.VerbBind.Update(), contract.VerbClaim.Update(), contract.VerbBurn.Update(),
		contract.VerbUnclaim.Update():
		return r.offer()
	case contract.VerbProvide.Update():
		return r.provide()
	case contract.VerbClean.Update():
		if e == nil || e.Event == device.Clean {
			return r.clean()
		}
		return r.reach(r.command("manage"))
	case contract.VerbOverride.Update():
		return r.override()
	case contract.VerbReplace.Update(), contract.VerbMove.Update():
		return r.reach(r.command("manage"))
	case contract.VerbForget.Update():
		return r.retire()
	case contract.VerbMaintain.Update():
		if dev.State == device.Retired {
			return "none is needed: a retired device is not offered"
		}
	}
	return r.reach("")
}

// retireFirst is what must be done before the device can be enrolled in another way.
func retireFirst(s *contract.DeviceState) string {
	forget := remedy{s}.command("forget")
	if s.Device.State == device.Retired {
		return forget
	}
	return remedy{s}.retire() + ", then " + forget
}

// nameTenantFirst is the remedy for a request that would end the binding of an instance, and does not
// name it.
func nameTenantFirst(s *contract.DeviceState, verb, instance string) string {
	r := remedy{s}
	flags := []string{"--instance " + instance}
	switch verb {
	case contract.VerbManage.Update():
		if s.Device.State == device.Allocated {
			return r.reach(r.command("manage"))
		}
	case contract.VerbRetire.Update():
		flags = append(flags, "--reason R")
	case contract.VerbMove.Update():
		flags = append([]string{"NEW"}, flags...)
	}
	return "if that is intended, name it: " + r.command(verb, flags...)
}

// remedy makes remedies for one device.
type remedy struct{ s *contract.DeviceState }

func (r remedy) command(verb string, flags ...string) string {
	return strings.Join(append([]string{verb, r.s.Name}, flags...), " ")
}

// anotherServer is said of a server that another user of its pool has.
const anotherServer = "take another server: this one is cleaned as soon as the other user has left it"

func (r remedy) taken() bool {
	d := r.s.Device
	return d.LostRace || d.State == device.Manageable && d.Maintenance == device.MaintenanceTaken
}

// offer leads to a device that can be bound.
func (r remedy) offer() string {
	d := r.s.Device
	off := r.command("maintain", "--off")
	clean := r.command("clean")
	if d.Status == device.Maintaining && d.State != device.Available {
		clean = sequence(clean, off)
	} else {
		off = ""
	}
	switch {
	case r.taken():
		return anotherServer
	case d.Claim != nil:
		return "wait, or take another device"
	case d.State == device.Available:
		return r.command("maintain", "--off")
	case d.State == device.Allocated:
		return "take another device"
	case d.State == device.Manageable:
		return sequence(r.command("provide"), off)
	case d.State == device.Error && !d.Cleanable:
		return r.withAnotherDriver()
	case d.State == device.Error, d.State == device.PendingCleaning && d.AwaitingManualClean:
		return clean
	case d.State == device.Unknown && d.AwaitingManualClean:
		return ifUnused + clean
	case d.State == device.Cleaning && d.NamedSteps:
		return sequence(r.release(), "wait until its steps are done", r.command("provide"), off)
	case onHold(r.s):
		return sequence(r.release(), "wait until it is clean", off)
	case d.State == device.PendingCleaning, d.State == device.Cleaning:
		return sequence("wait until it is clean", off)
	}
	return r.reach("")
}

// provide leads to a device that is offered, or that can be provided.
func (r remedy) provide() string {
	d := r.s.Device
	either := r.command("clean") + ", or " + r.command("manage")
	switch {
	case r.taken():
		return anotherServer
	case d.State == device.Allocated:
		return r.unbind() + ": it is then cleaned and available by itself"
	case d.State == device.Error && !d.Cleanable:
		return r.withAnotherDriver()
	case d.State == device.Error:
		return either
	case d.State == device.Unknown && d.AwaitingManualClean:
		return ifUnused + either
	case d.State == device.Cleaning && d.NamedSteps:
		return sequence(r.release(), "wait until its steps are done")
	}
	return r.reach("")
}

// release ends the hold of a clean; "" if it is not held.
func (r remedy) release() string {
	if onHold(r.s) {
		return r.command("release-hold")
	}
	return ""
}

// clean leads to a device that is clean, or that can be cleaned.
func (r remedy) clean() string {
	d := r.s.Device
	steps := r.command("clean", "--steps STEP")
	switch {
	case r.taken():
		return anotherServer
	case d.State == device.Available && d.Claim == nil:
		what := "it is clean"
		if d.NotSanitized {
			what = "it is offered without a clean"
		}
		return what + "; to work on it by hand, " + sequence(r.command("manage"), steps)
	case d.State == device.Manageable:
		return r.command("provide") + ", or " + steps
	case d.State == device.Allocated:
		return r.unbind() + ": the clean then starts by itself"
	case d.State == device.Available:
		return "none is needed: it is clean"
	case d.State == device.Cleaning && d.NamedSteps:
		return sequence(r.release(), "wait until its steps are done", r.command("provide"))
	case onHold(r.s):
		return r.command("release-hold") + ", or " + r.command("abort")
	case d.State == device.PendingCleaning, d.State == device.Cleaning:
		return "none is needed: it is being cleaned"
	}
	return r.reach("")
}

// override leads to a server that no other user of its pool may have.
func (r remedy) override() string {
	switch d := r.s.Device; {
	case r.taken():
		return anotherServer
	case d.State == device.Error && d.Maintenance == device.MaintenanceTaken:
		return r.command("manage") + ": it is cleaned as soon as the other user has left it"
	}
	return r.reach("")
}

// retire leads to a retired device.
func (r remedy) retire() string {
	retire := r.command("retire", "--reason R")
	switch s := r.s.Device.State; {
	case s == device.PendingCleaning && r.s.Device.AwaitingManualClean, s == device.Unknown:
		return retire
	}
	return r.reach(retire)
}

func (r remedy) withAnotherDriver() string {
	return sequence(r.command("retire", "--reason R"), r.command("forget")) +
		", and enroll it with a driver that can erase it"
}

// ifUnused comes before what gives a device of which nothing records who has it to the next
// tenant.
const ifUnused = "find out whether an instance uses it; if none does, "

// unbind ends the binding, once the instance no longer needs the device.
func (r remedy) unbind() string {
	if b := r.s.Device.Binding; b != nil {
		return "once its instance has ended, " + r.command("unbind", "--instance "+b.Instance)
	}
	return "wait until its instance has ended"
}

// reach leads to a device that nobody has and nothing is done to, and then to what follows it.
func (r remedy) reach(then string) string {
	d := r.s.Device
	clean := "wait until it is clean"
	switch {
	case d.Claim != nil:
		return sequence("wait until its bind has ended", then)
	case d.State == device.Allocated:
		return sequence(r.unbind(), clean, then)
	case d.Returning:
		return sequence("wait until it is available", then)
	case d.State == device.Cleaning && d.NamedSteps && !onHold(r.s):
		return sequence("wait until its steps are done", then)
	case d.State == device.PendingCleaning && d.AwaitingManualClean:
		return sequence(r.command("clean"), clean, then)
	case onHold(r.s):
		return sequence(r.command("abort"), then)
	case d.State == device.PendingCleaning, d.State == device.Cleaning:
		if then == "" {
			return clean + ", or " + r.command("abort")
		}
		return clean + ", or " + r.command("abort") + "; then " + then
	case d.State == device.Unknown && d.AwaitingManualClean:
		if then == "" {
			then = r.command("clean")
		}
		return ifUnused + then
	case d.State == device.Unknown:
		return sequence("wait until the inventory has been read", then)
	case d.State == device.Retired:
		return r.command("forget") + ", and enroll it again"
	}
	return then
}

// sequence joins what is done one after the other.
func sequence(parts ...string) string {
	var all []string
	for _, p := range parts {
		if p != "" {
			all = append(all, p)
		}
	}
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + ", then " + all[len(all)-1]
}
