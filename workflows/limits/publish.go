package limits

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/calls"
	"burnish/workflows/contract"
)

// shownInLine bounds the requests that the Web UI shows.
const shownInLine = 50

// publish writes what the Web UI shows, and the alarm if it changed. One alarm stands for
// all devices that wait.
func (l *run) publish(ctx workflow.Context) {
	alarms := l.alarms()
	var fault device.Code
	if len(alarms) > 0 {
		fault = alarms[0].Code
	}
	calls.PublishFault(ctx, &l.Published, fault)
	workflow.SetCurrentDetails(ctx, l.details(alarms))
}

// details is the Markdown that the Web UI shows of the workflow.
func (l *run) details(alarms []contract.LimitsAlarm) string {
	var b strings.Builder
	s := l.status("", shownInLine)
	fmt.Fprintf(&b, "**%d** cleans run, **%d** requests wait\n\n", s.Running, s.Queued)
	for _, a := range alarms {
		fmt.Fprintf(&b, "- **needs the operator** (%d wait): %s; %s\n", a.Waiting, a.Message, a.Remedy)
	}
	if limits := l.limits(); l.Limits != nil {
		var parts []string
		for _, part := range []struct {
			name string
			n    int
		}{{"concurrent_cleans", limits.ConcurrentCleans}, {"per_host", limits.PerHost}, {"breaker", limits.Breaker}} {
			if part.n > 0 {
				parts = append(parts, fmt.Sprintf("%s %d", part.name, part.n))
			}
		}
		if limits.FreeCapacity != (device.Capacity{}) {
			parts = append(parts, "free_capacity "+limits.FreeCapacity.String())
		}
		if limits.Canary {
			parts = append(parts, "canary")
		}
		fmt.Fprintf(&b, "- limits: %s\n", strings.Join(parts, ", "))
	}
	for _, w := range s.Waiting {
		fmt.Fprintf(&b, "- %s, since %s: %s\n", w.Device, w.Since.UTC().Format(time.RFC3339), w.Message)
	}
	if more := s.Queued - len(s.Waiting); more > 0 {
		fmt.Fprintf(&b, "- and %d more\n", more)
	}
	return b.String()
}

// packed is the state with its requests compressed, for a continue-as-new: a whole fleet
// may wait.
func packed(s *contract.LimitsState) (*contract.LimitsState, error) {
	compressed, err := contract.Compress(s.Slots)
	if err != nil {
		return nil, fmt.Errorf("pack the queue: %w", err)
	}
	next := *s
	next.Slots, next.Packed = nil, compressed
	return &next, nil
}

func unpack(s *contract.LimitsState) error {
	if len(s.Packed) == 0 {
		return nil
	}
	if err := contract.Decompress(s.Packed, &s.Slots); err != nil {
		return fmt.Errorf("unpack the queue: %w", err)
	}
	s.Packed = nil
	return nil
}
