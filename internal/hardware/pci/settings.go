package pci

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// secure removes what a tenant left outside of the memory, and puts back the settings of the
// enrollment. A second run finds what is left.
func (h *handle) secure(ctx context.Context, run hardware.StepRun) (string, error) {
	var did []string
	for i := range h.functions {
		f := &h.functions[i]
		if len(f.Functions) == 0 {
			continue
		}
		if err := h.set(ctx, f, "sriov_numvfs", "0"); err != nil {
			return "", err
		}
		did = append(did, fmt.Sprintf("%d virtual functions removed", len(f.Functions)))
	}
	if err := h.attach(ctx, h.enrolled); err != nil {
		return "", err
	}
	ports, err := h.ports(ctx)
	if err != nil {
		return "", err
	}
	for handle, p := range ports {
		if p.Flavour == subFunction {
			if err := h.change(ctx, nil, "devlink", "port", "del", handle); err != nil {
				return "", err
			}
			did = append(did, "sub-function "+handle+" removed")
		}
	}
	put, left, err := h.putBack(ctx, run)
	if err != nil {
		return "", err
	}
	if len(left) > 0 {
		return "", hardware.Refused(device.CodePropertiesMismatch, "put it back by hand, then clean "+h.target.Name,
			"settings of %s do not take their values of the enrollment: %s", h.functions[0].Address, listed(left))
	}
	if did = append(did, put...); len(did) == 0 {
		did = []string{"nothing to put back"}
	}
	changed, err := h.checkFirmware(ctx)
	return strings.Join(append(did, changed...), "; "), err
}

// putBack gives each setting its value of the enrollment, and says which it changed, and which have
// another one still.
func (h *handle) putBack(ctx context.Context, run hardware.StepRun) (put []string, left []difference, err error) {
	recorded, err := recordedFacts(h.enrolled)
	if err != nil {
		return nil, nil, err
	}
	// One setting may bring others along: an embedded switch has parameters of its own.
	const rounds = 3
	for range rounds {
		now, err := h.facts(ctx)
		if err != nil {
			return nil, nil, err
		}
		left, _ = differences(recorded, now)
		left = slices.DeleteFunc(left, func(d difference) bool { return !isSetting(d.key) })
		if len(left) == 0 {
			break
		}
		reload := map[string]bool{}
		for _, d := range left {
			if d.set == nil || d.was == "" {
				continue // it is not there any more, or was not
			}
			if err := run.MayGoOn(); err != nil {
				return nil, nil, err
			}
			command := d.set(d.was)
			if err := h.change(ctx, nil, command[0], command[1:]...); err != nil {
				return nil, nil, err
			}
			put = append(put, d.key)
			if d.reload != "" {
				reload[d.reload] = true
			}
		}
		for instance := range reload {
			if err := h.change(ctx, nil, "devlink", "dev", "reload", instance); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(put) > 0 {
		slices.Sort(put)
		put = []string{"put back " + strings.Join(slices.Compact(put), ", ")}
	}
	return put, left, nil
}

// verifyProperties proves that the device consists of what it consisted of at the enrollment, and is set
// as it was.
func (h *handle) verifyProperties(ctx context.Context, run hardware.StepRun) (string, error) {
	if run.Args != nil {
		return "", hardware.Invalid("a profile of the policy (properties) is for servers, not for %s", h.target.Name)
	}
	recorded, err := recordedFacts(h.enrolled)
	if err != nil {
		return "", err
	}
	if err := h.attach(ctx, h.enrolled); err != nil {
		return "", err
	}
	now, err := h.facts(ctx)
	if err != nil {
		return "", err
	}
	differ, notCompared := differences(recorded, now)
	if len(differ) > 0 {
		return "", hardware.Refused(device.CodePropertiesMismatch,
			"find out what changed it; if it is intended, replace the device by itself",
			"%s is not what was enrolled: %s", h.functions[0].Address, listed(differ))
	}
	note := fmt.Sprintf("%d facts as at the enrollment", len(now)-len(notCompared))
	if len(notCompared) > 0 {
		note += "; not compared, because nothing was recorded: " + strings.Join(notCompared, ", ")
	}
	return note, nil
}

// listed names the first differences.
func listed(all []difference) string {
	const most = 8
	var words []string
	for _, d := range all[:min(len(all), most)] {
		words = append(words, d.String())
	}
	if len(all) > most {
		words = append(words, fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(words, "; ")
}
