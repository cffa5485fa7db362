package contract

import (
	"strings"
	"time"

	"burnish/internal/device"
)

// WorkflowHostScan is the type of the one workflow per host that finds its devices by
// itself (S2.6).
const WorkflowHostScan = "HostScan"

// HostScanWorkflowID is the ID of a host's workflow.
func HostScanWorkflowID(host string) string { return "host/" + strings.ToLower(host) }

// SignalScanNow asks the host's workflow for one scan; its input is a ScanRequest.
const SignalScanNow = "scan_now"

// QueryHostScan answers with a HostScanState.
const QueryHostScan = "host_scan"

// ActivityScanHost is the host worker's look at which devices are there.
const ActivityScanHost = "ScanHost"

// ScanRequest says that what the host sees has changed, or that its worker started.
type ScanRequest struct {
	Source string `json:"source,omitempty"`
	// WorkerStarted: the host's worker started; what was refused is tried once more.
	WorkerStarted bool `json:"worker_started,omitempty"`
}

// HostScanInput starts the workflow of a host; with a State it goes on from an earlier run.
type HostScanInput struct {
	Host  string         `json:"host"`
	State *HostScanState `json:"state,omitempty"`
}

// HostScanState survives continue-as-new. Add fields, never rename one.
type HostScanState struct {
	Schema int    `json:"schema"`
	Host   string `json:"host"`
	// Requested: a scan was requested and is not done; WorkerStarted is ScanRequest's.
	Requested     bool `json:"requested,omitempty"`
	WorkerStarted bool `json:"worker_started,omitempty"`
	// KnownDigests is what each device was last known by: name and digest.
	KnownDigests map[string]string `json:"known_digests,omitempty"`
	// Refused are the devices that are there and could not be enrolled.
	Refused []RefusedDevice `json:"refused,omitempty"`
	// Missing are the enrolled devices that are not there.
	Missing []string `json:"missing,omitempty"`
	// Scans counts those that were done, Enrolled the devices that they enrolled.
	Scans    int `json:"scans,omitempty"`
	Enrolled int `json:"enrolled,omitempty"`
	// Last is the last scan that was done, ScannedAt its end.
	Last      ScanCounts `json:"last"`
	ScannedAt time.Time  `json:"scanned_at,omitzero"`
	// Fault is why the last scan did not come to its end.
	Fault *device.Fault `json:"fault,omitempty"`
}

// RefusedDevice is a device that is there and is not enrolled, and why.
type RefusedDevice struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
	// Digest is what it was known by when it was refused.
	Digest string      `json:"digest"`
	Code   device.Code `json:"code"`
	Reason string      `json:"reason"`
}

// ScanInput is one scan of which devices are there, with what the last one found.
type ScanInput struct {
	Host         string            `json:"host"`
	KnownDigests map[string]string `json:"known_digests,omitempty"`
	Refused      []RefusedDevice   `json:"refused,omitempty"`
	Missing      []string          `json:"missing,omitempty"`
	// RetryRefused: what was refused is tried once more.
	RetryRefused bool `json:"retry_refused,omitempty"`
}

// ScanResult is what a scan found. NewDigests are new or changed, RemovedDigests are not
// to be kept; Refused and Missing are whole.
type ScanResult struct {
	NewDigests     map[string]string `json:"new_digests,omitempty"`
	RemovedDigests []string          `json:"removed_digests,omitempty"`
	Refused        []RefusedDevice   `json:"refused,omitempty"`
	Missing        []string          `json:"missing,omitempty"`
	Counts         ScanCounts        `json:"counts"`
}

// ScanCounts is a scan in numbers.
type ScanCounts struct {
	Found    int `json:"found"`
	Enrolled int `json:"enrolled"`
	// Hinted counts the devices that were asked to look for themselves.
	Hinted  int `json:"hinted"`
	Refused int `json:"refused"`
	Missing int `json:"missing"`
	// Forgotten counts those that an operator let go: they are left alone.
	Forgotten int `json:"forgotten"`
}
