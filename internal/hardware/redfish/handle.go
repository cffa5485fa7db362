package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stmcginnis/gofish/redfish"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// handle is one opened server.
type handle struct {
	driver   *Driver
	target   hardware.Target
	bmc      *bmc
	system   string // its path on the BMC
	enrolled device.Identity
	writable bool
	// last is the system, and ended are the BMC's jobs that have ended, as last read.
	last  *system
	ended map[string]bool
	// registries are the BIOS attribute registries by name; nil: the BMC has none of that name.
	registries map[string]registry
	// patience is how long a read waits for a BMC that does not answer: a BMC restarts for minutes.
	// report records what is waited for; its error ends the waiting.
	patience time.Duration
	report   func(doing string) error
	// requests counts those of the step. basic: some had the password itself.
	requests int
	basic    bool
	// away counts how often the BMC did not answer.
	away int
	// lifted: this clean has lifted a lockdown.
	lifted bool
	// certificate is the digest of that which the BMC has shown last; "": it has shown none.
	certificate string
	// percent is how far the running step is. wasOn: it has found the server on. off: it, or an earlier attempt of
	// it, has switched such a server off.
	percent    int
	wasOn, off bool
	// busyPatience is how long a change of the power state waits for what it would
	// interrupt.
	busyPatience time.Duration
	// resetRefusal is why the last reset may have done nothing, as the end of a message.
	resetRefusal string
}

// step is one step of a server. It returns one line for the record.
type step func(h *handle, ctx context.Context, run hardware.StepRun) (note string, err error)

// allSteps are the steps of a server, in the order in which a clean runs them. readOnly ones
// send nothing that changes something; asFound ones switch a server off again that was off. All but
// the readOnly ones lift a lockdown, and set it again.
func allSteps() []namedStep {
	return []namedStep{
		{name: "security_check", run: (*handle).securityCheck},
		{name: "erase_drives", run: (*handle).eraseDrives},
		{name: "verify", run: (*handle).verifyDrives, readOnly: true},
		{name: "firmware_reflash", run: (*handle).reflash},
		{name: "verify_firmware", run: (*handle).verifyFirmware, readOnly: true},
		{name: "bios_reset", run: (*handle).runBIOSReset, asFound: true},
		{name: stepBootRestore, run: (*handle).restoreWithRestart, asFound: true},
		{name: stepSecureBootRestore, run: (*handle).restoreWithRestart, asFound: true},
		{name: stepTPMClear, run: (*handle).restoreWithRestart, asFound: true},
		{name: "bios_apply", run: (*handle).runBIOSApply, asFound: true},
		{name: stepBMCReset, run: (*handle).resetBMC},
		{name: stepBMCRestore, run: (*handle).restoreBMC},
		{name: "verify_properties", run: (*handle).verifyProperties, asFound: true},
	}
}

type namedStep struct {
	name              string
	run               step
	readOnly, asFound bool
}

// The steps that bring back how the server was set up.
const (
	stepBootRestore       = "boot_restore"
	stepSecureBootRestore = "secure_boot_restore"
	stepTPMClear          = "tpm_clear"
	stepBMCReset          = "bmc_reset"
	stepBMCRestore        = "bmc_restore"
)

func steps() []string {
	var names []string
	for _, s := range allSteps() {
		names = append(names, s.name)
	}
	return names
}

// RunStep runs one step of the server; see hardware.StepRunner. A server that was on when the
// step began and that the step switched off is switched on again when the step fails.
func (h *handle) RunStep(ctx context.Context, run hardware.StepRun) (note string, err error) {
	all := allSteps()
	i := slices.IndexFunc(all, func(s namedStep) bool { return s.name == run.Step })
	if i < 0 {
		return "", hardware.Refused(device.CodeNoSuchStep, "name another step", "the driver redfish has no step %s", run.Step)
	}
	if !all[i].readOnly && !h.writable {
		return "", hardware.CallerError("%s was opened for reading only, and %s would change it", h.target.Name, run.Step)
	}
	if err := run.MayGoOn(); err != nil {
		return "", err
	}
	h.percent, h.requests, h.basic = 0, 0, false
	h.patience, h.report = h.driver.timing.restart, func(doing string) error { return run.Progress(h.percent, doing) }
	h.busyPatience = h.driver.timing.post
	defer func() { h.patience, h.report, h.busyPatience = h.driver.timing.look, nil, 0 }()
	var found redfish.PowerState
	if all[i].readOnly {
		note, err = all[i].run(h, ctx, run)
	} else if found, err = h.foundPower(ctx, run, all[i].asFound); err == nil {
		note, err = h.unlocked(ctx, run, all[i].run)
	}
	if err == nil && all[i].asFound && found == redfish.OffPowerState {
		err = h.powerOff(ctx, run)
	}
	if err != nil {
		// The step's own fault is the first one that is found in the two.
		return "", errors.Join(refused(err), h.switchOnAgain(ctx, run))
	}
	if err := h.Check(ctx); err != nil {
		return "", err
	}
	note += fmt.Sprintf("; %d requests", h.requests)
	if h.basic {
		note += ", with HTTP Basic: the BMC's session table was full"
	}
	return note, nil
}

// foundPower is the power state in which the first attempt of the step has found the server, once it was settled
// where it must be. It is journaled.
func (h *handle) foundPower(ctx context.Context, run hardware.StepRun,
	settled bool) (found redfish.PowerState, err error) {
	now, err := h.known(ctx) // Open has just read it
	if err == nil && settled && !now.powerSettled() {
		now, err = h.readOnceSettled(ctx, run)
	}
	if err != nil {
		return "", err
	}
	name := "found " + run.Step
	known, err := run.Load(name, &found)
	if err == nil && !known {
		found = now.PowerState
		err = run.Save(name, found)
	}
	h.wasOn = found == redfish.OnPowerState
	h.off = h.wasOn && now.PowerState != redfish.OnPowerState
	return found, err
}

// progress records how far the step is.
func (h *handle) progress(run hardware.StepRun, percent int, doing string) error {
	h.percent = percent
	return run.Progress(percent, doing)
}

// Check proves that the BMC manages the enrolled server.
func (h *handle) Check(ctx context.Context) error { return h.notFound(h.verify(ctx)) }

// notFound is the fault of a system that the BMC does not have.
func (h *handle) notFound(err error) error {
	if hasStatus(err, http.StatusNotFound) {
		return hardware.Missing("the BMC %s has no system %s", h.bmc.base.Host, h.system)
	}
	return refused(err)
}

// errNoBytes: a BMC cannot read or write a drive's blocks.
var errNoBytes = errors.New("the driver redfish cannot address the bytes of a drive")

// Size is 0: the server's bytes are not addressed.
func (h *handle) Size() int64 { return 0 }

// Method is the name of the driver. What only the controller says, the notes of the steps name
// as such.
func (h *handle) Method() string { return "redfish" }

// ZeroAt, ReadAt and Flush are not supported.
func (h *handle) ZeroAt(context.Context, int64, int64) error { return errNoBytes }

func (h *handle) ReadAt([]byte, int64) (int, error) { return 0, errNoBytes }

func (h *handle) Flush(context.Context) error { return nil }

// Close logs out, unless another step on this worker uses the session.
func (h *handle) Close() error { return h.bmc.release() }

func (h *handle) closeAndJoin(err *error) { *err = errors.Join(*err, h.Close()) }
