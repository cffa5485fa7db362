package redfish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// updatePhase is how far the update of a component is. "" is not begun.
type updatePhase string

const (
	// updateSending: the image is being sent. The BMC has not got its end, so that it cannot
	// have begun.
	updateSending updatePhase = "sending"
	// updateSent: the request was sent, or its last bytes are about to be. Without an answer,
	// reading shows what has come of it.
	updateSent updatePhase = "sent"
	// updateAccepted: the BMC has accepted it.
	updateAccepted updatePhase = "accepted"
	// updateDone: the BMC has ended its work, but for a reset.
	updateDone updatePhase = "done"
)

// The ways in which a BMC gets the image.
const (
	wayPushed = "pushed"
	wayServed = "served"
)

// update is the update of one component, in the journal of the clean.
type update struct {
	work
	Phase  updatePhase `json:"phase,omitempty"`
	From   string      `json:"from,omitempty"`
	To     string      `json:"to,omitempty"`
	SHA256 string      `json:"sha256,omitempty"`
	// Way is how the image was given.
	Way string `json:"way,omitempty"`
	// Starting: the request is the StartUpdate after an upload.
	Starting bool `json:"starting,omitempty"`
	// Before are the tasks that there were before the request.
	Before []string `json:"before,omitempty"`
	// Lost: the request was sent whole, and no answer came. Without it, and without Answered, a
	// worker has ended between its record and the answer.
	Lost bool `json:"lost,omitempty"`
	// Resets counts those that the update was given.
	Resets int `json:"resets,omitempty"`
	// Tasks is not 0 where the update was seen to have a task. Retried counts how often it was
	// made again after a proof that nothing had come of it.
	Tasks   int `json:"tasks,omitempty"`
	Retried int `json:"retried,omitempty"`
	// PushTargets: the update service was given targets for HttpPushUri.
	PushTargets bool `json:"push_targets,omitempty"`

	h     *handle
	run   hardware.StepRun
	image firmwareImage
	bmc   bool // the component is the BMC itself
	// first and share are the component's part of the step's progress, in percent.
	first, share int
	serving      *served

	percent int
	mark    string
	moved   time.Time
	quiet   time.Time // since when nothing shows what became of the update
}

// reflash brings each component of the policy to its version, one after the other. One that
// is there is left alone. Only an update that the policy lists is made, with the bytes whose
// digest it names, and never a second time while it is unknown what has come of the first.
// Faults: firmware_not_listed, firmware_image_invalid, firmware_update_unknown,
// firmware_not_active, firmware_changed, command_refused, step_failed, no_progress.
func (h *handle) reflash(ctx context.Context, run hardware.StepRun) (string, error) {
	images, err := imagesOf(run)
	if err != nil {
		return "", err
	}
	var said []string
	for i, image := range images {
		u := &update{h: h, run: run, image: image, first: 100 * i / len(images), share: 100 / len(images)}
		note, err := u.do(ctx)
		if err != nil {
			return "", err
		}
		said = append(said, note)
	}
	note, err := h.atTarget(ctx, images)
	if err != nil {
		return "", err
	}
	return strings.Join(said, "; ") + "; " + note, nil
}

// verifyFirmware only reads: each component of the policy runs its version, and nothing is
// staged or being written.
func (h *handle) verifyFirmware(ctx context.Context, run hardware.StepRun) (string, error) {
	images, err := imagesOf(run)
	if err != nil {
		return "", err
	}
	return h.atTarget(ctx, images)
}

// atTarget proves that each component runs its version, that nothing is staged or being
// written, and that the server is healthy.
func (h *handle) atTarget(ctx context.Context, images []firmwareImage) (string, error) {
	service, err := h.readUpdateService(ctx)
	if err != nil {
		return "", err
	}
	all, err := h.inventory(ctx, service)
	if err != nil {
		return "", err
	}
	var said []string
	for _, image := range images {
		s, err := runningOf(all, image.Component, h.system)
		if err != nil {
			return "", err
		}
		if s.Version != image.To {
			return "", notActive("%s runs version %q, the policy demands %q", image.Component, s.Version, image.To)
		}
		if s.Status.Health == "Critical" {
			return "", notActive("%s runs version %q, and its health is %s", image.Component, s.Version, s.Status.Health)
		}
		said = append(said, image.Component+" "+s.Version)
	}
	if err := h.nothingStaged(ctx, service, all); err != nil {
		return "", err
	}
	var system struct{ Status resourceStatus }
	if err := h.c.get(ctx, h.system, &system); err != nil {
		return "", err
	}
	if system.Status.Health == "Critical" {
		return "", notActive("the server's health is %s after the update", system.Status.Health)
	}
	return "runs " + strings.Join(said, ", "), nil
}

// nothingStaged proves that no firmware is being written or waits for a reset, anybody's.
func (h *handle) nothingStaged(ctx context.Context, service *updateService, all []*software) error {
	running, staged, err := h.updates(ctx, service, all)
	switch {
	case err != nil:
		return err
	case running != "":
		return hardware.Busy("%s: firmware is being written", running)
	case staged != "":
		return hardware.Refused(device.CodeFirmwareChanged, "take the update back on the BMC, then clean the server again",
			"%s: firmware is staged that is not this clean's", staged)
	}
	return nil
}

// updates finds what is being written on the BMC, and what is staged there.
func (h *handle) updates(ctx context.Context, service *updateService,
	all []*software) (running, staged string, err error) {
	tasks, err := h.c.tasks(ctx)
	if err != nil {
		return "", "", err
	}
	for _, t := range tasks {
		if !t.active() || !t.updates() {
			continue
		}
		waits, err := h.waitsForReset(ctx, t)
		switch {
		case err != nil:
			return "", "", err
		case waits:
			staged = fmt.Sprintf("the task %s (%s) waits for a reset", t.path, t.Name)
		default:
			running = fmt.Sprintf("the task %s (%s) runs, %d %%", t.path, t.Name, t.PercentComplete)
		}
	}
	if state := service.busy(); state != "" {
		running = "the update service is " + state
	}
	if service.HTTPPushTargetsBusy {
		running = "the update service is reserved for another's upload"
	}
	queue, err := h.updateQueue(ctx, service)
	if err != nil {
		return "", "", err
	}
	for _, q := range queue {
		staged = fmt.Sprintf("%s is %s in the queue of updates", q.Component, q.State)
	}
	for _, s := range all {
		if s.staged() && s.Version != "" && s.Version != "0" && !strings.EqualFold(s.Version, "N/A") {
			staged = fmt.Sprintf("%s %s is in the inventory", s.ID, s.Version)
		}
	}
	return running, staged, nil
}

// updates: the task is of an update of firmware.
func (t *task) updates() bool {
	if t.Payload.TargetURI != "" {
		return strings.Contains(strings.ToLower(t.Payload.TargetURI), "updateservice")
	}
	name := strings.ToLower(t.Name)
	return strings.Contains(name, "firmware") || strings.Contains(name, "update")
}

func notActive(format string, args ...any) error {
	return hardware.Refused(device.CodeFirmwareNotActive,
		"see the firmware with the vendor's tool, then clean the server again", format, args...)
}

func (u *update) save() error { return u.run.Save("firmware "+u.image.Component, u) }

// read reads the update service, the inventory and the component's running version.
func (u *update) read(ctx context.Context) (*updateService, []*software, *software, error) {
	service, err := u.h.readUpdateService(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	all, err := u.h.inventory(ctx, service)
	if err != nil {
		return nil, nil, nil, err
	}
	now, err := runningOf(all, u.image.Component, u.h.system)
	return service, all, now, err
}

// do brings the component to its version.
func (u *update) do(ctx context.Context) (note string, err error) {
	name := "firmware " + u.image.Component
	if _, err := u.run.Load(name, u); err != nil {
		return "", err
	}
	if u.To != "" && (u.To != u.image.To || u.SHA256 != strings.ToLower(u.image.SHA256)) {
		*u = update{h: u.h, run: u.run, image: u.image, first: u.first, share: u.share} // of other arguments
	}
	u.action = action{Name: name, Doing: fmt.Sprintf("update of %s to %s", u.image.Component, u.image.To)}
	u.moved = time.Now()
	defer func() {
		if u.serving != nil {
			err = errors.Join(err, u.serving.Close())
		}
	}()
	for {
		service, all, now, err := u.read(ctx)
		if err != nil {
			return "", err
		}
		u.bmc = now.ofBMC()
		if u.Phase == "" || u.Phase == updateSending {
			if now.Version == u.image.To {
				return u.image.Component + " was at " + now.Version, nil
			}
			if err := u.begin(ctx, service, all, now); err != nil {
				return "", err
			}
		}
		again, err := u.follow(ctx)
		if err != nil {
			return "", err
		}
		if !again {
			return fmt.Sprintf("%s updated from %s to %s (%s, %s)", u.image.Component, u.From, u.To, u.Way, u.Task), nil
		}
	}
}

// begin checks that the update may be made, and gives the BMC the image.
func (u *update) begin(ctx context.Context, service *updateService, all []*software, now *software) error {
	if !slices.Contains(u.image.From, now.Version) {
		return hardware.Refused(device.CodeFirmwareNotListed,
			"find out how that version came there; if it may be updated, add it to the policy",
			"%s runs version %q, from which the firmware policy lists no update to %q (from: %s)", u.image.Component,
			now.Version, u.image.To, strings.Join(u.image.From, ", "))
	}
	image, err := u.image.open()
	if err != nil {
		return err
	}
	defer func() { _ = image.Close() }() // it is only read
	if err := u.h.ensureOn(ctx, u.run); err != nil {
		return err
	}
	if err := u.h.nothingStaged(ctx, service, all); err != nil {
		return err
	}
	// Drives that are being erased would be interrupted by what the update needs.
	if err := u.h.checkNothingWrites(ctx); err != nil {
		return err
	}
	u.From, u.To, u.SHA256 = now.Version, u.image.To, strings.ToLower(u.image.SHA256)
	return u.send(ctx, service, now, image)
}

// progress reports how far the update is.
func (u *update) progress(percent int, doing string) error {
	u.percent = percent
	return u.h.progress(u.run, u.first+u.share*percent/100, u.action.Doing+": "+doing)
}
