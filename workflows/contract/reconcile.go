package contract

import (
	"strings"
	"time"

	"burnish/internal/device"
)

// WorkflowInventoryReconcile is the type of a cloud's workflow, which compares the
// providers in its inventory with the devices (S0.30).
const WorkflowInventoryReconcile = "InventoryReconcile"

// ReconcileWorkflowID is the ID of a cloud's workflow.
func ReconcileWorkflowID(cloud string) string { return "placement/" + strings.ToLower(cloud) }

// SignalReconcileNow asks for a reconciliation at once; its input is a ReconcileRequest.
const SignalReconcileNow = "reconcile_now"

// QueryReconcile answers with an InventoryReconcileState.
const QueryReconcile = "inventory_reconcile"

// UpdateCandidates asks which devices could be imported; it answers with Candidates.
const UpdateCandidates = "candidates"

// Activities of a control worker with a Placement.
const (
	ActivityReconcileInventory = "ReconcileInventory"
	ActivityCandidates         = "Candidates"
)

// ReconcileRequest is the input of the signal reconcile_now to a cloud's workflow. Without
// Hosts and Instances it asks for a full reconciliation.
type ReconcileRequest struct {
	Source string `json:"source,omitempty"`
	// Hosts and Instances ask for the devices of these hosts, by their names in Burnish, and
	// for those bound to these instances.
	Hosts     []string `json:"hosts,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Full asks for a full reconciliation as well.
	Full bool `json:"full,omitempty"`
	// Interval is from now on the time between two full reconciliations; 0 ends them, nil
	// changes nothing.
	Interval *time.Duration `json:"interval,omitempty"`
}

// InventoryReconcileInput starts the workflow of a cloud with the time between two full
// reconciliations. With a State it continues an earlier run.
type InventoryReconcileInput struct {
	Cloud    string                   `json:"cloud"`
	Interval time.Duration            `json:"interval,omitempty"`
	State    *InventoryReconcileState `json:"state,omitempty"`
}

// InventoryReconcileState survives continue-as-new. Add fields, never rename one.
type InventoryReconcileState struct {
	Schema int    `json:"schema"`
	Cloud  string `json:"cloud"`
	// Interval is the time between two full reconciliations; 0 if there are only requested
	// ones. Next is when the next one is due, Requested that one is due now.
	Interval  time.Duration `json:"interval,omitempty"`
	Next      time.Time     `json:"next,omitzero"`
	Requested bool          `json:"requested,omitempty"`
	// Hosts and Instances are those of the next partial reconciliation.
	Hosts     []string `json:"hosts,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Missing are the devices without a provider, Mismatches those that the last full
	// reconciliation found (S2.52), KeptMismatches of them at most.
	Missing    []string   `json:"missing,omitempty"`
	Mismatches []Mismatch `json:"mismatches,omitempty"`
	// Unreadable are the providers that the last full reconciliation could not read, by
	// their device's name or their own, KeptMismatches of them at most.
	Unreadable []Mismatch `json:"unreadable,omitempty"`
	// FullRuns and PartialRuns count the reconciliations that succeeded; Last and
	// ReconciledAt are those of the last full one.
	FullRuns     int             `json:"full_runs,omitempty"`
	PartialRuns  int             `json:"partial_runs,omitempty"`
	Last         ReconcileCounts `json:"last"`
	ReconciledAt time.Time       `json:"reconciled_at,omitzero"`
	// Fault is why the last reconciliation failed.
	Fault *device.Fault `json:"fault,omitempty"`
}

// KeptMismatches bounds the mismatches that are listed.
const KeptMismatches = 50

// Mismatch is a device whose state and provider disagree (S2.52).
type Mismatch struct {
	Name string `json:"name"`
	What string `json:"what"`
}

// ReconcileInput is the input of one reconciliation: of all devices or, with Hosts or
// Instances, of theirs.
type ReconcileInput struct {
	Hosts     []string `json:"hosts,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Missing are the devices that had no provider before, which are reported only once.
	Missing []string `json:"missing,omitempty"`
}

// ReconcileResult is the result of one reconciliation. Missing is complete if all devices
// were compared.
type ReconcileResult struct {
	Missing    []string        `json:"missing,omitempty"`
	Mismatches []Mismatch      `json:"mismatches,omitempty"`
	Unreadable []Mismatch      `json:"unreadable,omitempty"`
	Counts     ReconcileCounts `json:"counts"`
}

// ReconcileCounts are the counts of one reconciliation.
type ReconcileCounts struct {
	// Providers counts the providers that were read, Devices the enrolled devices that they
	// were compared with, Hinted the devices that were asked to re-check.
	Providers int `json:"providers"`
	Devices   int `json:"devices"`
	Hinted    int `json:"hinted"`
	Missing   int `json:"missing"`
	Mismatch  int `json:"mismatch"`
	// Unenrolled counts the one-time-use providers of devices that are not enrolled. They
	// are never changed (S0.35).
	Unenrolled int `json:"unenrolled"`
	// Unreadable counts the providers that are there and could not be read.
	Unreadable int `json:"unreadable,omitempty"`
}

// CandidatesInput asks for devices that could be imported: those of one host or of all,
// sorted by name, at most Limit of them, after the name After.
type CandidatesInput struct {
	Host  string `json:"host,omitempty"`
	After string `json:"after,omitempty"`
	Limit int    `json:"limit"`
}

// Candidates is the answer. More says that others follow the last one.
type Candidates struct {
	Devices []Candidate `json:"devices"`
	More    bool        `json:"more,omitempty"`
}

// Candidate is a device that has a provider of another service and is not enrolled as that
// service's.
type Candidate struct {
	Name     string `json:"name"`
	Host     string `json:"host"`
	Address  string `json:"address"`
	Class    string `json:"class"`
	Reserved int    `json:"reserved"`
	Total    int    `json:"total"`
	Used     int    `json:"used"`
	// Provider is the UUID of its provider.
	Provider string `json:"provider,omitempty"`
	// Enrolled is the owner with which it is enrolled already; such a device cannot be
	// imported.
	Enrolled device.Owner `json:"enrolled,omitempty"`
	// Fault is why its provider could not be read; it cannot be imported now.
	Fault *device.Fault `json:"fault,omitempty"`
}
