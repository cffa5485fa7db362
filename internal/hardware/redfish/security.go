package redfish

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// leftover is something that waits for the next reset of the server: a tenant may have left it.
type leftover struct {
	what string
	// ways are the requests that may take it back.
	ways []*request
	code device.Code
}

// securityCheck finds what a tenant has left for the next reset, before anything resets the
// server (F20), and takes it back.
func (h *handle) securityCheck(ctx context.Context, run hardware.StepRun) (string, error) {
	removed, _, err := h.takeBack(ctx, run)
	if err != nil {
		return "", err
	}
	disarmed, err := h.disarm(ctx, run)
	if err != nil {
		return "", err
	}
	removed = append(removed, disarmed...)
	s, err := h.known(ctx)
	if err != nil {
		return "", err
	}
	note := "nothing waits for a reset"
	if len(removed) > 0 {
		note = "taken back: " + hardware.OneLine(strings.Join(removed, "; "))
	}
	if now := strings.TrimSpace(s.BiosVersion); h.enrolled.Firmware != "" && now != h.enrolled.Firmware {
		note += fmt.Sprintf("; the BIOS is %q, and was %q when the server was enrolled", now, h.enrolled.Firmware)
	}
	return note, nil
}

// disarm takes away what would boot something of a tenant's at the next start: a boot override, and media that
// were not inserted when the server was enrolled.
func (h *handle) disarm(ctx context.Context, run hardware.StepRun) ([]string, error) {
	enrolled, err := h.enrolledProperties()
	if err != nil {
		return nil, err
	}
	var c coverage
	for _, item := range setupItems() {
		if want := enrolled.Setup[item.name]; want != nil && item.boots {
			if err := h.restoreItem(ctx, run, item, want, &c); err != nil {
				return nil, err
			}
		}
	}
	return c.restored, nil
}

// takeBack takes back what waits for the next reset: BIOS settings that are pending, jobs, and
// firmware. What the BMC does not let it take back is the operator's. It waits for what is being
// written. The BIOS is as it was last read; nil: there is none to see.
func (h *handle) takeBack(ctx context.Context, run hardware.StepRun) (removed []string, is *biosState, err error) {
	refusedBefore, why := map[string]bool{}, ""
	var left *leftover
	err = h.until(ctx, run, h.driver.timing.post, func() (done bool, doing string, err error) {
		now, err := h.waitUntilNothingWrites(ctx, run, nil)
		if err != nil {
			return false, "", err
		}
		left, err = h.leftover(ctx, now)
		if left == nil || err != nil {
			is = now.bios
			return err == nil, "", err
		}
		left.ways = slices.DeleteFunc(left.ways, func(r *request) bool { return refusedBefore[r.Method+r.Path] })
		if len(left.ways) == 0 {
			return false, "",
				hardware.Refused(left.code, "take it back on the BMC, or reset the server by hand once; then clean the server",
					"%s waits for the next reset, and the BMC has no way to take it back%s", left.what, why)
		}
		way := left.ways[0]
		_, err = h.change(ctx, *way)
		switch r, isRefusal := asRefusal(err); {
		case err == nil:
			removed = append(removed, left.what)
		case isLost(err), mayBeAskedAgain(err): // look again
		case isRefusal && r.Status != http.StatusForbidden:
			refusedBefore[way.Method+way.Path], why = true, ": "+r.Error()
		default:
			return false, "", err
		}
		return false, "takes back " + left.what, nil
	}, func() error {
		return hardware.Refused(left.code, "take it back on the BMC, then clean the server",
			"%s waits for the next reset, and could not be taken back within %v", left.what, h.driver.timing.post)
	})
	return removed, is, err
}

// leftover finds the next thing that waits for a reset; nil: there is nothing.
func (h *handle) leftover(ctx context.Context, now *look) (*leftover, error) {
	for _, t := range now.tasks {
		if !t.waits || t.isAnothers(h.system) {
			continue // a reset of this server does not begin it, and it is not ours to delete
		}
		left := &leftover{what: "the task " + t.String(), code: device.CodeFirmwareChanged}
		if t.changesBIOS() {
			left.code = device.CodeBIOSJobWaiting
		}
		for _, path := range append(h.jobPaths(t), t.path) {
			left.ways = append(left.ways, &request{Method: http.MethodDelete, Path: path})
		}
		return left, nil
	}
	if left, err := h.pendingBIOS(ctx, now); left != nil || err != nil {
		return left, err
	}
	return nil, h.noFirmwareWaits(ctx, now)
}

// pendingBIOS finds BIOS settings that come into force at the next reset. They are taken back by
// the BMC's own action, or by wanting what is in force.
func (h *handle) pendingBIOS(ctx context.Context, now *look) (*leftover, error) {
	if now.system.Bios == "" {
		return nil, nil
	}
	state, err := h.readBIOSAfter(ctx, now.tasks)
	switch r, isRefusal := asRefusal(err); {
	case err == nil:
		now.bios = state
	case isRefusal && within(r.Path, string(now.system.Bios)) &&
		(r.Status == http.StatusNotFound || r.Status == http.StatusForbidden):
		return nil, nil // no BIOS to see, or no license for it: the steps for it say so
	case !isRefusal || state == nil || len(state.pending()) > 0: // which of them are settings, only the registry says
		return nil, err
	}
	pending := state.pending()
	if len(pending) == 0 {
		return nil, nil
	}
	left := &leftover{what: "pending BIOS settings (" + listed(pending.names()) + ")", code: device.CodeBIOSJobWaiting}
	inForce := attributes{}
	for name := range pending {
		if value, ok := state.bios.Attributes[name]; ok {
			inForce[name] = value
		}
	}
	if target := string(state.settingsBIOS.Actions.Oem.ClearPending.Target); target != "" {
		left.ways = append(left.ways, &request{Method: http.MethodPost, Path: target})
	} else if len(inForce) == len(pending) {
		left.ways = append(left.ways, state.patch(inForce))
	}
	return left, nil
}

// noFirmwareWaits refuses firmware that is staged in another way than by a task: no BMC takes it back.
func (h *handle) noFirmwareWaits(ctx context.Context, now *look) error {
	if now.service == nil {
		return nil
	}
	f, err := h.readFirmwareAfter(ctx, now.tasks, now.service)
	if err != nil {
		return err
	}
	return f.isQuiet()
}
