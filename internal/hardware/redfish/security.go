package redfish

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// leftover is something that waits for the next reset of the server: a tenant may have left it.
type leftover struct {
	what string
	// remove takes it back; nil: the BMC has no way to.
	remove *request
	code   device.Code
}

// securityCheck finds what a tenant has left for the next reset, before anything resets the
// server (F20): BIOS settings that are pending, jobs, and firmware. What the BMC lets it take
// back it takes back; the rest is the operator's. It waits for what is being written.
func (h *handle) securityCheck(ctx context.Context, run hardware.StepRun) (string, error) {
	if err := h.waitUntilNothingWrites(ctx, run); err != nil {
		return "", err
	}
	var removed []string
	waiting := h.c.bmc.timing.wait(h.c.bmc.timing.post)
	defer waiting.stop()
	refusedBefore, why := map[string]bool{}, ""
	for {
		left, err := h.leftover(ctx, refusedBefore)
		if err != nil {
			return "", err
		}
		if left == nil {
			return h.securityNote(ctx, removed)
		}
		if left.remove == nil {
			return "",
				hardware.Refused(left.code, "take it back on the BMC, or reset the server by hand once; then clean the server",
					"%s waits for the next reset, and the BMC has no way to take it back%s", left.what, why)
		}
		if err := h.progress(run, 0, "takes back "+left.what); err != nil {
			return "", err
		}
		_, err = h.change(ctx, *left.remove)
		switch r, isRefusal := asRefusal(err); {
		case err == nil:
			removed = append(removed, left.what)
		case isLost(err), inPOST(err), isRefusal && mayPass(err): // look again
		case isRefusal && r.Status != http.StatusForbidden:
			refusedBefore[left.remove.Method+left.remove.Path], why = true, ": "+r.Error()
		default:
			return "", err
		}
		if again, err := waiting.next(ctx, retryAfter(err)); err != nil {
			return "", err
		} else if !again {
			return "", hardware.Refused(left.code, "take it back on the BMC, then clean the server",
				"%s waits for the next reset, and could not be taken back within %v", left.what, h.c.bmc.timing.post)
		}
	}
}

// leftover finds the next thing that waits for a reset, and how it is taken back in a way that
// the BMC has not refused yet; nil: there is nothing.
func (h *handle) leftover(ctx context.Context, refusedBefore map[string]bool) (*leftover, error) {
	s, err := h.c.readSystem(ctx, h.system)
	if err != nil {
		return nil, err
	}
	way := func(ways ...*request) *request {
		for _, r := range ways {
			if r != nil && !refusedBefore[r.Method+r.Path] {
				return r
			}
		}
		return nil
	}
	all, err := h.c.tasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all {
		if !t.active() {
			continue
		}
		waits, err := h.isScheduled(ctx, s, t)
		if err != nil {
			return nil, err
		}
		if !waits {
			continue
		}
		code := device.CodeFirmwareChanged
		if t.changesBIOS() {
			code = device.CodeBIOSJobWaiting
		}
		ways := append(h.jobsOf(s, t), &request{Method: http.MethodDelete, Path: t.path})
		return &leftover{what: fmt.Sprintf("the task %s (%s)", path.Base(strings.TrimSuffix(t.path, "/")),
			hardware.OneLine(t.Name)), remove: way(ways...), code: code}, nil
	}
	if left, err := h.pendingBIOS(ctx, s, way); left != nil || err != nil {
		return left, err
	}
	return h.stagedFirmware(ctx)
}

// jobsOf are the requests that delete an iDRAC's job of a task.
func (h *handle) jobsOf(s *system, t *task) []*request {
	var ways []*request
	job := path.Base(strings.TrimSuffix(t.path, "/"))
	if !strings.HasPrefix(job, "JID_") {
		return nil
	}
	for _, link := range s.Links.ManagedBy {
		if manager := strings.TrimSuffix(string(link), "/"); manager != "" {
			ways = append(ways, &request{Method: http.MethodDelete, Path: manager + "/Jobs/" + job},
				&request{Method: http.MethodDelete, Path: manager + "/Oem/Dell/Jobs/" + job})
		}
	}
	return ways
}

// pendingBIOS finds BIOS settings that come into force at the next reset. They are taken back by
// the BMC's own action, or by wanting what is in force.
func (h *handle) pendingBIOS(ctx context.Context, s *system, way func(...*request) *request) (*leftover, error) {
	if s.Bios == "" {
		return nil, nil
	}
	state, err := h.readBIOS(ctx, nil)
	if r, ok := asRefusal(err); ok && (r.Status == http.StatusNotFound || r.Status == http.StatusForbidden) {
		return nil, nil // no BIOS to see, or no license for it: the steps for it say so
	}
	if err != nil {
		return nil, err
	}
	pending := state.pending()
	if len(pending) == 0 {
		return nil, nil
	}
	inForce := attributes{}
	for name := range pending {
		if value, ok := state.bios.Attributes[name]; ok {
			inForce[name] = value
		}
	}
	var clearing *request
	if target := string(state.settingsBIOS.Actions.Oem.ClearPending.Target); target != "" {
		clearing = &request{Method: http.MethodPost, Path: target}
	}
	var back *request
	if len(inForce) == len(pending) && clearing == nil {
		back = state.patch(inForce)
	}
	return &leftover{what: "pending BIOS settings (" + listed(pending.names()) + ")", remove: way(clearing, back),
		code: device.CodeBIOSJobWaiting}, nil
}

// stagedFirmware finds firmware that is staged in another way than by a task. No BMC takes it
// back.
func (h *handle) stagedFirmware(ctx context.Context) (*leftover, error) {
	service, err := h.readUpdateService(ctx)
	if r, ok := asRefusal(err); ok && (r.Status == http.StatusNotFound || r.Status == http.StatusForbidden) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := h.inventory(ctx, service)
	if err != nil {
		return nil, err
	}
	running, staged, err := h.updates(ctx, service, all)
	switch {
	case err != nil:
		return nil, err
	case running != "":
		return nil, hardware.Busy("%s: firmware is being written", running)
	case staged != "":
		return &leftover{what: "firmware: " + staged, code: device.CodeFirmwareChanged}, nil
	}
	return nil, nil
}

// securityNote says what was found, and whether the BIOS is another than the enrolled one.
func (h *handle) securityNote(ctx context.Context, removed []string) (string, error) {
	s, err := h.c.readSystem(ctx, h.system)
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
