package contract

import (
	"strings"
	"time"

	"burnish/internal/device"
)

// WorkflowHostScan is the type of a host's workflow, which discovers its devices
// automatically (S2.6).
const WorkflowHostScan = "HostScan"

// HostScanWorkflowID is the ID of a host's workflow.
func HostScanWorkflowID(host string) string { return "host/" + strings.ToLower(host) }

// SignalScanNow asks the host's workflow for a scan; its input is a ScanRequest.
const SignalScanNow = "scan_now"

// QueryHostScan answers with a HostScanState.
const QueryHostScan = "host_scan"

// ActivityScanHost finds the devices that a host has, and enrolls the new ones.
const ActivityScanHost = "ScanHost"

// ScanRequest says that the host's devices changed, or that its worker started.
type ScanRequest struct {
	Source string `json:"source,omitempty"`
	// WorkerStarted: the host's worker started, and refused devices are tried again.
	WorkerStarted bool `json:"worker_started,omitempty"`
	// Forget names devices that were forgotten while the host was away, ForgottenNow those of
	// them that the host has forgotten since. A request with one of them asks for no scan.
	Forget       []string `json:"forget,omitempty"`
	ForgottenNow []string `json:"forgotten_now,omitempty"`
}

// MemoForgotten is the key of the memo with the names of HostScanState.Forgotten.
const MemoForgotten = "forgotten"

// KeptForgotten bounds the names that wait for one host.
const KeptForgotten = 2000

// ActivityForgetLater leaves a device's name for its host, which was away when the device was
// forgotten; its input is a ForgetLaterInput.
const ActivityForgetLater = "ForgetLater"

// ForgetLaterInput names a device and its host.
type ForgetLaterInput struct {
	Host string `json:"host"`
	Name string `json:"name"`
}

// HostScanInput starts the workflow of a host. With a State it continues an earlier run.
type HostScanInput struct {
	Host  string         `json:"host"`
	State *HostScanState `json:"state,omitempty"`
}

// HostScanState survives continue-as-new. Add fields, never rename one.
type HostScanState struct {
	Schema int    `json:"schema"`
	Host   string `json:"host"`
	// Requested: a scan is due. WorkerStarted is that of its ScanRequest.
	Requested     bool `json:"requested,omitempty"`
	WorkerStarted bool `json:"worker_started,omitempty"`
	// KnownDigests are the devices' digests as last reported, by name.
	KnownDigests map[string]string `json:"known_digests,omitempty"`
	// Refused are the devices that the host has and that could not be enrolled.
	Refused []RefusedDevice `json:"refused,omitempty"`
	// Missing are the enrolled devices that the host does not have.
	Missing []string `json:"missing,omitempty"`
	// Scans counts the scans that succeeded, Enrolled the devices that they enrolled.
	Scans    int `json:"scans,omitempty"`
	Enrolled int `json:"enrolled,omitempty"`
	// Last are the counts of the last scan that succeeded, ScannedAt is when the last scan
	// ended.
	Last      ScanCounts `json:"last"`
	ScannedAt time.Time  `json:"scanned_at,omitzero"`
	// Fault is why the last scan failed.
	Fault *device.Fault `json:"fault,omitempty"`
	// Forgotten are the devices that the host must forget before it reports its start: they
	// were forgotten while it was away.
	Forgotten []string `json:"forgotten,omitempty"`
}

// RefusedDevice is a device that could not be enrolled, and why.
type RefusedDevice struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
	// Digest is its digest when it was refused.
	Digest string      `json:"digest"`
	Code   device.Code `json:"code"`
	Reason string      `json:"reason"`
}

// ScanInput is the input of one scan, with the result of the previous one.
type ScanInput struct {
	Host         string            `json:"host"`
	KnownDigests map[string]string `json:"known_digests,omitempty"`
	Refused      []RefusedDevice   `json:"refused,omitempty"`
	Missing      []string          `json:"missing,omitempty"`
	// RetryRefused: refused devices are tried again.
	RetryRefused bool `json:"retry_refused,omitempty"`
}

// ScanResult is the result of one scan. NewDigests are those that are new or changed,
// RemovedDigests those to delete; Refused and Missing are complete.
type ScanResult struct {
	NewDigests     map[string]string `json:"new_digests,omitempty"`
	RemovedDigests []string          `json:"removed_digests,omitempty"`
	Refused        []RefusedDevice   `json:"refused,omitempty"`
	Missing        []string          `json:"missing,omitempty"`
	Counts         ScanCounts        `json:"counts"`
}

// ScanCounts are the counts of one scan.
type ScanCounts struct {
	Found    int `json:"found"`
	Enrolled int `json:"enrolled"`
	// Hinted counts the devices that were asked to re-check.
	Hinted  int `json:"hinted"`
	Refused int `json:"refused"`
	Missing int `json:"missing"`
	// Forgotten counts the devices that an operator has forgotten, which are not enrolled
	// again.
	Forgotten int `json:"forgotten"`
}
