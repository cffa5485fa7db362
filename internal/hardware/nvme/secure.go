package nvme

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
)

// notCovered lists, for the record, what is not checked (F20).
const notCovered = "not covered: boot partitions, RPMB, persistent memory region"

// Secure finds what a tenant left outside user data, before anything resets the drive;
// see hardware.SecurityCleaner and F20. It can be repeated.
func (h *handle) Secure(ctx context.Context, mayGoOn func() error) (string, error) {
	note, err := h.secure(ctx, mayGoOn)
	if f, ok := device.AsFault(err); ok && (f.Code == device.CodeSanitizeFailed || f.Code == device.CodeSanitizeRunning) {
		// A sanitize that failed or is running prevents this check, which then follows the
		// next sanitize. The drive refuses that sanitize while a namespace is write-protected.
		if _, also := h.unprotect(ctx, mayGoOn); also != nil {
			return "", also
		}
	}
	return note, err
}

func (h *handle) secure(ctx context.Context, mayGoOn func() error) (string, error) {
	var notes []string
	lock, err := h.c.checkOpal(ctx)
	if err != nil {
		return "", err
	}
	notes = append(notes, lock)
	if err := h.c.checkFirmware(ctx, h.enrolled); err != nil {
		return "", err
	}
	notes = append(notes, "firmware "+h.c.id.Firmware)
	restored, err := h.restoreFeatures(ctx, mayGoOn)
	if err != nil {
		return "", err
	}
	if len(restored) > 0 {
		notes = append(notes, "features restored: "+strings.Join(restored, " "))
	}
	forgotten, err := h.deleteMetadata(ctx, mayGoOn)
	if err != nil {
		return "", err
	}
	if forgotten > 0 {
		notes = append(notes, fmt.Sprintf("host metadata deleted: %d elements", forgotten))
	}
	ended, err := h.unprotect(ctx, mayGoOn)
	if err != nil {
		return "", err
	}
	if ended > 0 {
		notes = append(notes, fmt.Sprintf("write protection ended: %d namespaces", ended))
	}
	return strings.Join(append(notes, notCovered), "; "), nil
}

// checkOpal refuses a drive that somebody took ownership of by TCG Opal. A locked range
// cannot be erased, and the owner can lock it again.
func (c *controller) checkOpal(ctx context.Context) (string, error) {
	const securityCommands = 1 << 0 // OACS
	if c.id.OACS&securityCommands == 0 {
		return "no security commands", nil
	}
	found, known, err := askIfKnown(ctx, c, privileged.Request{Verb: privileged.OpalLevel0Discovery}, nvmecli.ParseLevel0)
	if err != nil {
		return "", err
	}
	if !known {
		return "no TCG", nil
	}
	if found.Enabled || found.Locked || found.ShadowMBR || found.Owned {
		return "", hardware.Refused(device.CodeSecurityLocked, "revert it with the PSID printed on its label (sedutil-cli "+
			"--yesIreallywanttoERASEALLmydatausingthePSID), then clean it",
			"the drive at %s is owned by TCG Opal (owner's password set %t, enabled %t, locked %t, shadow MBR %t)", c.Address,
			found.Owned, found.Enabled, found.Locked, found.ShadowMBR)
	}
	switch {
	case !found.Supported && !found.OwnerKnown:
		return "no TCG locking", nil
	case !found.OwnerKnown:
		return "TCG locking not enabled; the drive does not report whether somebody owns it", nil
	}
	return "TCG locking not enabled, not owned", nil
}

const (
	otherFirmwareRemedy  = "flash the vendor's firmware; if the present one is intended, replace the device by itself"
	stagedFirmwareRemedy = "commit the present slot again, or flash it, before anything resets the drive"
)

// checkFirmware refuses a drive that runs, or will run after its next reset, another
// firmware than the enrolled one.
func (c *controller) checkFirmware(ctx context.Context, enrolled device.Identity) error {
	if enrolled.Firmware != "" && c.id.Firmware != enrolled.Firmware && c.id.Firmware != c.reflashed {
		return hardware.Refused(device.CodeFirmwareChanged, otherFirmwareRemedy,
			"the drive at %s runs firmware %q, enrolled was %q", c.Address, c.id.Firmware, enrolled.Firmware)
	}
	slots, err := c.firmwareLog(ctx)
	if err != nil {
		return err
	}
	return c.checkStaged(slots)
}

// checkStaged refuses a drive whose next reset activates firmware that Burnish did not
// commit. A drive with one slot has it in the slot of the running one.
func (c *controller) checkStaged(slots nvmecli.Firmware) error {
	next := slots.Revisions[slots.Next]
	switch {
	case slots.Next == 0, next != "" && next == c.reflashed,
		slots.Next == slots.Active && (next == "" || next == c.id.Firmware):
		return nil
	}
	return hardware.Refused(device.CodeFirmwareChanged, stagedFirmwareRemedy,
		"the drive at %s has firmware %q staged in slot %d for its next reset", c.Address, next, slots.Next)
}

// firmwareLog reads which firmware is in which slot.
func (c *controller) firmwareLog(ctx context.Context) (nvmecli.Firmware, error) {
	return ask(ctx, c, privileged.Request{Verb: privileged.Firmware}, nvmecli.ParseFirmware)
}

// restoreFeatures sets saved features back to the drive's defaults. It skips a feature that
// the drive does not have or does not save.
func (h *handle) restoreFeatures(ctx context.Context, mayGoOn func() error) (restored []string, err error) {
	const saveAndSelect = 1 << 4 // ONCS
	if h.c.id.ONCS&saveAndSelect == 0 {
		return nil, nil
	}
	for _, feature := range privileged.Features() {
		want, hasDefault, err := h.c.readFeature(ctx, feature, privileged.DefaultFeature)
		if err != nil {
			return nil, err
		}
		have, saved, err := h.c.readFeature(ctx, feature, privileged.SavedFeature)
		if err != nil {
			return nil, err
		}
		if !hasDefault || !saved || have == want {
			continue
		}
		if err := h.change(ctx, mayGoOn,
			privileged.Request{Verb: privileged.SetFeature, Feature: feature, Value: want}); err != nil {
			return nil, err
		}
		if have, _, err = h.c.readFeature(ctx, feature, privileged.SavedFeature); err != nil {
			return nil, err
		}
		if have != want {
			return nil, hardware.Refused(device.CodeCommandRefused, "check the drive's features",
				"feature 0x%02x of the drive at %s stays 0x%x instead of 0x%x", feature, h.c.Address, have, want)
		}
		restored = append(restored, fmt.Sprintf("0x%02x", feature))
	}
	return restored, nil
}

// readFeature reads one value of a feature. known is false where the drive has none.
func (c *controller) readFeature(ctx context.Context, feature uint8,
	which privileged.Verb) (value uint32, known bool, err error) {
	return askIfKnown(ctx, c, privileged.Request{Verb: which, Feature: feature},
		func(output []byte) (uint32, error) { return binary.LittleEndian.Uint32(output), nil })
}

// deleteMetadata deletes what hosts wrote about themselves into the controller and its
// active namespaces. A deleted namespace's metadata disappears with it. A drive that does
// not support the feature answers with an error, and holds none.
func (h *handle) deleteMetadata(ctx context.Context, mayGoOn func() error) (forgotten int, err error) {
	active, err := h.c.listNamespaces(ctx, privileged.ActiveNamespaces)
	if err != nil {
		return 0, err
	}
	places := []privileged.Request{{Feature: privileged.EnhancedControllerMetadata},
		{Feature: privileged.ControllerMetadata}}
	for _, nsid := range active {
		places = append(places, privileged.Request{Feature: privileged.NamespaceMetadata, NSID: nsid})
	}
	for _, place := range places {
		types, err := h.c.readMetadata(ctx, place)
		if err != nil {
			return 0, err
		}
		for _, element := range types {
			r := place
			r.Verb, r.Element = privileged.DeleteMetadata, element
			if err := h.change(ctx, mayGoOn, r); err != nil {
				return 0, err
			}
			forgotten++
		}
		if len(types) == 0 {
			continue
		}
		if types, err = h.c.readMetadata(ctx, place); err != nil {
			return 0, err
		}
		if len(types) > 0 {
			return 0, hardware.Refused(device.CodeCommandRefused, "check the drive's features",
				"host metadata (feature 0x%02x) of the drive at %s cannot be deleted: types %v remain", place.Feature,
				h.c.Address, types)
		}
	}
	return forgotten, nil
}

// readMetadata gives the types of the elements that one feature holds.
func (c *controller) readMetadata(ctx context.Context, place privileged.Request) ([]uint8, error) {
	place.Verb = privileged.HostMetadata
	types, _, err := askIfKnown(ctx, c, place, nvmecli.ParseHostMetadata)
	return types, err
}

// unprotect ends the write protection of namespaces: it survives the tenant who set it, and
// the drive refuses a sanitize and zeroes because of it. It is the last check, because the
// kernel then rescans the disks, which it has shown as read-only until now.
func (h *handle) unprotect(ctx context.Context, mayGoOn func() error) (ended int, err error) {
	now, err := h.c.namespaces(ctx)
	if err != nil {
		return 0, err
	}
	for _, nsid := range now.writeProtected() {
		if !slices.Contains(now.active, nsid) { // features can only be set on attached namespaces
			if err := h.change(ctx, mayGoOn,
				privileged.Request{Verb: privileged.AttachNamespace, NSID: nsid, Controller: h.c.id.ID}); err != nil {
				return 0, err
			}
			if err := h.claim(ctx); err != nil {
				return 0, err
			}
		}
		err := h.change(ctx, mayGoOn, privileged.Request{Verb: privileged.Unprotect, NSID: nsid})
		if f, ok := device.AsFault(err); ok && f.Code == device.CodeCommandRefused {
			return 0, hardware.Refused(device.CodeWriteProtected, protectionRemedy,
				"the write protection of namespace %d of %s cannot be ended: %s", nsid, h.c.Address, f.Message)
		}
		if err != nil {
			return 0, err
		}
		ended++
	}
	if ended > 0 {
		if now, err = h.c.namespaces(ctx); err != nil {
			return 0, err
		}
		if still := now.writeProtected(); len(still) > 0 {
			return 0, hardware.Refused(device.CodeWriteProtected, protectionRemedy, "namespace %d of %s stays write-protected",
				still[0], h.c.Address)
		}
	}
	// An earlier run may have crashed before the kernel rescanned.
	if ended == 0 && !slices.ContainsFunc(h.parts, func(p part) bool { return p.readOnly }) {
		return 0, nil
	}
	if err := mayGoOn(); err != nil {
		return 0, err
	}
	if err := h.rescan(ctx); err != nil {
		return 0, err
	}
	// The rescan takes a while. A disk that stays read-only does not prevent a sanitize.
	return ended, hardware.Poll(ctx, h.c.timeout, func() (again bool, err error) {
		err = errors.Join(h.release(), h.claim(ctx))
		return err != nil || slices.ContainsFunc(h.parts, func(p part) bool { return p.readOnly }), err
	})
}

// protectionRemedy: a write protection may last until the next power cycle, or be
// permanent.
const protectionRemedy = "power-cycle the host, then clean the drive; if it is still protected, retire it"
