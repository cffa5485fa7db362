package limits

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// This file lets the devices of a group go on together: each that comes to a step together of its runbook waits until
// all of the group have come to theirs. A device that is behind it already counts as there, one that is retired does
// not belong to the group any more.

// keptMissing bounds how many of the missing devices an answer names.
const keptMissing = 5

// arrived records that a device has come to its nth step together.
func (q *queue) arrived(now time.Time, s *contract.Slot, n int) {
	if n > s.Arrived {
		s.Arrived, s.Answered = n, false
		q.GroupsAt, q.Looks = now, 0
	}
}

// waitingGroups are those of which a device waits for others.
func (q *queue) waitingGroups() []string {
	var all []string
	for i := range q.Slots {
		if s := &q.Slots[i]; s.Arrived > s.Opened && !slices.Contains(all, s.Group) {
			all = append(all, s.Group)
		}
	}
	return all
}

// gather lets go on whose group is there. devices are those of each group.
func (q *queue) gather(devices map[string][]string) {
	at := map[string]int{} // how far each device has come, by group and name
	for i := range q.Slots {
		s := &q.Slots[i]
		at[s.Group+"\n"+s.Device] = s.Arrived
	}
	for i := range q.Slots {
		s := &q.Slots[i]
		group, known := devices[s.Group]
		if s.Arrived <= s.Opened || !known {
			continue
		}
		missing := slices.DeleteFunc(slices.Sorted(slices.Values(group)), func(name string) bool {
			return at[s.Group+"\n"+name] >= s.Arrived
		})
		s.MissingInAll, s.Missing = len(missing), missing[:min(len(missing), keptMissing)]
		if len(missing) == 0 {
			s.Opened, s.Missing, s.Answered = s.Arrived, nil, false
		}
	}
}

// missingFault says for whom a device waits; nil if it does not, or it is not known yet.
func missingFault(s *contract.Slot) *device.Fault {
	if s.Arrived <= s.Opened || s.MissingInAll == 0 {
		return nil
	}
	names := strings.Join(s.Missing, ", ")
	if more := s.MissingInAll - len(s.Missing); more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return &device.Fault{Class: device.Transient, Code: device.CodeWaitingForGroup,
		Message: fmt.Sprintf("waits for the other devices with %s: %s", s.Group, names),
		Remedy:  "clean them, or release-hold " + s.Device + " to go on without them"}
}
