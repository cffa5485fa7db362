package lifecycle_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// dry asks what an update would do.
func (w *deviceEnv) dry(update string, in any) (would contract.DryRun) {
	w.t.Helper()
	input, err := json.Marshal(in)
	require.NoError(w.t, err)
	value, err := w.env.QueryWorkflow(contract.QueryDryRun, contract.DryRunInput{Update: update, Input: input})
	require.NoError(w.t, err)
	require.NoError(w.t, value.Get(&would))
	return would
}

// dryActs are updates with their inputs.
var dryActs = map[string]struct {
	update string
	in     any
}{
	"provide":         {contract.VerbProvide.Update(), contract.ReasonInput{}},
	"clean":           {contract.VerbClean.Update(), contract.CleanInput{}},
	"named steps":     {contract.VerbClean.Update(), contract.CleanInput{Steps: []string{"zero", "verify"}}},
	"an unknown step": {contract.VerbClean.Update(), contract.CleanInput{Steps: []string{"polish"}}},
	"a runbook":       {contract.VerbClean.Update(), contract.CleanInput{Runbook: "none"}},
	"abort":           {contract.VerbAbort.Update(), contract.ReasonInput{}},
	"release_hold":    {contract.VerbReleaseHold.Update(), contract.ReasonInput{}},
	"manage":          {contract.VerbManage.Update(), contract.ReasonInput{}},
	"manage of i1":    {contract.VerbManage.Update(), contract.TenantInput{Instance: "i1"}},
	"maintain":        {contract.VerbMaintain.Update(), contract.MaintenanceInput{Reason: "fan"}},
	"maintain off":    {contract.VerbMaintain.Update(), contract.MaintenanceInput{Off: true}},
	"retire":          {contract.VerbRetire.Update(), contract.ReasonInput{Reason: "old"}},
	"retire of i1":    {contract.VerbRetire.Update(), contract.RetireInput{Reason: "old", Instance: "i1"}},
	"retire of i2":    {contract.VerbRetire.Update(), contract.RetireInput{Reason: "old", Instance: "i2"}},
	"retire as lost":  {contract.VerbRetire.Update(), contract.RetireInput{Reason: "old", Lost: true, Instance: "i1"}},
	"forget":          {contract.VerbForget.Update(), contract.TenantInput{Instance: "i1"}},
	"label":           {contract.VerbLabel.Update(), contract.LabelInput{LabelChange: device.LabelChange{Set: map[string]string{"rack": "a"}}}},
	"no label":        {contract.VerbLabel.Update(), contract.LabelInput{LabelChange: device.LabelChange{Remove: []string{"rack"}}}},
	"a wrong label":   {contract.VerbLabel.Update(), contract.LabelInput{LabelChange: device.LabelChange{Set: map[string]string{"rack": "a b"}}}},
	"replace":         {contract.VerbReplace.Update(), contract.ReplaceInput{Instance: "i1"}},
	"move":            {contract.VerbMove.Update(), contract.MoveInput{Enrollment: contract.Enrollment{Name: "d2"}, Instance: "i1"}},
	"move nowhere":    {contract.VerbMove.Update(), contract.MoveInput{Enrollment: contract.Enrollment{Name: "d1"}}},
}

// A dry run is no event: it changes neither state nor acts, and a device that was asked a
// hundred times passes on what it would have passed on.
func TestADryRunLeavesNoEvent(t *testing.T) {
	w := newBound(t)
	w.idle()
	before := w.state()
	w.idle()
	upserts, memos := w.upserts, w.memos
	for range 100 {
		for _, act := range dryActs {
			w.dry(act.update, act.in)
		}
	}
	require.Equal(t, []int{upserts, memos}, []int{w.upserts, w.memos})
	require.Equal(t, before, w.state())
	require.Equal(t, device.CodeInvalid, w.dry("polish", contract.ReasonInput{}).Refusal.Fault.Code)
	require.Equal(t, device.CodeInvalid, w.dry(contract.VerbRetire.Update(), []string{"no input"}).Refusal.Fault.Code)
}

// Labels are kept with the device: from its enrollment, over later runs and another slot. They
// show in the listing, and changing them is an act.
func TestLabelsAreKept(t *testing.T) {
	w := newDeviceEnv(t, standardPolicy())
	e := w.enrollment()
	e.Labels = map[string]string{"rack": "a"}
	ok[contract.Result](w.send(contract.VerbEnroll.Update(), "", contract.EnrollInput{Enrollment: e}))
	require.Equal(t, e.Labels, w.view().Labels)
	require.Equal(t, e.Labels, w.publishedMemo.Labels)
	label := func(change device.LabelChange) *call {
		return w.send(contract.VerbLabel.Update(), "", contract.LabelInput{LabelChange: change, Caller: ann})
	}
	state := w.view().UpdatedAt
	ok[contract.Result](label(device.LabelChange{Set: map[string]string{"tier": "gold"}}))
	require.Equal(t, []string{"enroll", "label tier=gold"}, w.verbs())
	require.Equal(t, "ann (42)", w.lastAct().By)
	require.Equal(t, state, w.view().UpdatedAt, "a label is no change of the device")
	f := label(device.LabelChange{Set: map[string]string{"rack": "b"}}).refused(device.CodeInvalid).Fault
	require.Equal(t, []string{"label rack is a already", "use --overwrite"}, []string{f.Message, f.Remedy})
	require.True(t, ok[contract.Result](label(device.LabelChange{Set: map[string]string{"rack": "a"}})).Already)
	ok[contract.Result](label(device.LabelChange{Set: map[string]string{"rack": "b"}, Overwrite: true}))
	ok[contract.Result](w.enroll(false)) // again: the labels that it has stay
	w.nextRun()
	want := map[string]string{"rack": "b", "tier": "gold"}
	require.Equal(t, want, w.view().Labels)
	require.Equal(t, want, w.publishedMemo.Labels)
	ok[contract.Result](label(device.LabelChange{Remove: []string{"rack", "tier"}}))
	require.Empty(t, w.view().Labels)
}

// A device says since when it has its state; what changes nothing of it keeps that time.
func TestStateSince(t *testing.T) {
	w := newAvailable(t)
	since := w.view().StateSince
	require.NotZero(t, since)
	w.pass(time.Hour)
	ok[contract.Result](w.maintain(false))
	require.Equal(t, since, w.view().StateSince)
	require.True(t, w.view().UpdatedAt.After(since))
	ok[contract.Result](w.ask(contract.VerbManage.Update()))
	require.True(t, w.view().StateSince.After(since))
}
