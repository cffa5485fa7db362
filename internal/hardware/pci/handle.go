package pci

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// The steps of this driver's devices. All but zero it carries out itself.
const (
	stepSecurity       = "security_check"
	stepZero           = "zero"
	stepErase          = "erase_device"
	stepVerify         = "verify"
	stepReflash        = "firmware_reflash"
	stepVerifyFirmware = "verify_firmware"
	stepReset          = "pci_reset"
	stepProperties     = "verify_properties"
)

// resetPriority is that of pci_reset for this driver: before what the device consists of is compared.
const resetPriority = 35

// handle is one opened device.
type handle struct {
	*card
	writable bool
	// memory is the device's, mapped; nil while it is not. Every function is unbound meanwhile.
	memory []byte
}

// supportedSteps are the steps that are for this device.
func (c *card) supportedSteps() ([]string, error) {
	all := []string{stepSecurity, stepProperties}
	if c.model.Memory.Size == 0 {
		all = append(all, stepErase, stepVerify)
	}
	images, err := c.policyImages()
	if err != nil {
		return nil, err
	}
	if images != nil {
		all = append(all, stepReflash, stepVerifyFirmware)
	}
	ways, err := c.resetWays()
	if err != nil {
		return nil, err
	}
	if len(ways) > 0 {
		all = append(all, stepReset)
	}
	return all, nil
}

// RunStep runs a step of the driver; see hardware.StepRunner.
func (h *handle) RunStep(ctx context.Context, run hardware.StepRun) (note string, err error) {
	steps := map[string]func(context.Context, hardware.StepRun) (string, error){
		stepSecurity: h.secure, stepErase: h.eraseByProgram, stepVerify: h.eraseByProgram, stepReflash: h.reflash,
		stepVerifyFirmware: h.verifyFirmware, stepReset: h.runReset, stepProperties: h.verifyProperties,
	}
	step, ok := steps[run.Step]
	if !ok {
		return "", hardware.Refused(device.CodeNoSuchStep, "choose another step", "the driver pci has no step %s for %s",
			run.Step, h.target.Name)
	}
	if reads := []string{stepVerify, stepVerifyFirmware}; !h.writable && !slices.Contains(reads, run.Step) {
		return "", hardware.CallerError("%s was opened for reading only, and %s would change it", h.target.Name, run.Step)
	}
	if err := run.MayGoOn(); err != nil {
		return "", err
	}
	if note, err = step(ctx, run); err != nil {
		return "", err
	}
	return note, h.settled(ctx)
}

// settled is Check once drivers were bound: an interface may take a moment to come after its driver.
func (h *handle) settled(ctx context.Context) error {
	return hardware.Poll(ctx, h.returns, func() (again bool, err error) {
		err = h.Check(ctx)
		f, ok := device.AsFault(err)
		return ok && f.Code == device.CodeTargetBusy, err
	})
}

// eraseByProgram has the operator's program erase the memory, or verify that. Of a model without memory
// it says no more than the policy does.
func (h *handle) eraseByProgram(ctx context.Context, run hardware.StepRun) (string, error) {
	if h.model.Memory.None {
		return fmt.Sprintf("nothing was erased and nothing read: by the policy %s has no memory", h.model.ID), nil
	}
	return h.host.Programs.Call(ctx, h.model.Memory.Script, run.Step, h.target, h.functions[0], h.enrolled.Serial,
		run.MayGoOn)
}

// Size is the size of the memory that is a BAR, else 0.
func (h *handle) Size() int64 { return h.model.Memory.Size }

// Unseen says which users of the device were not looked for; see hardware.UserSearcher.
func (h *handle) Unseen() string { return h.unseen }

// Method is the name of the driver.
func (h *handle) Method() string { return "pci" }

// Close gives up the memory and the configuration spaces, which releases the locks.
func (h *handle) Close() error {
	err := h.closeMemory()
	var closed error
	h.closeAndJoin(&closed)
	return errors.Join(err, closed)
}
