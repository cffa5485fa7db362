package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"burnish/internal/device"
)

// Entry is how far the latest step on a device got (SAFETY F2). Write it only under
// the device's fence, after the device itself was flushed, so that it is never
// ahead of the device.
type Entry struct {
	// Seq and Attempt say which scheduling and which attempt of it wrote this.
	Seq     int64 `json:"seq"`
	Attempt int32 `json:"attempt"`
	// Clean, Step, Serial and Size say what Offset counts.
	Clean  string `json:"clean"`
	Step   string `json:"step"`
	Serial string `json:"serial"`
	Size   int64  `json:"size"`
	Offset int64  `json:"offset"`
	// Reads: the step only reads. What it read holds for the attempt alone, while that has the
	// device: nothing held the device afterwards (F37).
	Reads bool `json:"reads,omitempty"`
	// RunTime is the running time that the step has used of its budget (F8).
	RunTime time.Duration `json:"run_time"`
	// Reprocessed is how many bytes at most were processed twice because of crashes: two
	// chunks for each crash.
	Reprocessed int64 `json:"reprocessed,omitempty"`
	// Under is the reservation under which the host signs the work, and the place of the device (F44). Work under
	// another one does not count.
	Under string `json:"under,omitempty"`
	// Working: the attempt uses the device. An attempt that crashed leaves it set.
	Working bool `json:"working,omitempty"`
	// Slot: the clean has one of the host's slots, and its next step or attempt is to have it.
	Slot bool `json:"slot,omitempty"`
	// Done says that the step ended well and Result is what it reported.
	Done   bool            `json:"done,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Evidence is what the steps of one clean save for later steps, by name; EvidenceOf
	// is the clean's ID.
	Evidence   map[string]json.RawMessage `json:"evidence,omitempty"`
	EvidenceOf string                     `json:"evidence_of,omitempty"`
	// Updated is set by Save.
	Updated time.Time `json:"updated"`
}

// Journal is the resume point of one device. An entry is never removed: its Seq
// keeps superseded schedulings away for as long as the device has its name.
type Journal struct {
	folder string
	name   string
	saving *keyedMutex
}

// Journal gives the journal of the device called name.
func (h *Host) Journal(name string) *Journal {
	return &Journal{folder: h.path(journalFolder), name: name, saving: &h.saving}
}

// Load reads the entry, and whether there is one.
//
// A *CorruptError means that there is a file and nothing in it may be used: log it
// and begin the step at offset 0. The Seq is lost with it, so admit against the
// record's instead: Admit(Entry{Seq: record.Seq}, true, …). Any other error (a fault
// state_dir_error) means that the entry could not be read: do not start the step.
func (j *Journal) Load() (Entry, bool, error) {
	return load[Entry](j.folder, j.name)
}

// Save replaces the entry. When it returns nil the entry is on stable storage; after
// an error the file holds the old entry or the new one, complete. A full or failing disk is
// a transient fault state_dir_error.
//
// The entry of a newer scheduling or attempt is not replaced: the error is a fault
// superseded. The fence alone does not prevent that, because its key is the serial: after
// a replacement, an attempt that still hangs on the old hardware has another fence than
// the steps of the new one, under the same name.
func (j *Journal) Save(e Entry) error {
	turn, err := j.saving.lock(context.Background(), j.name, func(string) {})
	if err != nil {
		return err
	}
	defer turn.unlock()
	stored, found, err := j.Load()
	switch {
	case errors.As(err, new(*CorruptError)): // nothing in it may be used
	case err != nil:
		return stateDirFault(fmt.Sprintf("could not save the journal of %s: %v", j.name, err), j.folder)
	case found && stored.Seq > e.Seq:
		return supersededScheduling(e.Seq, stored.Seq).Fault
	case found && stored.Seq == e.Seq && stored.Attempt > e.Attempt:
		return supersededAttempt(e.Attempt, stored.Attempt).Fault
	}
	e.Updated = time.Now().UTC()
	return save(j.folder, j.name, e)
}

// Journaled is one entry with its device's name.
type Journaled struct {
	Name  string
	Entry Entry
}

// Entries reads the whole journal, in the order of names, for the recovery of a
// worker that starts. The error joins a *CorruptError for each file that cannot be
// trusted; the others are returned all the same.
func (h *Host) Entries() ([]Journaled, error) {
	all, err := loadAll[Entry](h.path(journalFolder))
	var entries []Journaled
	for _, file := range all {
		if file.err != nil {
			err = errors.Join(err, file.err)
			continue
		}
		entries = append(entries, Journaled{Name: file.name, Entry: file.value})
	}
	return entries, err
}

// Admission says what an attempt may do. Exactly one of Go, Done and Fault is set; the
// zero Admission allows nothing.
type Admission struct {
	// Go: the attempt is the newest and may use the device.
	Go bool
	// Done: this scheduling ended well before and Result is what it reported.
	Done   bool
	Result json.RawMessage
	// Fault: a newer scheduling or attempt has used the device; leave it alone.
	Fault *device.Fault
}

// Admit decides whether the attempt that want describes may touch the device whose journal
// is stored (F1). want has the attempt's Seq, Attempt, Clean, Step, Serial, Size and Reads. Call it
// under the fence: an attempt that lost contact finds there the newer one that replaced it.
// Seqs and attempts only increase.
//
// A recorded "done" counts for the same step of the same clean on the same hardware only
// (F26), and never for a step that only reads: it is done again (F37). Other work under the same
// Seq means that the workflow was put back to an earlier moment and gives out numbers twice: it must
// take over the host's numbers first.
func Admit(stored Entry, found bool, want Entry) Admission {
	switch {
	case !found:
		return Admission{Go: true}
	case stored.Seq > want.Seq:
		return supersededScheduling(want.Seq, stored.Seq)
	case stored.Seq == want.Seq && !stored.sameWork(want):
		return superseded(fmt.Sprintf("scheduling %d was used before, for %s of clean %s", want.Seq, stored.Step,
			stored.Clean))
	case stored.Seq == want.Seq && stored.Done && !want.Reads:
		return Admission{Done: true, Result: stored.Result}
	case stored.Seq == want.Seq && stored.Attempt > want.Attempt:
		return supersededAttempt(want.Attempt, stored.Attempt)
	}
	return Admission{Go: true}
}

// sameWork says whether two entries are of the same step of the same clean on the same
// hardware.
func (e Entry) sameWork(other Entry) bool {
	return e.Clean == other.Clean && e.Step == other.Step && e.Serial == other.Serial && e.Size == other.Size
}

func supersededScheduling(mine, newer int64) Admission {
	return superseded(fmt.Sprintf("scheduling %d of a step was overtaken by scheduling %d", mine, newer))
}

func supersededAttempt(mine, newer int32) Admission {
	return superseded(fmt.Sprintf("attempt %d of a step was overtaken by attempt %d", mine, newer))
}

// superseded is permanent: the newer attempt reports to the workflow itself.
func superseded(message string) Admission {
	return Admission{Fault: &device.Fault{
		Class: device.Permanent, Code: device.CodeSuperseded, Message: message,
		Remedy: "none: the newer one continues",
	}}
}

// ResumeOffset gives the offset from which step of clean continues: the stored one if it is
// of the same step of the same clean on the same hardware; otherwise 0, which is always
// safe and only costs time. serial identifies the hardware.
func ResumeOffset(stored Entry, found bool, clean, step, serial string, size int64) int64 {
	switch {
	case !found,
		clean == "" || stored.Clean != clean,
		step == "" || stored.Step != step,
		stored.Serial != serial,
		stored.Size != size,
		stored.Offset < 0 || stored.Offset > size:
		return 0
	}
	return stored.Offset
}
