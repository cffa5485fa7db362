package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// updatePhase is how far the update of a component is. "" is not begun.
type updatePhase string

const (
	// updateSent: the request was sent, or is about to be. Without an answer, reading shows what has
	// come of it.
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
	Phase updatePhase `json:"phase,omitempty"`
	From  string      `json:"from,omitempty"`
	// Way is how the image was given.
	Way string `json:"way,omitempty"`
	// Starting: the request is the StartUpdate after an upload.
	Starting bool `json:"starting,omitempty"`
	// Tasked: the BMC has named a task. One that has not shows only the new version, in the end.
	Tasked bool `json:"tasked,omitempty"`
	// Resets counts those that the update was given.
	Resets int `json:"resets,omitempty"`

	h     *handle
	run   hardware.StepRun
	image hardware.FirmwareImage
	bmc   bool // the component is the BMC itself
	// first and share are the component's part of the step's progress, in percent.
	first, share int
	opened       *openImage
	serving      *served
	quiet        time.Time // since when nothing shows what has become of the update
}

// reflash brings each component of the policy to its version, one after the other. One that
// is there is left alone. Only an update that the policy lists is made, with the bytes whose
// digest it names, and none is sent twice in one clean: what reading does not settle is the operator's.
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

// firmwareNow is what the BMC shows of its firmware at one time.
type firmwareNow struct {
	service *updateService
	all     []*software
	// running is what is being written, staged what waits for a reset, anybody's; "" is nothing.
	running, staged string
}

// readFirmware reads it. The tasks come first: what one that has ended has done is in what is read next.
func (h *handle) readFirmware(ctx context.Context) (*firmwareNow, error) {
	tasks, err := h.tasks(ctx)
	if err != nil {
		return nil, err
	}
	service, err := h.readUpdateService(ctx)
	if err != nil {
		return nil, err
	}
	return h.readFirmwareAfter(ctx, tasks, service)
}

// readFirmwareAfter reads it after tasks and service.
func (h *handle) readFirmwareAfter(ctx context.Context, tasks []*task,
	service *updateService) (f *firmwareNow, err error) {
	f = &firmwareNow{service: service}
	for _, t := range tasks {
		switch {
		case t.updates() && t.waits:
			f.staged = fmt.Sprintf("the task %s waits for a reset", t)
		case t.updates():
			f.running = fmt.Sprintf("the task %s runs, %d %%", t, t.PercentComplete)
		}
	}
	if state := service.busy(); state != "" {
		f.running = "the update service is " + state
	}
	// Only an iLO has a queue; others have tasks. One that has ended or failed is no more.
	type queued struct{ Component, State string }
	if oem := service.Oem.Hpe; oem != nil {
		err = eachMember(ctx, h, oem.UpdateTaskQueue, func(_ string, q *queued) {
			said := fmt.Sprintf("%s is %s in the queue of updates", q.Component, q.State)
			switch q.State {
			case "Complete", "Exception", "Canceled", "Expired":
			case "Pending":
				f.staged = said
			default:
				f.running = said
			}
		})
	}
	if err == nil {
		f.all, err = h.inventory(ctx, service)
	}
	for _, s := range f.all {
		if s.staged() && s.Version != "" && s.Version != "0" && !strings.EqualFold(s.Version, "N/A") {
			f.staged = fmt.Sprintf("%s %s is in the inventory", s.ID, s.Version)
		}
	}
	return f, err
}

// isQuiet proves that no firmware is being written or waits for a reset.
func (f *firmwareNow) isQuiet() error {
	switch {
	case f.running != "":
		return hardware.Busy("%s: firmware is being written", f.running)
	case f.staged != "":
		return hardware.Refused(device.CodeFirmwareChanged, "take the update back on the BMC, or let it take effect by a "+
			"reset by hand; then clean the server again",
			"%s: firmware is staged that is not this clean's", f.staged)
	}
	return nil
}

// atTarget proves that each component runs its version, that nothing is staged or being
// written, and that the server is healthy.
func (h *handle) atTarget(ctx context.Context, images []hardware.FirmwareImage) (string, error) {
	f, err := h.readFirmware(ctx)
	if err != nil {
		return "", err
	}
	var said []string
	for _, image := range images {
		s, err := runningOf(f.all, image.Component, h.system)
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
	if err := f.isQuiet(); err != nil {
		return "", err
	}
	var system struct{ Status resourceStatus }
	if err := h.get(ctx, h.system, &system); err != nil {
		return "", err
	}
	if system.Status.Health == "Critical" {
		return "", notActive("the server's health is %s after the update", system.Status.Health)
	}
	return "runs " + strings.Join(said, ", "), nil
}

func notActive(format string, args ...any) error {
	return hardware.Refused(device.CodeFirmwareNotActive,
		"see the firmware with the vendor's tool, then clean the server again", format, args...)
}

func (u *update) save() error { return u.run.Save("firmware "+u.image.Component, u) }

// do brings the component to its version.
func (u *update) do(ctx context.Context) (note string, err error) {
	if _, err := u.run.Load("firmware "+u.image.Component, u); err != nil {
		return "", err
	}
	u.doing, u.stall = fmt.Sprintf("update of %s to %s", u.image.Component, u.image.To), u.h.driver.timing.stall
	u.moved = time.Now()
	defer func() {
		if u.serving != nil {
			err = errors.Join(err, u.serving.Close())
		}
		if u.opened != nil {
			err = errors.Join(err, u.opened.file.Close())
		}
	}()
	f, err := u.h.readFirmware(ctx)
	if err != nil {
		return "", err
	}
	now, err := runningOf(f.all, u.image.Component, u.h.system)
	if err != nil {
		return "", err
	}
	if u.Phase == "" && now.Version == u.image.To {
		return u.image.Component + " was at " + now.Version, nil
	}
	u.bmc = now.ofBMC()
	if u.Phase == "" {
		if err := u.begin(ctx, f, now); err != nil {
			return "", err
		}
	}
	task := u.Task
	if err := u.await(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s updated from %s to %s (%s, %s)", u.image.Component, u.From, u.image.To, u.Way,
		cmp.Or(u.Task, task)), nil
}

// await waits until the component runs its version, and the server has ended POST.
func (u *update) await(ctx context.Context) error {
	pauses := u.h.driver.timing.wait(always)
	defer pauses.stop()
	for {
		found, err := u.h.follow(ctx, &u.work, u.save)
		if err != nil {
			return err
		}
		if found == taskRuns { // what else the BMC shows says no more
			u.quiet = time.Time{}
			err = u.progress("the BMC works on it")
		} else {
			var done bool
			if done, err = u.decide(ctx, found, pauses); done {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if _, err := pauses.next(ctx); err != nil {
			return err
		}
	}
}

// decide goes on from what the BMC shows besides the update's task. done: the component runs its version.
func (u *update) decide(ctx context.Context, found outcome, pauses *waiting) (done bool, err error) {
	f, err := u.h.readFirmware(ctx)
	if err != nil {
		return false, err
	}
	now, err := runningOf(f.all, u.image.Component, u.h.system)
	switch {
	case err != nil:
		return false, err
	case f.running != "":
		u.quiet = time.Time{}
		return false, errors.Join(u.moving(f.running, u.percent), u.progress("the BMC works on it"))
	case now.Version == u.image.To:
		err = u.h.ensureOn(ctx, u.run) // a BMC may have reset the server by itself
		return err == nil, err
	case found == succeeded && u.Phase == updateAccepted:
		u.Phase = updateDone
		return false, u.save()
	}
	acted, err := u.act(ctx, f.service, now, found == taskWaits, f.staged != "")
	if acted {
		pauses.again()
	}
	return false, err
}

// act does what is left to do where the BMC writes nothing and the component does not run its version.
// Nothing was staged before this update: what is staged is its own.
func (u *update) act(ctx context.Context, service *updateService, now *software,
	waits, staged bool) (acted bool, err error) {
	if u.quiet.IsZero() {
		u.quiet = time.Now()
	}
	quiet, t := time.Since(u.quiet), u.h.driver.timing
	hpe := service.Oem.Hpe
	uploaded := service.Actions.StartUpdate.Target != "" && !u.Starting && u.Way == wayPushed
	switch {
	case hpe != nil && hpe.State == "Error" && u.Phase == updateAccepted:
		return false, hardware.Refused(device.CodeStepFailed,
			"see the BMC's own log, correct the cause, then clean the server",
			"%s: the update service has ended it with an error", u.doing)
	case uploaded && (staged && !waits || u.Phase == updateDone):
		return true, u.startUpload(ctx, service)
	case waits, staged && !u.Starting:
		return true, u.reset(ctx)
	case quiet <= t.settle, u.Phase == updateAccepted && !u.Tasked && hpe == nil && quiet <= t.stall:
		return false, u.progress("waits until the BMC shows the new version")
	case u.Phase == updateDone || u.Phase == updateAccepted && hpe != nil:
		if u.Resets == 0 && !u.bmc {
			return true, u.reset(ctx)
		}
		return false, notActive("%s still runs version %q after its update to %q: the BMC says that it has succeeded, "+
			"and the server was reset %d times", u.image.Component, now.Version, u.image.To, u.Resets)
	}
	return false, hardware.Refused(device.CodeFirmwareUnknown,
		"see the firmware on the BMC, and finish or repeat the update there; then clean the server again",
		"what has come of the update of %s to %q is unknown: it runs %q, and the BMC shows neither a task nor a staged image",
		u.image.Component, u.image.To, now.Version)
}

// reset gives the update its reset. The power layer refuses it while anything is written. A
// server that is in POST already, by the BMC's own reset, is waited for instead.
func (u *update) reset(ctx context.Context) error {
	if _, err := u.h.readReady(ctx); err != nil {
		if f, ok := device.AsFault(err); !ok || f.Code != device.CodeServerNotReady {
			return err
		}
		return u.h.ensureOn(ctx, u.run)
	}
	if u.Resets >= 2 {
		return notActive("the update of %s to %q (%s) still waits for a reset after %d resets", u.image.Component, u.image.To,
			u.Task, u.Resets)
	}
	u.Resets++
	if err := u.save(); err != nil {
		return err
	}
	u.quiet = time.Time{}
	return u.h.restart(ctx, u.run)
}

// begin checks that the update may be made, and gives the BMC the image.
func (u *update) begin(ctx context.Context, f *firmwareNow, now *software) error {
	if err := u.image.CheckFrom(u.image.Component, now.Version); err != nil {
		return err
	}
	image, err := open(u.image)
	if err != nil {
		return err
	}
	u.opened = image
	if err := u.h.ensureOn(ctx, u.run); err != nil {
		return err
	}
	// Drives that are being erased would be interrupted by what the update needs.
	free, err := u.h.checkNothingWrites(ctx, nil)
	if err != nil {
		return err
	}
	if f, err = u.h.readFirmwareAfter(ctx, free.tasks, f.service); err != nil {
		return err
	}
	if err := f.isQuiet(); err != nil {
		return err
	}
	u.From = now.Version
	return u.send(ctx, f.service, now, image)
}

// progress reports how far the update is.
func (u *update) progress(doing string) error {
	return u.h.progress(u.run, u.first+u.share*u.percent/100, u.work.doing+": "+doing)
}
