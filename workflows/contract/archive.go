package contract

import "fmt"

// KeptArchive bounds the bytes that an Archive takes.
const KeptArchive = 1632

// Archive contains the summaries of past cleans, the latest last, within KeptCleans and
// KeptArchive. It is compressed JSON (DEFLATE), a tenth of the size, because
// each device keeps it in memory and in every continue-as-new.
type Archive []byte

// With returns the archive with one more clean, and without the oldest ones that exceed
// the bounds.
func (a Archive) With(s CleanSummary) (Archive, error) {
	all, err := a.Cleans()
	if err != nil {
		return a, err
	}
	all = append(all, s.shortened())
	for all = all[max(len(all)-KeptCleans, 0):]; ; all = all[1:] {
		compressed, err := Compress(all)
		if err != nil || len(compressed) <= KeptArchive || len(all) == 1 {
			return compressed, err
		}
	}
}

// Cleans returns the summaries, the latest last.
func (a Archive) Cleans() ([]CleanSummary, error) {
	if len(a) == 0 {
		return nil, nil
	}
	var all []CleanSummary
	if err := Decompress(a, &all); err != nil {
		return nil, fmt.Errorf("read the archive of cleans: %w", err)
	}
	return all, nil
}

// shortened is the summary with texts that one archive can keep. The notes of a long runbook
// give way first, then its first steps.
func (s CleanSummary) shortened() CleanSummary {
	s.Reason = cut(s.Reason)
	for _, text := range []*string{&s.By, &s.Runbook, &s.RunbookDigest} {
		*text = cutTo(*text, keptName)
	}
	if s.Failure != nil {
		f := *s.Failure
		f.Step, f.Message = cutTo(f.Step, keptName), cut(f.Message)
		s.Failure = &f
	}
	if s.Override != nil {
		o := *s.Override
		o.Reason = cut(o.Reason)
		for _, text := range []*string{&o.ID, &o.RequestedBy, &o.RequestedAs, &o.ApprovedBy, &o.ApprovedAs} {
			*text = cutTo(*text, keptName)
		}
		s.Override = &o
	}
	s.Steps = append([]StepResult(nil), s.Steps...)
	for i := range s.Steps {
		step := &s.Steps[i]
		step.Step, step.Method, step.Note = cut(step.Step), cut(step.Method), cut(step.Note)
	}
	for i := 0; i < len(s.Steps) && s.tooLarge(); i++ {
		s.Steps[i].Note = ""
	}
	for len(s.Steps) > 0 && s.tooLarge() {
		s.Steps = s.Steps[1:]
	}
	return s
}

// keptName bounds the names that a summary keeps, in bytes.
const keptName = 100

// tooLarge says that an archive of this summary alone exceeds its bound.
func (s CleanSummary) tooLarge() bool {
	alone, err := Compress([]CleanSummary{s})
	return err == nil && len(alone) > KeptArchive
}
