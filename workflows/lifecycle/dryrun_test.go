package lifecycle_test

import (
	"encoding/json"
	"testing"

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
