package contract

import (
	"encoding/json"
	"fmt"
)

// Archive contains the summaries of past cleans, the latest last, within KeptCleans and
// KeptCleanSize. It is compressed JSON (DEFLATE), a tenth of the size, because each device
// keeps it in memory and in every continue-as-new.
type Archive []byte

// With returns the archive with one more clean, and without the oldest ones that exceed
// the bounds.
func (a Archive) With(s CleanSummary) (Archive, error) {
	all, err := a.Cleans()
	if err != nil {
		return a, err
	}
	all = append(all, s)
	for {
		text, err := json.Marshal(all)
		if err != nil {
			return a, fmt.Errorf("archive a clean: %w", err)
		}
		if len(all) > KeptCleans || len(text) > KeptCleanSize && len(all) > 1 {
			all = all[1:]
			continue
		}
		compressed, err := compress(text)
		if err != nil {
			return a, fmt.Errorf("archive a clean: %w", err)
		}
		return compressed, nil
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
