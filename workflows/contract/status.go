package contract

import (
	"time"

	"burnish/internal/device"
)

// CleanStep is a step as listings show it (S3.10).
type CleanStep struct {
	Step      string  `json:"step"`
	Priority  float64 `json:"priority"`
	Interface string  `json:"interface"`
}

// StatusProgress is the progress of the running step.
type StatusProgress struct {
	Percent float64 `json:"percent"`
	Done    int64   `json:"done_bytes"`
	Total   int64   `json:"total_bytes"`
	Waiting string  `json:"waiting,omitempty"`
	// Doing is what a step does that counts no bytes.
	Doing string `json:"doing,omitempty"`
	// Attempt counts the attempts of the running step, from 1.
	Attempt int32 `json:"attempt,omitempty"`
	// ProgressAt is when the step last made progress, BudgetEnds when its budget ends.
	ProgressAt time.Time `json:"progress_at,omitzero"`
	BudgetEnds time.Time `json:"budget_ends,omitzero"`
}

// DeviceStatus is one device as the command line, the HTTP API and the query show it. Its
// times, but those of Bindings and Cleans, are in UTC and whole seconds, wherever it comes from.
type DeviceStatus struct {
	UUID         string    `json:"uuid"`
	Name         string    `json:"name"`
	Type         string    `json:"type"`
	Vendor       string    `json:"vendor"`
	Model        string    `json:"model"`
	Serial       string    `json:"serial"`
	Hostname     string    `json:"hostname"`
	StdBoardInfo BoardInfo `json:"std_board_info"`
	// VendorBoardInfo is Cyborg's, and null: Burnish knows nothing more of a board.
	VendorBoardInfo   *string          `json:"vendor_board_info"`
	Status            device.Status    `json:"status"`
	DeviceState       device.State     `json:"device_state"`
	Dirty             bool             `json:"dirty"`
	Maintenance       bool             `json:"maintenance"`
	MaintenanceReason string           `json:"maintenance_reason"`
	CleanStep         *CleanStep       `json:"clean_step"`
	Progress          *StatusProgress  `json:"progress"`
	InstanceUUID      *string          `json:"instance_uuid"`
	LastError         string           `json:"last_error"`
	LastRefusal       string           `json:"last_refusal"`
	NeedsOperator     bool             `json:"needs_operator"`
	Fault             string           `json:"fault"`
	Remedy            string           `json:"remedy"`
	CreatedAt         time.Time        `json:"created_at"`
	UpdatedAt         time.Time        `json:"updated_at"`
	Driver            string           `json:"driver"`
	Owner             device.Owner     `json:"owner"`
	OneTimeUse        bool             `json:"one_time_use"`
	NotSanitized      bool             `json:"not_sanitized"`
	Operation         device.Operation `json:"operation"`
	// Path is where the host finds the device, Firmware its revision.
	Path      string `json:"path,omitempty"`
	Firmware  string `json:"firmware,omitempty"`
	SizeBytes int64  `json:"size_bytes,omitempty"`
	// MAC is a NIC's own. LiveMigratable: an instance with the device can be migrated while it
	// runs.
	MAC            string `json:"mac,omitempty"`
	LiveMigratable bool   `json:"live_migratable,omitempty"`
	// ErasePolicy is what the device's own entry of device_spec says about its erase.
	ErasePolicy string      `json:"erase_policy,omitempty"`
	Binding     int         `json:"binding"`
	ClaimedBy   string      `json:"claimed_by,omitempty"`
	Steps       []CleanStep `json:"steps,omitempty"`
	// Runbook is the runbook of the running clean.
	Runbook string `json:"runbook,omitempty"`
	// Waiting is what the device waits for, and why; nil if it waits for nothing.
	Waiting *StatusWait `json:"waiting,omitempty"`
	// Pool is the device's pool; nil if it has none.
	Pool *StatusPool `json:"pool,omitempty"`
	// Override is a pending override, or why the device is not sanitized. Listings have none.
	Override *StatusOverride `json:"override,omitempty"`
	// Labels are the operator's own words for the device.
	Labels map[string]string `json:"labels,omitempty"`
	// StateSince is when the device got its state. Listings have none.
	StateSince time.Time `json:"state_since,omitzero"`
	// Setup is how a server was set up when it was enrolled. Only the query returns it.
	Setup device.Setup `json:"setup,omitempty"`
	// Bindings, Cleans and Acts are the history, the latest last. Only the query returns them.
	Bindings []device.Binding `json:"bindings,omitempty"`
	Cleans   []CleanSummary   `json:"cleans,omitempty"`
	Acts     []Act            `json:"acts,omitempty"`
}

// AwaitsCleaning says whether the device is in pending_cleaning, or in error while dirty.
func (v DeviceStatus) AwaitsCleaning() bool {
	return v.DeviceState == device.PendingCleaning || v.DeviceState == device.Error && v.Dirty
}

// StatusMemo is the memo `status`: what a listing shows beyond the search attributes. It
// changes rarely: a turnover without a fault never writes it.
type StatusMemo struct {
	Name              string           `json:"name"`
	Vendor            string           `json:"vendor,omitempty"`
	Model             string           `json:"model,omitempty"`
	StdBoardInfo      BoardInfo        `json:"std_board_info"`
	Path              string           `json:"path,omitempty"`
	Firmware          string           `json:"firmware,omitempty"`
	SizeBytes         int64            `json:"size_bytes,omitempty"`
	MAC               string           `json:"mac,omitempty"`
	LiveMigratable    bool             `json:"live_migratable,omitempty"`
	Status            device.Status    `json:"status"`
	Maintenance       bool             `json:"maintenance,omitempty"`
	MaintenanceReason string           `json:"maintenance_reason,omitempty"`
	LastError         string           `json:"last_error,omitempty"`
	LastRefusal       string           `json:"last_refusal,omitempty"`
	Remedy            string           `json:"remedy,omitempty"`
	CreatedAt         time.Time        `json:"created_at"`
	Driver            string           `json:"driver"`
	Owner             device.Owner     `json:"owner"`
	OneTimeUse        bool             `json:"one_time_use,omitempty"`
	NotSanitized      bool             `json:"not_sanitized,omitempty"`
	Operation         device.Operation `json:"operation,omitempty"`
	Steps             []CleanStep      `json:"steps,omitempty"`
	// Provider is the UUID of the device's provider if Nova owns it. Generation is the
	// provider's while the device is available: a later one means that somebody wrote it.
	// Bindings and Cleans are at least so many: higher ones elsewhere mean that these are to be
	// published again, or that the workflow's memory is older (F36).
	Provider   string      `json:"provider,omitempty"`
	Generation int64       `json:"generation,omitempty"`
	Bindings   int         `json:"bindings,omitempty"`
	Cleans     int         `json:"cleans,omitempty"`
	Waiting    *StatusWait `json:"waiting,omitempty"`
	// Pool is the device's pool; nil if it has none.
	Pool *StatusPool `json:"pool,omitempty"`
	// Labels are the operator's own words for the device.
	Labels map[string]string `json:"labels,omitempty"`
	// Left is the instance that had a device last which waits for its operator: its provider
	// may still record it.
	Left string `json:"left,omitempty"`
}

// MemoStatus is the memo's key.
const MemoStatus = "status"
