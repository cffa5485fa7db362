package redfish

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// verifyDrives checks the evidence of this clean's erases; see provenErases. Redfish cannot
// read a block: a controller that says that it has erased a drive, and has not, is believed.
func (h *handle) verifyDrives(ctx context.Context, run hardware.StepRun) (string, error) {
	s, err := h.c.readSystem(ctx, h.system)
	if err != nil {
		return "", err
	}
	if s.PowerState == redfish.OffPowerState {
		return "", h.checkReady(s) // nothing is changed here, the power neither
	}
	if err := h.waitForPOST(ctx, run, postWait{}); err != nil {
		return "", err
	}
	return h.provenErases(ctx, run)
}

// provenErases proves, as far as a BMC can, that each enrolled drive is there and was erased by
// this clean, and that nothing is left to be done to one. Faults: drives_changed, verify_failed.
func (h *handle) provenErases(ctx context.Context, run hardware.StepRun) (string, error) {
	var journal eraseJournal
	if _, err := run.Load(eraseEvidence, &journal); err != nil {
		return "", err
	}
	enrolled, err := device.ParseProperties(h.enrolled.Properties)
	if err != nil {
		return "", err
	}
	present, err := h.drives(ctx)
	if err != nil {
		return "", err
	}
	if err := compareDrives(enrolled.Drives, present); err != nil {
		return "", err
	}
	all, err := h.c.tasks(ctx)
	if err != nil {
		return "", err
	}
	var said []string
	for _, d := range present {
		r := journal.Drives[d.Serial]
		if r == nil || r.State != eraseDone {
			return "", notErased(d, "this host has no record that this clean has erased it")
		}
		if doing := d.operation(); doing != nil {
			return "", notErased(d, "it is busy: %s, %d %%", doing.OperationName, doing.PercentageComplete)
		}
		if wrong := d.unhealthy(); wrong != "" {
			return "", notErased(d, "%s", wrong)
		}
		r.drive = d
		if i := slices.IndexFunc(all, func(t *task) bool { return t.active() && r.isFor(t) }); i >= 0 {
			return "", notErased(d, "the task %s is %s", all[i].path, all[i].TaskState)
		}
		said = append(said, r.String())
	}
	return fmt.Sprintf("by the controller's word: %d drives erased: %s", len(present), strings.Join(said, ", ")), nil
}

// String is a drive's erase in a few words, for the record of the clean, which the device's
// workflow keeps: a server may have many drives.
func (r *eraseRecord) String() string {
	if r.Sanitization == "" {
		return r.drive.Serial
	}
	return r.drive.Serial + " " + r.Sanitization
}

func notErased(d *drive, format string, args ...any) error {
	return hardware.Refused(device.CodeVerifyFailed, "clean the server again; if it fails again, see the drive on the BMC",
		"the drive %s is not proved to be erased: %s", d.Serial, fmt.Sprintf(format, args...))
}
