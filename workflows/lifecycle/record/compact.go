package record

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

// Compact makes a state that was just read from JSON smaller, because each idle device of a
// worker keeps it in memory: its slices have no free room, and the devices of a host share the
// names of its steps. Its content stays the same.
func Compact(s *contract.DeviceState) {
	s.Steps, s.Acts = slices.Clone(s.Steps), slices.Clone(s.Acts)
	s.Bindings, s.Archive, s.Requests = slices.Clone(s.Bindings), slices.Clone(s.Archive), slices.Clone(s.Requests)
	s.Host.Steps = sharedSteps(s.Host.Steps)
}

// stepSets are the sets of steps that hosts have, by content: one for each version of the
// host worker.
var stepSets sync.Map

// sharedSteps is a set of steps that all devices with the same one share. None changes it: a
// discovery replaces it.
func sharedSteps(versions map[string]int) map[string]int {
	if len(versions) == 0 {
		return versions
	}
	var key strings.Builder
	for _, step := range workflow.DeterministicKeys(versions) {
		key.WriteString(strconv.Quote(step) + strconv.Itoa(versions[step]))
	}
	shared, _ := stepSets.LoadOrStore(key.String(), versions)
	if set, ok := shared.(map[string]int); ok {
		return set
	}
	return versions
}

// CompactPayloads makes smaller what the SDK keeps of the search attributes and the memo that a
// run began with: devices share the description of a value's type, which takes more than most
// values.
func CompactPayloads(fields map[string]*commonpb.Payload) {
	for _, name := range workflow.DeterministicKeys(fields) {
		if value := fields[name]; value != nil {
			value.Metadata = sharedMetadata(value.Metadata)
		}
	}
}

// metadataSets are the descriptions of values' types, by content: one for each type.
var metadataSets sync.Map

// sharedMetadata is a description that all values of one type share. None changes it: a new
// value has its own.
func sharedMetadata(of map[string][]byte) map[string][]byte {
	if len(of) == 0 {
		return of
	}
	var key strings.Builder
	for _, name := range workflow.DeterministicKeys(of) {
		key.WriteString(strconv.Quote(name) + strconv.Quote(string(of[name])))
	}
	shared, _ := metadataSets.LoadOrStore(key.String(), of)
	if set, ok := shared.(map[string][]byte); ok {
		return set
	}
	return of
}
