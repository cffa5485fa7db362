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
// worker keeps it in memory: its slices have no free room, the strings of its lists are in one
// piece, and the devices of a host share the names of its steps. Its content stays the same.
func Compact(s *contract.DeviceState) {
	s.Recent, s.History, s.Steps, s.Acts = slices.Clone(s.Recent), slices.Clone(s.History), slices.Clone(s.Steps), slices.Clone(s.Acts)
	s.Bindings, s.Archive = slices.Clone(s.Bindings), slices.Clone(s.Archive)
	var texts []*string
	for i := range s.Recent {
		texts = append(texts, &s.Recent[i].ID)
	}
	for i := range s.History {
		b := &s.History[i]
		texts = append(texts, &b.Instance, &b.Request, &b.Tag, &b.Ended)
	}
	join(texts)
	s.Host.Steps = sharedSteps(s.Host.Steps)
}

// join gives strings one backing, in which each of them is once.
func join(texts []*string) {
	var all strings.Builder
	begin := make(map[string]int, len(texts))
	for _, text := range texts {
		if _, ok := begin[*text]; !ok {
			begin[*text] = all.Len()
			all.WriteString(*text)
		}
	}
	backing := strings.Clone(all.String())
	for _, text := range texts {
		at := begin[*text]
		*text = backing[at : at+len(*text)]
	}
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

// CompactAttributes makes smaller what the SDK keeps of the search attributes that a run began
// with: devices share the description of a value's type, which takes more than the value.
func CompactAttributes(attributes *commonpb.SearchAttributes) {
	fields := attributes.GetIndexedFields()
	for _, name := range workflow.DeterministicKeys(fields) {
		if value := fields[name]; value != nil {
			value.Metadata = sharedMetadata(value.Metadata)
		}
	}
}

// metadataSets are the descriptions of search attributes' types, by content: one for each type.
var metadataSets sync.Map

// sharedMetadata is a description that all attributes of one type share. None changes it: a new
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
