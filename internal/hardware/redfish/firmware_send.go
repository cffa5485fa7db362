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
	multipart, simple := string(service.MultipartHTTPPushURI), string(service.Actions.SimpleUpdate.Target)
	switch {
	case multipart != "":
		body, err := image.multipart(parameters, filepath.Base(u.image.Path))
		if err != nil {
			return err
		}
		u.Way = wayPushed
		return u.give(ctx, request{Method: http.MethodPost, Path: multipart, Timeout: uploadTime, Content: body})
	case simple != "":
		return u.serve(ctx, service, simple, parameters, image)
	}
	return hardware.Refused(device.CodeCommandRefused, "update the BMC's firmware with the vendor's tool, or take the "+
		"component out of the firmware policy",
		"the BMC takes no image for a named target: it has neither MultipartHttpPushUri nor SimpleUpdate")
}

// give sends a request that gives the BMC the image, or begins what was uploaded. That it is sent is
// journaled before, and whatever comes of it, it is not sent again in this clean, but where the BMC has
// refused it, or has not got the whole of it.
func (u *update) give(ctx context.Context, r request) error {
	if err := u.progress("sends the image"); err != nil {
		return err
	}
	before := u.Phase
	r.Intent = func() error {
		u.Phase, u.work.Target = updateSent, r.Path
		return u.save()
	}
	got, err := u.h.change(ctx, r)
	refusal, answered := asRefusal(err)
	switch {
	case err == nil:
		u.Phase, u.Task, u.Start = updateAccepted, u.h.taskOf(got), ""
		u.Tasked = u.Task != ""
		return u.save()
	case isLost(err) && ctx.Err() != nil:
		return context.Cause(ctx) // this worker ends: the next one reads
	case isLost(err), answered && refusal.Status >= http.StatusInternalServerError &&
		refusal.Status != http.StatusServiceUnavailable:
		u.Task, u.Start = "", ""
		return u.save() // it may have been carried out: what follows finds out
	}
	u.Phase, u.Starting = before, false
	if saved := u.save(); saved != nil {
		return saved
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case answered && refusal.Status == http.StatusServiceUnavailable:
		return hardware.Busy("the BMC takes no update now: %s", refusal.Error())
	case isUnanswered(err):
		return unreachable(err)
	}
	return err
}

// startUpload begins what was uploaded, where the BMC does not do so by itself.
func (u *update) startUpload(ctx context.Context, service *updateService) error {
	u.Starting, u.quiet = true, time.Time{}
	return u.give(ctx, request{Method: http.MethodPost, Path: string(service.Actions.StartUpdate.Target)})
}
