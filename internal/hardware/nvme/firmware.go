package nvme

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
)

// The steps that the driver carries out itself, on drives that can be updated.
const (
	stepReflash        = "firmware_reflash"
	stepVerifyFirmware = "verify_firmware"
)

// updatesFirmware: the drive takes downloads and commits of firmware.
func (c *controller) updatesFirmware() bool {
	const downloadAndCommit = 1 << 2 // OACS
	return c.id.OACS&downloadAndCommit != 0
}

// imageOf reads the arguments of both steps.
func imageOf(run hardware.StepRun) (hardware.FirmwareImage, error) {
	want, err := hardware.OnlyFirmwareImage(run.Step, run.Args)
	if err == nil && want.Rewrite != "" {
		err = hardware.WrongFirmwarePolicy(run.Step, "rewrite: %s is for the driver pci", want.Rewrite)
	}
	return want, err
}

// RunStep runs a step of the driver; see hardware.StepRunner.
func (h *handle) RunStep(ctx context.Context, run hardware.StepRun) (string, error) {
	if run.Step != stepReflash && run.Step != stepVerifyFirmware || !h.c.updatesFirmware() {
		return "", hardware.Refused(device.CodeNoSuchStep, "choose another step", "the drive at %s has no step %s",
			h.c.Address, run.Step)
	}
	want, err := imageOf(run)
	if err != nil {
		return "", err
	}
	if err := run.MayGoOn(); err != nil {
		return "", err
	}
	if err := h.c.verifyIdentity(ctx, h.enrolled); err != nil {
		return "", err
	}
	if run.Step == stepVerifyFirmware {
		return h.verifyFirmware(ctx, want)
	}
	r := &reflash{handle: h, run: run, want: want}
	return r.do(ctx)
}

// verifyFirmware proves that the drive runs the policy's firmware, has none staged, and is
// healthy.
func (h *handle) verifyFirmware(ctx context.Context, want hardware.FirmwareImage) (string, error) {
	if running := h.c.id.Firmware; running != want.To {
		return "", hardware.FirmwareNotActive("the drive at %s runs firmware %q, the policy demands %q", h.c.Address, running,
			want.To)
	}
	slots, err := h.c.firmwareLog(ctx)
	if err != nil {
		return "", err
	}
	if err := h.c.checkStaged(slots); err != nil {
		return "", err
	}
	return fmt.Sprintf("it runs firmware %s, as the policy demands", want.To), h.checkHealthy(ctx)
}

// checkHealthy refuses a drive that reports a critical warning, other than its temperature.
func (h *handle) checkHealthy(ctx context.Context) error {
	now, err := h.Health(ctx)
	if err != nil {
		return err
	}
	const temperature = 1 << 1
	if now.Critical&^temperature != 0 {
		return hardware.Refused(device.CodeStepFailed,
			"examine the drive with nvme smart-log; retire it if the warning stays",
			"the drive at %s runs firmware %q and reports the critical warning 0x%02x", h.c.Address, h.c.id.Firmware,
			now.Critical)
	}
	return nil
}

// The stages of an update, as they are saved.
const (
	committing = "committing" // the commit may have been sent
	committed  = "committed"  // the drive accepted it
	notDone    = "not_done"   // it did not take place
)

// update is what is saved about the update of one drive, before and after its commit.
type update struct {
	Stage  string `json:"stage"`
	From   string `json:"from"`
	To     string `json:"to"`
	SHA256 string `json:"sha256"`
	// Slot is the one that the commit replaces. Before is what the slots had before it.
	Slot   int              `json:"slot"`
	Before nvmecli.Firmware `json:"before"`
	// Commits is how many commits this clean may have sent.
	Commits int `json:"commits"`
	// Status is the drive's answer, if it is known.
	Status *nvmecli.Status `json:"status,omitempty"`
}

// updateName is the name that it is saved under.
const updateName = "nvme_firmware"

// maxCommits is how many commits one clean sends to a drive, with a read between them.
const maxCommits = 2

// reflash is one run of firmware_reflash.
type reflash struct {
	*handle
	run  hardware.StepRun
	want hardware.FirmwareImage
	update
	// resets names the resets that this run did.
	resets []string
}

// do brings the drive to the policy's version. A run after a crash reads the running version
// and the slots before it sends anything: a commit is never repeated blindly.
func (r *reflash) do(ctx context.Context) (string, error) {
	resumed, err := r.run.Load(updateName, &r.update)
	if err != nil {
		return "", err
	}
	if resumed && (r.To != r.want.To || r.SHA256 != r.want.SHA256) {
		resumed, r.update = false, update{} // it was about another image
	}
	if r.c.id.Firmware == r.want.To {
		if resumed {
			return r.finish(ctx)
		}
		if r.c.reflashed == r.want.To {
			if err := r.run.Reflash(r.want.To); err != nil {
				return "", err
			}
		}
		return "it runs firmware " + r.want.To + " already", nil
	}
	slots, err := r.c.firmwareLog(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case resumed && r.Stage == committing:
		if err := r.settle(slots); err != nil {
			return "", err
		}
	case !resumed && r.ours(slots):
		// An earlier clean committed it, and its answer is not known any more.
		r.update = update{Stage: committed, From: r.c.id.Firmware, To: r.want.To, SHA256: r.want.SHA256, Slot: slots.Next,
			Before: slots}
	}
	if r.Stage != committed {
		if err := r.write(ctx, slots); err != nil {
			return "", err
		}
	}
	if err := r.activate(ctx); err != nil {
		return "", err
	}
	return r.finish(ctx)
}

// ours: the image is staged, and this host recorded that Burnish commits it.
func (r *reflash) ours(slots nvmecli.Firmware) bool {
	return r.c.reflashed == r.want.To && slots.Next != 0 && slots.Revisions[slots.Next] == r.want.To
}

// settle finds out by reading whether a commit took place whose answer an earlier attempt lost. The command
// has ended: whoever sent it held the device's fence.
func (r *reflash) settle(slots nvmecli.Firmware) error {
	before, now := r.Before.Revisions[r.Slot], slots.Revisions[r.Slot]
	switch {
	case now == r.To && (slots.Next == r.Slot || slots.Next == 0 && before != r.To):
		r.Stage = committed
		return nil
	case before != r.To && same(slots, r.Before):
		r.Stage = notDone
		return nil
	}
	return r.unknown(slots)
}

// unknown is the fault of a commit whose answer was lost, and that reading does not settle.
func (r *reflash) unknown(slots nvmecli.Firmware) error {
	return hardware.Refused(device.CodeFirmwareUnknown,
		"examine it with nvme fw-log and nvme id-ctrl, finish the update by hand, then clean it",
		"the answer to a commit of firmware %q was lost, %d were sent, and the drive at %s does not say that it took "+
			"place: it runs %q, slot %d has %q, slot %d is next",
		r.To, r.Commits, r.c.Address, r.c.id.Firmware, r.Slot, slots.Revisions[r.Slot], slots.Next)
}

func same(a, b nvmecli.Firmware) bool {
	return a.Active == b.Active && a.Next == b.Next && maps.Equal(a.Revisions, b.Revisions)
}

// write downloads the image and commits it. slots was read just now.
func (r *reflash) write(ctx context.Context, slots nvmecli.Firmware) error {
	running := r.c.id.Firmware
	if r.Commits >= maxCommits {
		return r.unknown(slots)
	}
	if err := r.want.CheckFrom("the drive at "+r.c.Address, running); err != nil {
		return err
	}
	if err := r.c.checkStaged(slots); err != nil {
		return err
	}
	if r.c.noReset {
		return hardware.Refused(device.CodeInvalidSetting,
			"enroll it without --set reset=no, or take it out of the firmware policy",
			"new firmware runs after a reset, and the drive at %s is enrolled with reset=no", r.c.Address)
	}
	slot, err := r.chooseSlot(slots)
	if err != nil {
		return err
	}
	if err := r.download(ctx); err != nil {
		return err
	}
	if err := r.run.Progress(50, fmt.Sprintf("committing firmware %s to slot %d", r.want.To, slot)); err != nil {
		return err
	}
	r.update = update{Stage: committing, From: running, To: r.want.To, SHA256: r.want.SHA256, Slot: slot, Before: slots,
		Commits: r.Commits + 1}
	if err := r.run.Reflash(r.To); err != nil {
		return err
	}
	if err := r.save(); err != nil {
		return err
	}
	r.c.reflashed = r.To
	return r.commit(ctx)
}

func (r *reflash) save() error { return r.run.Save(updateName, r.update) }

// chooseSlot chooses the slot to replace: never that of the running firmware if another one
// can be written; of these one that has this version already, else an empty one.
func (r *reflash) chooseSlot(slots nvmecli.Firmware) (int, error) {
	const firstIsReadOnly = 1 << 0 // FRMW
	count := int(r.c.id.FirmwareSlots >> 1 & 7)
	best, bestRank := 0, 0
	for slot := 1; slot <= count; slot++ {
		rank := 2
		switch revision := slots.Revisions[slot]; {
		case slot == 1 && r.c.id.FirmwareSlots&firstIsReadOnly != 0:
			continue
		case slot == slots.Active:
			rank = 1
		case revision == r.want.To:
			rank = 4
		case revision == "":
			rank = 3
		}
		if rank > bestRank {
			best, bestRank = slot, rank
		}
	}
	if best == 0 {
		return 0, hardware.Refused(device.CodeCommandRefused,
			"update it with the vendor's tool, or take it out of the firmware policy",
			"the drive at %s has no firmware slot that can be written (FRMW 0x%02x)", r.c.Address, r.c.id.FirmwareSlots)
	}
	return best, nil
}

// download sends the image from its start. What an earlier run sent is lost by that.
func (r *reflash) download(ctx context.Context) (err error) {
	if err := r.run.Progress(0, "downloading firmware "+r.want.To); err != nil {
		return err
	}
	file, digest, err := privileged.LoadImage(r.want.Path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	if hex.EncodeToString(digest[:]) != r.want.SHA256 {
		return hardware.InvalidImage("the image %s has the SHA-256 %x, the policy names %s", r.want.Path, digest,
			r.want.SHA256)
	}
	unit := uint32(r.c.id.FirmwareUnit)
	if unit == 0 || unit == 0xff {
		unit = 1
	}
	err = r.send(ctx, r.run.MayGoOn,
		privileged.Request{Verb: privileged.DownloadFirmware, Digest: digest, Transfer: unit * privileged.MinTransfer}, file)
	return r.refusal(err)
}

// commit sends the commit. If the drive does not answer, the next attempt reads what became of it.
func (r *reflash) commit(ctx context.Context) error {
	err := r.send(ctx, r.run.MayGoOn, privileged.Request{Verb: privileged.CommitFirmware, Slot: uint8(r.Slot)}, nil)
	status, answered := privileged.StatusOf(err)
	switch {
	case err == nil, answered && needsReset(status):
		r.Stage, r.Status = committed, &status
		return r.save()
	case answered:
		r.Stage, r.Status = notDone, &status
		if saved := r.save(); saved != nil {
			return saved
		}
		return r.refusal(err)
	}
	return forTheNextAttempt(err)
}

// forTheNextAttempt is the error of a command whose answer is lost, or of a drive that is not there as it was
// opened. The next attempt opens it under the number that it has then, and reads how far it is.
func forTheNextAttempt(err error) error {
	f, ok := device.AsFault(asFault(err))
	if !ok || f.Code != device.CodeIO && f.Code != device.CodeTargetMissing {
		return err
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeIO, Message: f.Message,
		Remedy: "none: Burnish reads what became of it"}
}

// needsReset: the commit succeeded, and the image runs after a reset.
func needsReset(s nvmecli.Status) bool {
	return s == nvmecli.StatusNeedsReset || s == nvmecli.StatusNeedsSubsystemReset ||
		s == nvmecli.StatusNeedsControllerReset
}

// refusal is the fault of a download or a commit that the drive refused.
func (r *reflash) refusal(err error) error {
	status, answered := privileged.StatusOf(err)
	if !answered {
		return asFault(err)
	}
	const byHand = "update it with the vendor's tool, or take it out of the firmware policy"
	switch status {
	case nvmecli.StatusSanitizeInProgress, nvmecli.StatusSanitizeFailed:
		return asFault(err)
	case nvmecli.StatusInvalidFirmwareImage:
		return hardware.Refused(device.CodeFirmwareImage,
			"put the image for this model on the host, or correct the firmware policy; then clean it",
			"the drive at %s refuses the image %s: it is invalid, or not complete (status 0x%x)", r.c.Address, r.want.Path,
			uint16(status))
	case nvmecli.StatusTimeViolation, nvmecli.StatusActivationProhibited:
		return hardware.Refused(device.CodeFirmwareNotActive, byHand,
			"the drive at %s does not activate firmware %q (status 0x%x)", r.c.Address, r.want.To, uint16(status))
	}
	return hardware.Refused(device.CodeCommandRefused, byHand, "the drive at %s refuses the update to firmware %q: %v",
		r.c.Address, r.want.To, err)
}
