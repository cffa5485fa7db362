package lifecycle

import (
	"fmt"
	"maps"
	"slices"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// checkImportHistory refuses what no export has: it decides nothing, but everybody reads it.
func (d *State) checkImportHistory(in contract.ImportHistoryInput) error {
	err := device.CheckLabels(d.labelsWith(in))
	if err == nil && (len(in.Cleans) > contract.KeptCleans || len(in.Acts) > contract.KeptActs) {
		err = fmt.Errorf("a device has %d cleans and %d acts at most", contract.KeptCleans, contract.KeptActs)
	}
	byNumber := func(a, b contract.CleanSummary) int { return a.Number - b.Number }
	byTime := func(a, b contract.Act) int { return a.At.Compare(b.At) }
	if err == nil && !(slices.IsSortedFunc(in.Cleans, byNumber) && slices.IsSortedFunc(in.Acts, byTime)) {
		err = fmt.Errorf("cleans or acts are not in their order, the latest last")
	}
	if err != nil {
		return d.refuse(device.CodeInvalid, err.Error(), "give what burnish export wrote")
	}
	return nil
}

// labelsWith are the device's labels, with those of an export that it has not.
func (d *State) labelsWith(in contract.ImportHistoryInput) map[string]string {
	labels := maps.Clone(in.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, d.Enrollment.Labels)
	return labels
}

// importHistory puts what an export kept before the device's own history: cleans whose numbers the device has counted
// and has no record of, and acts from before its own. Bindings are not taken over: answers depend on them.
func (d *State) importHistory(j *Job, in contract.ImportHistoryInput) {
	own, err := d.Archive.Cleans()
	if err != nil {
		d.refused(j, err)
		return
	}
	first := d.Cleans + 1
	if d.Clean != nil {
		first = d.Clean.Number
	}
	if len(own) > 0 {
		first = min(first, own[0].Number)
	}
	cleans := slices.DeleteFunc(slices.Clone(in.Cleans), func(c contract.CleanSummary) bool {
		return c.Number < 1 || c.Number >= first
	})
	began := d.now
	if len(d.Acts) > 0 {
		began = d.Acts[0].At
	}
	acts := slices.DeleteFunc(slices.Clone(in.Acts), func(a contract.Act) bool { return !a.At.Before(began) })
	labels := d.labelsWith(in)
	if len(cleans)+len(acts) == 0 && maps.Equal(labels, d.Enrollment.Labels) {
		d.unchanged(j)
		return
	}
	d.Archive, d.Acts, d.Enrollment.Labels = nil, d.Acts.After(acts), labels
	for _, c := range append(cleans, own...) {
		d.Archive = d.by.Archive(d.Archive, c)
	}
	d.carriedOut(j)
}
