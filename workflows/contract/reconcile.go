package contract

import (
	"strings"
	"time"

	"burnish/internal/device"
)

// WorkflowInventoryReconcile is the type of the one workflow per cloud that compares the
// providers in its inventory with the devices (S0.30).
const WorkflowInventoryReconcile = "InventoryReconcile"

// ReconcileWorkflowID is the ID of a cloud's workflow.
func ReconcileWorkflowID(cloud string) string { return "placement/" + strings.ToLower(cloud) }

// SignalReconcileNow asks for a reconciliation at once; its input is a ReconcileRequest.
const SignalReconcileNow = "reconcile_now"

// QueryReconcile answers with a PlacementState.
const QueryReconcile = "inventory_reconcile"

// UpdateCandidates asks which devices could be imported; it answers with Candidates.
const UpdateCandidates = "candidates"

// Activities of a control worker with a Placement.
const (
	ActivityReconcileInventory = "ReconcileInventory"
	ActivityCandidates         = "Candidates"
)

// ReconcileRequest is the input of the signal reconcile_now to a cloud's workflow. Without Hosts
// and Instances it asks for a full one.
type ReconcileRequest struct {
	Source string `json:"source,omitempty"`
	// Hosts and Instances say where something happened: the devices of these hosts, in
	// Burnish's names, and those that these instances have.
	Hosts     []string `json:"hosts,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Full asks for a full reconciliation beside that.
	Full bool `json:"full,omitempty"`
	// Interval is the pause between two full reconciliations, from now on; nil changes nothing, 0 is none.
	Interval *time.Duration `json:"interval,omitempty"`
}

// InventoryReconcileInput starts the workflow of a cloud, with the pause between two sweeps; with
// a State it goes on from an earlier run.
type InventoryReconcileInput struct {
	Cloud    string                   `json:"cloud"`
	Interval time.Duration            `json:"interval,omitempty"`
	State    *InventoryReconcileState `json:"state,omitempty"`
}

// InventoryReconcileState survives continue-as-new. Add fields, never rename one.
type InventoryReconcileState struct {
	Schema int    `json:"schema"`
	Cloud  string `json:"cloud"`
	// Interval is the pause between two full reconciliations, 0 where there is none; Next is when the next
	// one is due, Due that one is asked for.
	Interval  time.Duration `json:"interval,omitempty"`
	Next      time.Time     `json:"next,omitzero"`
	Requested bool          `json:"requested,omitempty"`
	// Hosts and Instances are those at which a look is asked for and not done.
	Hosts     []string `json:"hosts,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Missing are the devices without a provider, Mismatches the disagreements that the
	// last sweep saw (S2.52), KeptMismatches of them at most.
	Missing    []string   `json:"missing,omitempty"`
	Mismatches []Mismatch `json:"mismatches,omitempty"`
	// Sweeps counts whole sweeps, Looks those at some hosts.
	FullRuns     int             `json:"full_runs,omitempty"`
	PartialRuns  int             `json:"partial_runs,omitempty"`
	Last         ReconcileCounts `json:"last"`
	ReconciledAt time.Time       `json:"reconciled_at,omitzero"`
	// Fault is why the last sweep or look did not come to its end.
	Fault *device.Fault `json:"fault,omitempty"`
}

// KeptMismatches bounds the mismatches that are listed.
const KeptMismatches = 50

// Mismatch is a device whose state and provider disagree (S2.52).
type Mismatch struct {
	Name string `json:"name"`
	What string `json:"what"`
}

// ReconcileInput is one reconciliation: of everything, or, with Hosts or Instances, of their devices.
type ReconcileInput struct {
	Hosts     []string `json:"hosts,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Missing are the devices that had no provider before: they are told once.
	Missing []string `json:"missing,omitempty"`
}

// ReconcileResult is what a reconciliation found. Missing is whole where it was.
type ReconcileResult struct {
	Missing    []string        `json:"missing,omitempty"`
	Mismatches []Mismatch      `json:"mismatches,omitempty"`
	Counts     ReconcileCounts `json:"counts"`
}

// ReconcileCounts is a reconciliation in numbers.
type ReconcileCounts struct {
	// Providers counts those that were looked at, Devices the enrolled ones they were
	// compared with, Hinted those of them that were asked to look for themselves.
	Providers int `json:"providers"`
	Devices   int `json:"devices"`
	Hinted    int `json:"hinted"`
	Missing   int `json:"missing"`
	Mismatch  int `json:"mismatch"`
	// Unenrolled counts one-time-use providers of devices that nobody enrolled: they
	// are never touched (S0.35).
	Unenrolled int `json:"unenrolled"`
}

// CandidatesInput asks for the providers of devices that could be imported, those of one
// host or of all, in the order of names, after a name, at most so many.
type CandidatesInput struct {
	Host  string `json:"host,omitempty"`
	After string `json:"after,omitempty"`
	Limit int    `json:"limit"`
}

// Candidates answers; More says that there are others after the last.
type Candidates struct {
	Devices []Candidate `json:"devices"`
	More    bool        `json:"more,omitempty"`
}

// Candidate is one device that another service made a provider for and that is not
// enrolled.
type Candidate struct {
	Name     string `json:"name"`
	Host     string `json:"host"`
	Address  string `json:"address"`
	Class    string `json:"class"`
	Reserved int    `json:"reserved"`
	Total    int    `json:"total"`
	Used     int    `json:"used"`
	// Provider is the UUID of the provider that says so.
	Provider string `json:"provider,omitempty"`
}
