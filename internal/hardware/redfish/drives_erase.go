package redfish

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// erasesAtOnce bounds how many drives are erased at the same time.
const erasesAtOnce = 8

// sanitizations are the values of SanitizationType, the best first.
var sanitizations = []string{"CryptographicErase", "BlockErase", "Overwrite"}

// eraseState is how far the erase of one drive is. "" is not begun, or not known to have begun.
type eraseState string

const (
	// eraseAccepted: the BMC has accepted the request.
	eraseAccepted eraseState = "accepted"
	// eraseDone: the controller says that it has erased the drive.
	eraseDone eraseState = "done"
)

// eraseRecord is the evidence of one drive's erase.
type eraseRecord struct {
	work
	State eraseState `json:"state,omitempty"`
	// Sanitization is the SanitizationType that was sent; "": the drive offers no choice.
	Sanitization string `json:"sanitization,omitempty"`
	// Seen: there is no task, but the drive itself has shown that it was erasing.
	Seen bool `json:"seen,omitempty"`
	// Tries counts the requests of this clean, Resets what staged erases of the drive were given.
	Tries  int `json:"tries,omitempty"`
	Resets int `json:"resets,omitempty"`

	way   eraseWay
	drive *drive
	waits bool      // an erase of it, anybody's, waits for a reset
	other string    // an erase that is not this clean's, and runs
	quiet time.Time // since when nothing shows an erase
	did   string    // what the drive did after a request and is no erase, for the operator
}

// eraseWay is how a drive is erased.
type eraseWay struct{ target, sanitization string }

// eraseJournal is the evidence of erase_drives, by serial.
type eraseJournal struct {
	Drives map[string]*eraseRecord `json:"drives"`
}

const eraseEvidence = "erase_drives"

// eraser carries out one attempt of erase_drives.
type eraser struct {
	h       *handle
	run     hardware.StepRun
	journal eraseJournal
	records []*eraseRecord // one a drive, in order
	pauses  *waiting
}

// eraseDrives has each drive erased by its controller. Nothing is sent before the drives are the
// enrolled ones and each can be erased. Only an erase counts that the BMC has accepted from this clean,
// and that its task, or the drive itself, has shown; any other is waited for. A request of which
// nothing is known is sent again once no erase of the drive runs: a second one harms nothing. Faults:
// drives_changed, drive_not_erasable, erase_unknown, step_failed, no_progress, command_refused,
// server_not_ready.
func (h *handle) eraseDrives(ctx context.Context, run hardware.StepRun) (string, error) {
	e := &eraser{h: h, run: run, pauses: h.driver.timing.wait(always)}
	defer e.pauses.stop()
	if _, err := run.Load(eraseEvidence, &e.journal); err != nil {
		return "", err
	}
	if err := h.ensureOn(ctx, run); err != nil {
		return "", err
	}
	if err := e.judge(ctx); err != nil {
		return "", err
	}
	for {
		done, err := e.round(ctx)
		if err != nil {
			return "", err
		}
		if done {
			return h.provenErases(ctx, run)
		}
		if err := h.progress(run, e.percent(), e.summary()); err != nil {
			return "", err
		}
		if _, err := e.pauses.next(ctx); err != nil {
			return "", err
		}
	}
}

// always is the length of a wait that only its context ends.
const always = 365 * 24 * time.Hour

// judge reads the drives and finds a way to erase each one that is not erased yet.
func (e *eraser) judge(ctx context.Context) error {
	present, err := e.h.enrolledDrives(ctx)
	if err != nil {
		return err
	}
	if e.journal.Drives == nil {
		e.journal.Drives = make(map[string]*eraseRecord)
	}
	var cannot []string
	for _, d := range present {
		r := e.journal.Drives[d.Serial]
		if r == nil {
			r = &eraseRecord{}
			e.journal.Drives[d.Serial] = r
		}
		e.records = append(e.records, r)
		r.drive, r.doing, r.stall = d, "erase of the drive "+d.Serial, stallOf(e.run.Settings.SanitizeStall, d)
		r.moved = time.Now()
		if r.Tries > 0 {
			r.quiet = time.Now() // the last worker may just have sent a request
		}
		if r.State != "" {
			continue
		}
		way, why, err := e.h.wayToErase(ctx, d)
		if err != nil {
			return err
		}
		if why != "" {
			cannot = append(cannot, d.Serial+" ("+why+")")
		}
		r.way = way
	}
	if len(cannot) > 0 {
		return hardware.Refused(device.CodeDriveNotErasable,
			"take the drive out of its volume, or replace it; then clean the server again",
			"no drive was erased, because not all can be: %s", strings.Join(cannot, "; "))
	}
	return nil
}

// stallOf is how long a drive's erase may make no progress: the setting, or as long as it
// takes to overwrite a twentieth of the drive at 20 MB/s, because some show only whole steps.
func stallOf(setting time.Duration, d *drive) time.Duration {
	if setting <= 0 {
		return 0
	}
	return max(setting, time.Duration(d.Shown[0].CapacityBytes/20/20_000_000)*time.Second)
}

// wayToErase finds how the drive's controller erases it; why says why it does not.
func (h *handle) wayToErase(ctx context.Context, d *drive) (way eraseWay, why string, err error) {
	for _, shown := range d.Shown {
		for _, link := range paths(shown.Links.Volumes) {
			if why, err := h.inVolume(ctx, link); err != nil || why != "" {
				return eraseWay{}, why, err
			}
		}
	}
	for _, shown := range d.Shown {
		erase := shown.Actions.SecureErase
		target := string(erase.Target)
		if target == "" {
			continue
		}
		allowed, err := h.allowedValues(ctx, erase.Allowed, erase.ActionInfo, "SanitizationType")
		if err != nil {
			return eraseWay{}, "", err
		}
		if len(allowed) == 0 {
			return eraseWay{target: target}, "", nil
		}
		for _, s := range sanitizations {
			if slices.Contains(allowed, s) {
				return eraseWay{target, s}, "", nil
			}
		}
		why = "it offers only " + strings.Join(allowed, ", ")
	}
	if why == "" {
		why = "its controller offers no erase"
	}
	return eraseWay{}, why, nil
}

// inVolume says that a volume is made of several drives. Controllers refuse to erase its
// drives, and a deleted volume erases nothing.
func (h *handle) inVolume(ctx context.Context, path string) (why string, err error) {
	var volume struct{ RAIDType, VolumeType string }
	if err := h.get(ctx, path, &volume); err != nil {
		return "", err
	}
	if volume.VolumeType == "RawDevice" || volume.RAIDType == "" && volume.VolumeType == "" {
		return "", nil
	}
	return strings.TrimSpace("it is in the volume " + path + " " + volume.RAIDType), nil
}

// allowedValues are the allowable values of an action's parameter, which the action lists itself or
// its ActionInfo does; none where the BMC does not say.
func (h *handle) allowedValues(ctx context.Context, listed []string, info link, parameter string) ([]string, error) {
	if len(listed) > 0 || info == "" {
		return listed, nil
	}
	var body struct {
		Parameters []struct {
			Name            string
			AllowableValues []string
		}
	}
	if err := h.get(ctx, string(info), &body); err != nil {
		return nil, err
	}
	for _, p := range body.Parameters {
		if p.Name == parameter {
			return p.AllowableValues, nil
		}
	}
	return nil, nil
}

func (e *eraser) save() error { return e.run.Save(eraseEvidence, e.journal) }

// round looks after each drive once.
func (e *eraser) round(ctx context.Context) (done bool, err error) {
	busy, waits, left := 0, 0, 0
	for _, r := range e.records {
		if r.State == eraseAccepted {
			if err := e.look(ctx, r); err != nil {
				return false, err
			}
		}
		if r.State == eraseAccepted && !r.waits {
			busy++
		}
	}
	var all []*task
	for _, r := range e.records {
		if r.State == "" && busy < erasesAtOnce {
			if all == nil {
				if all, err = e.h.tasks(ctx); err != nil {
					return false, err
				}
			}
			if err := e.begin(ctx, r, all); err != nil {
				return false, err
			}
			if !r.waits {
				busy++
			}
		}
		switch {
		case r.State == eraseDone:
		case r.waits:
			waits++
		default:
			left++
		}
	}
	if waits > 0 && left == 0 {
		return false, e.restart(ctx)
	}
	return waits+left == 0, nil
}

// look reads how far an erase is that the BMC has accepted.
func (e *eraser) look(ctx context.Context, r *eraseRecord) error {
	found, err := e.h.follow(ctx, &r.work, e.save)
	r.waits = found == taskWaits
	switch {
	case err != nil:
		return err
	case found == succeeded:
		return e.ended(r)
	case found != unsettled:
		return nil
	}
	// There is no task, or it is gone. What the drive does says more.
	doing, err := e.operation(ctx, r)
	switch {
	case err != nil:
		return err
	case doing != nil:
		r.quiet = time.Time{}
		if !doing.erases() {
			r.did = ", but " + hardware.OneLine(doing.OperationName)
		} else if !r.Seen {
			r.Seen = true
			if err := e.save(); err != nil {
				return err
			}
		}
		return r.moving(doing.OperationName, doing.PercentageComplete)
	case r.drive.unhealthy() != "":
		return hardware.Refused(device.CodeStepFailed, "see the drive on the BMC, replace it if it has failed",
			"the drive %s has ended its erase, and %s", r.drive.Serial, r.drive.unhealthy())
	case r.Seen:
		return e.ended(r)
	case e.settled(r):
		r.State = ""
		return e.save()
	}
	return nil
}

// settled: nothing has shown an erase for as long as BMCs take to show it.
func (e *eraser) settled(r *eraseRecord) bool {
	if r.quiet.IsZero() {
		r.quiet = time.Now()
	}
	return time.Since(r.quiet) > e.h.driver.timing.settle
}

// ended records that the controller says that the drive is erased.
func (e *eraser) ended(r *eraseRecord) error {
	r.State, r.percent, r.waits = eraseDone, 100, false
	return e.save()
}

// begin begins the erase of a drive once no other runs: a tenant's, one of an earlier clean, or one of
// this clean whose answer was lost. all are the tasks that have not ended.
func (e *eraser) begin(ctx context.Context, r *eraseRecord, all []*task) error {
	staged, percent := false, 0
	r.other = ""
	for _, t := range all {
		// Some jobs do not say of which drive they are.
		if !r.isFor(t) && (t.Payload.TargetURI != "" || !t.erases() || e.hasTask(t.path)) {
			continue
		}
		if staged = staged || t.waits; !t.waits {
			r.other, percent = t.String(), t.PercentComplete
		}
	}
	doing, err := e.operation(ctx, r)
	if err != nil {
		return err
	}
	if doing != nil {
		r.other, percent = doing.OperationName, doing.PercentageComplete
	}
	r.waits = staged && r.other == ""
	switch {
	case r.other != "":
		return r.moving(r.other, percent)
	case staged, r.Tries > 0 && !e.settled(r):
		return nil
	}
	return e.send(ctx, r)
}

// send asks for the erase of one drive.
func (e *eraser) send(ctx context.Context, r *eraseRecord) error {
	if r.Tries == maxTries {
		return hardware.Refused(device.CodeEraseUnknown, "see the drive on the BMC; clean the server again: each drive is "+
			"erased again",
			"whether the drive %s was erased is unknown: of %d requests, neither a task nor the drive has shown an erase%s",
			r.drive.Serial, r.Tries, r.did)
	}
	if r.way.target == "" { // an earlier attempt had sent it
		way, why, err := e.h.wayToErase(ctx, r.drive)
		if err != nil {
			return err
		}
		if why != "" {
			return notErasable(r.drive.Serial, why)
		}
		r.way = way
	}
	e.pauses.again() // a drive without a task shows its erase only while it runs
	tries := r.Tries + 1
	q := request{Method: http.MethodPost, Path: r.way.target, Intent: func() error {
		r.Tries, r.Seen, r.Sanitization, r.quiet = tries, false, r.way.sanitization, time.Now()
		return e.save()
	}}
	if r.way.sanitization != "" {
		q.Body = map[string]any{"SanitizationType": r.way.sanitization}
	}
	got, err := e.h.change(ctx, q)
	refusal, answered := asRefusal(err)
	switch {
	case err == nil:
		r.State, r.work.Target, r.Task, r.Start = eraseAccepted, r.way.target, e.h.taskOf(got), ""
		return e.save()
	case answered && refusal.Status < http.StatusInternalServerError:
		return notErasable(r.drive.Serial, refusal.Error())
	case ctx.Err() != nil || !answered && !isLost(err):
		return err
	}
	return nil // it may have been carried out: the next round looks
}

func notErasable(serial, why string) error {
	return hardware.Refused(device.CodeDriveNotErasable,
		"see the drive on the BMC, take it out of its volume or replace it; then clean the server again",
		"the controller refuses to erase the drive %s: %s", serial, why)
}

// restart gives staged erases their reset. The power layer refuses it while anything is being
// erased or written.
func (e *eraser) restart(ctx context.Context) error {
	for _, r := range e.records {
		if !r.waits {
			continue
		}
		if r.Resets >= 2 {
			return hardware.Refused(device.CodeStepFailed, "see the BMC's jobs, then clean the server again",
				"the erase of the drive %s (%s) still waits for a reset after %d resets", r.drive.Serial, r.Task, r.Resets)
		}
		r.Resets++
	}
	if err := e.save(); err != nil {
		return err
	}
	err := e.h.restart(ctx, e.run)
	if f, ok := device.AsFault(err); ok && f.Code == device.CodeNoProgress {
		if _, busy := e.h.checkNothingWrites(ctx, nil); busy != nil {
			return nil // it is POST that erases, which takes as long as that
		}
	}
	return err
}

// percent is how far all drives are.
func (e *eraser) percent() int {
	sum := 0
	for _, r := range e.records {
		if r.State == eraseDone {
			r.percent = 100
		}
		sum += r.percent
	}
	return sum / max(1, len(e.records))
}

// summary says how far which drives are.
func (e *eraser) summary() string {
	done, now := 0, []string{}
	for _, r := range e.records {
		switch {
		case r.State == eraseDone:
			done++
		case r.waits:
			now = append(now, r.drive.Serial+" waits for a reset")
		case r.other != "":
			now = append(now, r.drive.Serial+" waits for an erase that runs already: "+r.other)
		default:
			now = append(now, fmt.Sprintf("%s %d %%", r.drive.Serial, r.percent))
		}
	}
	if len(now) > 4 {
		now = append(now[:3], fmt.Sprintf("%d more", len(now)-3))
	}
	return fmt.Sprintf("%d of %d drives erased; %s", done, len(e.records), strings.Join(now, ", "))
}

// operation reads what the drive does now; nil: nothing. The server must have ended POST: a BMC shows
// no drives before.
func (e *eraser) operation(ctx context.Context, r *eraseRecord) (*driveOperation, error) {
	if err := e.h.ensureOn(ctx, e.run); err != nil {
		return nil, err
	}
	for i, shown := range r.drive.Shown {
		now := &driveResource{path: shown.path}
		if err := e.h.get(ctx, shown.path, now); err != nil {
			return nil, driveUnreadable(err)
		}
		if have := hardware.CanonicalSerial(now.SerialNumber); have != r.drive.Serial {
			return nil, hardware.Refused(device.CodeDrivesChanged, "put the enrolled drive back, then clean the server again",
				"%s was the drive %s and is %q now", shown.path, r.drive.Serial, have)
		}
		r.drive.Shown[i] = now
	}
	return r.drive.operation(), nil
}

// isFor: the task says that it is of this drive.
func (r *eraseRecord) isFor(t *task) bool {
	return t.Payload.TargetURI != "" &&
		slices.ContainsFunc(r.drive.Shown, func(s *driveResource) bool { return within(t.Payload.TargetURI, s.path) })
}

// hasTask: the task is that of an erase that is accepted already.
func (e *eraser) hasTask(uri string) bool {
	return slices.ContainsFunc(e.records, func(r *eraseRecord) bool { return samePath(r.Task, uri) })
}

// verifyDrives checks the evidence of this clean's erases; see provenErases. Redfish cannot
// read a block: a controller that says that it has erased a drive, and has not, is believed.
func (h *handle) verifyDrives(ctx context.Context, run hardware.StepRun) (string, error) {
	if err := h.endPOST(ctx, run); err != nil {
		return "", err
	}
	return h.provenErases(ctx, run) // of a server that is off, it refuses: nothing is changed here, the power neither
}

// provenErases proves, as far as a BMC can, that each enrolled drive is there and was erased by
// this clean, and that nothing is left to be done to one. Faults: drives_changed, verify_failed.
func (h *handle) provenErases(ctx context.Context, run hardware.StepRun) (string, error) {
	var journal eraseJournal
	if _, err := run.Load(eraseEvidence, &journal); err != nil {
		return "", err
	}
	present, err := h.enrolledDrives(ctx)
	if err != nil {
		return "", err
	}
	all, err := h.tasks(ctx)
	if err != nil {
		return "", err
	}
	var said []string
	for _, d := range present {
		r := journal.Drives[d.Serial]
		if r == nil || r.State != eraseDone {
			return "", notErased(d, "this host has no record that this clean has erased it")
		}
		r.drive = d
		said = append(said, strings.TrimSpace(d.Serial+" "+r.Sanitization))
		if doing := d.operation(); doing != nil {
			return "", notErased(d, "it is busy: %s, %d %%", doing.OperationName, doing.PercentageComplete)
		}
		if wrong := d.unhealthy(); wrong != "" {
			return "", notErased(d, "%s", wrong)
		}
		if i := slices.IndexFunc(all, r.isFor); i >= 0 {
			return "", notErased(d, "the task %s is %s", all[i], all[i].TaskState)
		}
	}
	return fmt.Sprintf("by the controller's word: %d drives erased: %s", len(present), strings.Join(said, ", ")), nil
}

func notErased(d *drive, format string, args ...any) error {
	return hardware.Refused(device.CodeVerifyFailed, "clean the server again; if it fails again, see the drive on the BMC",
		"the drive %s is not proved to be erased: %s", d.Serial, fmt.Sprintf(format, args...))
}
