package pci

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
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
