package oneviewsim

import (
	"fmt"
	"slices"
)

// Violations are what the owners, who are users of the appliance, may never do, whatever
// fails: each is a sentence. Without owners, the first user's are meant. Requests that a test
// itself makes as an owner count too. A request counts once the appliance accepted it.
//
//   - A profile of another user was changed or deleted, or its server's power was changed.
//   - There were two profiles of one name.
//   - A profile was applied to a server that was not off, or removed from one. One that has a
//     profile already, because another user was faster, may be on: the appliance refuses a second.
//
// Which profiles there are in the end, and which sessions, is asked with Profiles and
// OpenSessions.
func (a *Appliance) Violations(owners ...string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(owners) == 0 {
		owners = []string{a.config.Users[0].Name}
	}
	all := violations(a.state.Acts, owners)
	if a.broken != nil {
		all = append(all, "the simulation has failed: "+a.broken.Error())
	}
	return all
}

func violations(acts []Act, owners []string) []string {
	var all []string
	for _, act := range acts {
		if why := act.violation(owners); why != "" && slices.Contains(owners, act.User) {
			all = append(all, fmt.Sprintf("request %d of %s %s: %s", act.Request, act.User, act.Kind, why))
		}
	}
	return all
}

// violation is what is wrong with an act; empty: nothing.
func (act Act) violation(owners []string) string {
	foreign := act.Owner != "" && !slices.Contains(owners, act.Owner)
	on := act.Server != "" && act.Power != Off
	switch {
	case foreign && act.Kind == Powered:
		return fmt.Sprintf("the server %s has the profile %s of %s", act.Server, act.Profile, act.Owner)
	case foreign && act.Kind != Created:
		return fmt.Sprintf("%s is the profile of %s", act.Profile, act.Owner)
	case act.Kind == Doubled:
		return fmt.Sprintf("%s has the name %s too", act.Twin, act.Name)
	case act.Kind == Created && on && act.Profile == "": // with a profile, its task fails
		return fmt.Sprintf("the server %s is %s", act.Server, act.Power)
	case act.Kind == Deleted && on:
		return fmt.Sprintf("the server %s is %s", act.Server, act.Power)
	}
	return ""
}

// Missed are the takes and frees of faults that the appliance refused: each is a sentence.
func (a *Appliance) Missed() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.missed)
}
