package device

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The theorems on the observations of a shared pool.

func takenIsLeftAlone(c outcome) string {
	s, d := c.snapshot, c.device
	if !slices.Contains(poolQuestions, s.Question) {
		return ""
	}
	claimed := d.State == Available && d.Claim != nil
	// Each operation that uses the server asks a question of its own.
	operates := s.Question == AskPoolBind && claimed || s.Question == AskPoolApplied && claimed && d.Claim.Burning ||
		s.Question == AskPoolClean && d.BeingCleaned() || s.Question == AskPoolReturn && d.Returning
	taken := s.Pool == PoolTaken
	polled := s.Question == AskPool && (d.State == Available && d.Claim == nil || d.State == Error && d.LostRace)
	return joinReasons(
		unless(!c.observation.Needs(Proceed) || operates && (s.Pool == PoolFree || s.Pool == PoolOurs),
			"the operation goes on"),
		unless(!operates || !taken || c.observation.Event == LostRace && c.next.Dirty &&
			(c.next.State == Error && c.next.LostRace || d.NamedSteps && c.next.State == Manageable),
			"it does not lose the race"),
		unless((c.observation.Event == LostRace) == (operates && taken), "it loses a race without need, or not at all"),
		unless((c.observation.Event == Taken) == (polled && taken), "it is taken without need, or not at all"),
		unless(c.observation.Event != Taken || c.next.State == Manageable && c.next.Dirty && c.next.InMaintenance(),
			"it is not in maintenance"),
		unless(s.Pool != "" || c.observation.Event == "" || c.observation.Event == Unclaim ||
			c.observation.Event == BurnFailed, "no answer changes the state"))
}

// freeIsNotUnused: F34
func freeIsNotUnused(c outcome) string {
	s, d := c.snapshot, c.device
	offered := s.Question == AskPoolReturn && !d.NotSanitized || s.Question == AskPoolApplied ||
		s.Question == AskPoolBind && !(d.Claim != nil && d.Claim.Burning)
	return joinReasons(
		unless(!offered || !s.PoolChanged || !c.observation.Needs(Proceed), "others may have used the server"),
		unless(s.Question != AskPoolReturn || c.observation.Event != ReservationChanged || c.next.State == PendingCleaning &&
			c.next.Dirty, "it is not cleaned"))
}

func freedIsCleaned(c outcome) string {
	if c.observation.Event != Freed {
		return ""
	}
	s, d := c.snapshot, c.device
	return joinReasons(
		unless(s.Pool == PoolFree || s.Pool == PoolOurs, "the appliance did not say so"),
		unless(s.Question != AskPoll, "a poll is a hint"),
		unless(d.Maintenance == MaintenanceTaken || d.State == Error && d.LostRace,
			"it is out of the offer for another reason"),
		unless(d.Status != Maintaining || c.next.Status == Maintaining && c.next.State == d.State,
			"the operator works at it"),
		unless(c.next.State == PendingCleaning && c.next.Dirty, "it is not cleaned"))
}

func pollAgrees(c outcome) string {
	s, d := c.snapshot, c.device
	if s.Question != AskPoll {
		return ""
	}
	own := s
	own.Question = AskPool
	o, _ := observations.observe(d, own)
	return joinReasons(
		unless(c.observation.Event == "", "a poll changes the state"),
		// A claim is not published: the poll may ask for nothing then.
		unless(c.observation.Needs(RequestRecheck) == (o.Event != "") || d.Claim != nil, "the device would find %q", o.Event))
}

// A clean of a server that others have loses the race, in each of its states.
//
// S4.18
func TestATakenServerIsNotCleaned(t *testing.T) {
	for _, text := range []string{"pending_cleaning dirty", "cleaning dirty", "cleaning named-steps",
		"pending_cleaning dirty maintenance:taken"} {
		d, err := read(text)
		require.NoError(t, err)
		s := Ask(AskPoolClean, d, Known{})
		s.Pool = PoolTaken
		o, _ := Observe(d, s)
		require.Equal(t, Observation{Event: LostRace}, o, text)
	}
}
