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

// eraseState is how far the erase of one drive is. "" is not begun.
type eraseState string

const (
	// eraseSent: the request was sent, or is about to be. Without an answer, reading shows
	// what has come of it.
	eraseSent eraseState = "sent"
	// eraseAccepted: the BMC has accepted it.
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
	// Before are the drive's tasks that there were before the request.
	Before []string `json:"before,omitempty"`
	// Seen: there is no task, but the drive itself has shown that it was erasing.
	Seen bool `json:"seen,omitempty"`
	// Lost: the request was sent, and no answer came. Without it, and without Answered, a
	// worker has ended between its record and the answer.
	Lost bool `json:"lost,omitempty"`
	// Again: the request of a worker that has ended was not carried out, as far as reading
	// shows, and was sent once more.
	Again bool `json:"again,omitempty"`
	// Resets counts those that a staged erase was given.
	Resets int       `json:"resets,omitempty"`
	Ended  time.Time `json:"ended,omitzero"`

	way      eraseWay
	drive    *drive
	percent  int
	waits    bool // for a reset
	mark     string
	moved    time.Time // when percent or state last changed, in this attempt
	looked   time.Time // since when nothing was found of the request
	notReady int       // how often the BMC has answered that it is not ready
}

// eraseWay is how a drive is erased.
type eraseWay struct{ target, sanitization string }

// eraseJournal is the evidence of erase_drives, by serial. ForeignReset: an erase that another
// has staged was given its reset.
type eraseJournal struct {
	Drives       map[string]*eraseRecord `json:"drives"`
	ForeignReset bool                    `json:"foreign_reset,omitempty"`
}

const eraseEvidence = "erase_drives"

// eraser carries out one attempt of erase_drives.
type eraser struct {
	h       *handle
	run     hardware.StepRun
	journal eraseJournal
	records []*eraseRecord // one a drive, in order
}

// eraseDrives has each drive erased by its controller. Nothing is sent before the drives are
// the enrolled ones and each can be erased. An erase that this clean has not sent is waited
// for and does not count. A request whose answer was lost is never repeated: what reading
// does not show is a fault. Where a worker has ended in between, it is unknown whether the
// request was sent at all: see mayNotHaveBegun. Faults: drives_changed, drive_not_erasable,
// erase_unknown, step_failed, no_progress, command_refused, server_not_ready.
func (h *handle) eraseDrives(ctx context.Context, run hardware.StepRun) (string, error) {
	e := &eraser{h: h, run: run}
	if _, err := run.Load(eraseEvidence, &e.journal); err != nil {
		return "", err
	}
	if err := h.ensureOn(ctx, run); err != nil {
		return "", err
	}
	if err := e.judge(ctx); err != nil {
		return "", err
	}
	if err := e.waitForOthers(ctx); err != nil {
		return "", err
	}
	if err := e.eraseAll(ctx); err != nil {
		return "", err
	}
	return h.provenErases(ctx, run)
}

// judge reads the drives and finds a way to erase each one that is not erased yet.
func (e *eraser) judge(ctx context.Context) error {
	enrolled, err := device.ParseProperties(e.h.enrolled.Properties)
	if err != nil {
		return err
	}
	present, err := e.h.drives(ctx)
	if err != nil {
		return err
	}
	if err := compareDrives(enrolled.Drives, present); err != nil {
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
		r.drive, r.moved = d, time.Now()
		r.action = action{Name: eraseEvidence, Doing: "erase of drive " + d.Serial,
			Stall: stallOf(e.run.Settings.SanitizeStall, d)}
		e.records = append(e.records, r)
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
	if err := h.c.get(ctx, path, &volume); err != nil {
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
	if err := h.c.get(ctx, string(info), &body); err != nil {
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

// eraseAll sends and follows until each drive is erased.
func (e *eraser) eraseAll(ctx context.Context) error {
	pauses := e.h.c.bmc.timing.wait(always)
	defer pauses.stop()
	for {
		done, err := e.round(ctx)
		if err != nil || done {
			return err
		}
		if err := e.h.progress(e.run, e.percent(), e.summary()); err != nil {
			return err
		}
		if _, err := pauses.next(ctx, 0); err != nil {
			return err
		}
	}
}

// always is the length of a wait that only its context ends.
const always = 365 * 24 * time.Hour

// round looks after each drive once.
func (e *eraser) round(ctx context.Context) (done bool, err error) {
	running, waiting, left := 0, 0, 0
	for _, r := range e.records {
		if r.State == eraseSent || r.State == eraseAccepted {
			if err := e.follow(ctx, r); err != nil {
				return false, err
			}
		}
		switch {
		case r.State == eraseDone:
		case r.State == "":
			left++
		case r.waits:
			waiting++
		default:
			running++
		}
	}
	var all []*task
	for _, r := range e.records {
		if r.State != "" || running >= erasesAtOnce {
			continue
		}
		if all == nil {
			if all, err = e.h.c.tasks(ctx); err != nil {
				return false, err
			}
		}
		if err := e.send(ctx, r, all); err != nil {
			return false, err
		}
		left--
		running++ // until the next round says more
	}
	switch {
	case left+running+waiting == 0:
		return true, nil
	case left+running == 0:
		return false, e.restart(ctx)
	}
	return false, nil
}

// send begins the erase of one drive. That it is sent is journaled before it is; all are the
// tasks that there are.
func (e *eraser) send(ctx context.Context, r *eraseRecord, all []*task) error {
	sent := false
	q := request{Method: http.MethodPost, Path: r.way.target, Intent: func() error {
		sent = true
		r.State, r.Sanitization, r.Before, r.Lost = eraseSent, r.way.sanitization, nil, false
		for _, t := range all {
			if r.isFor(t) || t.Payload.TargetURI == "" && t.erases() {
				r.Before = append(r.Before, t.mark())
			}
		}
		r.work = work{action: r.action, Target: r.way.target, Sent: e.h.c.bmc.clock(), Began: time.Now().Round(0)}
		return e.save()
	}}
	if r.way.sanitization != "" {
		q.Body = map[string]any{"SanitizationType": r.way.sanitization}
	}
	got, err := e.h.change(ctx, q)
	r.looked = time.Now()
	refusal, answered := asRefusal(err)
	switch {
	case err == nil:
		r.State, r.Answered, r.Task = eraseAccepted, true, e.h.c.taskOf(got)
		return e.save()
	case sent && answered && refusal.Status < http.StatusInternalServerError:
		// The BMC did not carry it out.
		r.State = ""
		if err := e.save(); err != nil {
			return err
		}
		return notErasable(r.drive.Serial, refusal)
	case sent && (answered || isLost(err)):
		// It may have been carried out: follow finds out.
		if refusal != nil && refusal.Status == http.StatusServiceUnavailable {
			r.notReady++
		}
		if ctx.Err() != nil {
			return context.Cause(ctx) // this worker ends: the next one reads, as after a crash
		}
		r.Lost = true
		return e.save()
	default:
		return err
	}
}

func notErasable(serial string, r *refusal) error {
	return hardware.Refused(device.CodeDriveNotErasable,
		"see the drive on the BMC, take it out of its volume or replace it; then clean the server again",
		"the controller refuses to erase the drive %s: %s", serial, r.Error())
}

// restart gives staged erases their reset. The power layer refuses it while anything is being
// erased or written.
func (e *eraser) restart(ctx context.Context) error {
	for _, r := range e.records {
		if !r.waits || r.State == eraseDone {
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
	return e.h.restartForDrives(ctx, e.run)
}

// restartForDrives resets the server for erases that it carries out in POST, which takes as
// long as they do.
func (h *handle) restartForDrives(ctx context.Context, run hardware.StepRun) error {
	err := h.restart(ctx, run)
	if f, ok := device.AsFault(err); ok && f.Code == device.CodeNoProgress {
		if writes := h.checkNothingWrites(ctx); writes != nil {
			return nil //nolint:nilerr // it is POST that erases; the caller follows it
		}
	}
	return err
}

// percent is how far all drives are.
func (e *eraser) percent() int {
	sum := 0
	for _, r := range e.records {
		if r.State == eraseDone {
			sum += 100
		} else {
			sum += r.percent
		}
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
		case r.State != "" && r.waits:
			now = append(now, r.drive.Serial+" waits for a reset")
		case r.State != "":
			now = append(now, fmt.Sprintf("%s %d %%", r.drive.Serial, r.percent))
		}
	}
	if len(now) > 4 {
		now = append(now[:3], fmt.Sprintf("%d more", len(now)-3))
	}
	return fmt.Sprintf("%d of %d drives erased; %s", done, len(e.records), strings.Join(now, ", "))
}
