package oneviewsim

import (
	"fmt"
	"slices"
	"time"
)

// Violations are what the owners, who are users of the appliance, may never do, whatever
// fails: each is a sentence. Without owners, the first user's are meant. Requests that a test
// itself makes as an owner count too. A request counts once the appliance accepted it.
//
//   - A profile of another user was deleted, or its server's power was changed.
//   - A profile was applied to a server that was not off, or removed from one. One that has a
//     profile already, because another user was faster, may be on: the appliance refuses a second.
//
// Which profiles there are in the end, and which sessions, is asked with Profiles and
// OpenSessions.
func (a *Appliance) Violations(owners ...string) (all []string) {
	a.Do(func(time.Time) {
		all = a.Data.violations(append(owners, a.Conf.Users[0].Name)[:max(1, len(owners))])
		if a.Broken != nil {
			all = append(all, a.Broken.Error())
		}
	})
	return all
}

func (s *State) violations(owners []string) []string {
	var all []string
	for _, act := range s.Acts {
		if why := act.violation(owners); why != "" && slices.Contains(owners, act.User) {
			all = append(all, fmt.Sprintf("request %d of %s %s: %s", act.Request, act.User, act.Kind, why))
		}
	}
	return all
}

// violation is what is wrong with an act; empty: nothing.
func (act Act) violation(owners []string) string {
	foreign := act.Owner != "" && !slices.Contains(owners, act.Owner)
	switch {
	case foreign && act.Kind == Powered:
		return fmt.Sprintf("the server %s has the profile %s of %s", act.Server, act.Profile, act.Owner)
	case foreign && act.Kind == Deleted:
		return fmt.Sprintf("%s is the profile of %s", act.Profile, act.Owner)
	case act.Kind == Created && act.Power != Off && act.Profile == "", // with a profile, its task fails
		act.Kind == Deleted && act.Server != "" && act.Power != Off:
		return fmt.Sprintf("the server %s is %s", act.Server, act.Power)
	}
	return ""
}
