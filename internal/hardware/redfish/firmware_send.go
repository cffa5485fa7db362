package redfish

import (
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// uploadTime is how long the transfer of an image may take.
const uploadTime = 30 * time.Minute

// target names the component for the BMC. Without a target a BMC updates every system that
// the image fits.
func (u *update) target(service *updateService, now *software) string {
	// Where uploads are started by an action, inventory entries are no targets.
	if service.Actions.StartUpdate.Target != "" && len(now.RelatedItem) > 0 {
		return string(now.RelatedItem[0])
	}
	return now.path
}

// applyTime is when the update is to be applied: at our own reset, where the BMC has the
// choice. "": it has none.
func (u *update) applyTime(lists ...applyTimes) string {
	var values []string
	for _, l := range lists {
		values = append(values, l.SupportedValues...)
	}
	wanted := []string{"OnReset", "Immediate"}
	if u.bmc {
		wanted = []string{"Immediate"}
	}
	for _, want := range append([]string{"OnStartUpdateRequest"}, wanted...) {
		if slices.Contains(values, want) {
			return want
		}
	}
	return ""
}

// send gives the BMC the image, in the best way that it has.
func (u *update) send(ctx context.Context, service *updateService, now *software, image *openImage) error {
	parameters := map[string]any{"Targets": []string{u.target(service, now)}}
	if at := u.applyTime(service.MultipartTimes, service.ServiceTimes, service.OperationApplyTimes,
		service.Actions.SimpleUpdate.ApplyTimes); at != "" {
		parameters["@Redfish.OperationApplyTime"] = at
	}
	multipart, push, simple := string(service.MultipartHTTPPushURI), string(service.HTTPPushURI),
		string(service.Actions.SimpleUpdate.Target)
	switch {
	case multipart != "":
		u.Way = wayPushed
		body, err := image.multipart(parameters, filepath.Base(u.image.Path))
		if err != nil {
			return err
		}
		return u.push(ctx, multipart, image, body)
	case push != "" && service.HTTPPushTargets != nil:
		u.Way = wayPushed
		if err := u.setPushTargets(ctx, service, u.target(service, now)); err != nil {
			return err
		}
		return u.push(ctx, push, image, image.body("application/octet-stream", nil, nil))
	case simple != "":
		return u.serve(ctx, service, simple, parameters, image)
	}
	return hardware.Refused(device.CodeCommandRefused, "update the BMC's firmware with the vendor's tool, or take the "+
		"component out of the firmware policy",
		"the BMC takes no image for a named target: it has neither MultipartHttpPushUri, nor HttpPushUri with "+
			"HttpPushUriTargets, nor SimpleUpdate")
}

// setPushTargets names the component for the next upload to HttpPushUri.
func (u *update) setPushTargets(ctx context.Context, service *updateService, target string) error {
	u.PushTargets = true
	if err := u.save(); err != nil {
		return err
	}
	if err := u.patchTargets(ctx, service, []string{target}); err != nil {
		return err
	}
	now, err := u.h.readUpdateService(ctx)
	if err != nil {
		return err
	}
	if len(now.HTTPPushTargets) != 1 || !samePath(now.HTTPPushTargets[0], target) {
		return hardware.Refused(device.CodeCommandRefused, "see the update service on the BMC",
			"the BMC does not take the target %s for an upload", target)
	}
	return nil
}

// patchTargets sets HttpPushUriTargets. A lost answer is settled by the caller's next read.
func (u *update) patchTargets(ctx context.Context, service *updateService, targets []string) error {
	_, err := u.h.change(ctx,
		request{Method: http.MethodPatch, Path: service.path, Body: map[string]any{"HttpPushUriTargets": targets}})
	if isLost(err) {
		return nil
	}
	return err
}

// journalSent records that the request has been sent from here on.
func (u *update) journalSent(target string, before []*task) func() error {
	return func() error {
		u.Phase, u.Before, u.Lost = updateSent, nil, false
		for _, t := range before {
			u.Before = append(u.Before, t.mark())
		}
		u.work = work{action: u.action, Target: target, Sent: u.h.c.bmc.clock(), Began: time.Now().Round(0)}
		return u.save()
	}
}

// push sends the image. Until its end is sent, nothing can have begun.
func (u *update) push(ctx context.Context, path string, image *openImage, body *imageBody) error {
	before, err := u.h.c.tasks(ctx)
	if err != nil {
		return err
	}
	r := request{Method: http.MethodPost, Path: path, Timeout: uploadTime, Intent: func() error {
		u.Phase = updateSending
		return u.save()
	}}
	if err := u.progress(0, "sends the image"); err != nil {
		return err
	}
	got, err := u.h.sendImage(ctx, r, body, u.journalSent(path, before))
	return u.sent(ctx, got, err)
}

// sent records the answer to the request.
func (u *update) sent(ctx context.Context, got answer, err error) error {
	refusal, answered := asRefusal(err)
	switch {
	case err == nil:
		u.Phase, u.Answered, u.Task = updateAccepted, true, u.h.c.taskOf(got)
		return u.save()
	case u.Phase == updateSent && answered && refusal.Status >= http.StatusInternalServerError &&
		refusal.Status != http.StatusServiceUnavailable:
		u.Lost = true // it may have been carried out: follow finds out
		return u.save()
	case answered:
		// The BMC did not carry it out.
		u.Phase = ""
		if u.Starting {
			u.Phase, u.Starting = updateDone, false // what was uploaded is there
		}
		if saved := u.save(); saved != nil {
			return saved
		}
		if refusal.Status == http.StatusServiceUnavailable {
			return hardware.Busy("the BMC takes no update now: %s", refusal.Error())
		}
		return err
	case u.Phase == updateSent && isLost(err):
		if ctx.Err() != nil {
			return context.Cause(ctx) // this worker ends: the next one reads, as after a crash
		}
		u.Lost = true
		return u.save()
	case isUnanswered(err):
		return unreachable(err) // the BMC has not got the end: it is sent again
	default:
		return err
	}
}

// startUpload begins what was uploaded, where the BMC does not do so by itself. That is the
// commit: it is journaled before, and sent once.
func (u *update) startUpload(ctx context.Context, service *updateService) error {
	path := string(service.Actions.StartUpdate.Target)
	before, err := u.h.c.tasks(ctx)
	if err != nil {
		return err
	}
	journal := u.journalSent(path, before)
	got, err := u.h.change(ctx, request{Method: http.MethodPost, Path: path, Intent: func() error {
		u.Starting = true
		return journal()
	}})
	return u.sent(ctx, got, err)
}
