package oneview

import (
	"net/http"
	"strings"
	"time"

	"burnish/internal/device"
)

// This file says whether others may have used a server unseen, since Burnish's own last act (F34).
// A tag that was read later than that act says nothing by itself: others may have taken and left
// the server before the read. So the appliance's own times are compared: when the task ended that
// removed Burnish's profile, when the server was last changed, when Burnish's profile was created.

// gapOfRemove says that others may have used the free server since its profile was removed. They
// have not if the removal is the last that happened to it.
func (c *call) gapOfRemove(v view) bool {
	h := v.hardware
	switch {
	case v.owner != device.PoolFree || h.Tag == "" || h.Tag == c.server.Tag:
		return false
	case h.Modified == "": // such an appliance does not say when
		return !c.prompt
	}
	changed := moment(h.Modified)
	return c.removed.IsZero() || changed.IsZero() || changed.After(c.removed)
}

// gapOfApply says that others may have used the server of a tenant between Burnish's last act and
// its own profile on it.
func (c *call) gapOfApply(v view) bool {
	h := v.hardware
	switch {
	case c.server.Tag == "" || h.Tag == "":
		return false
	case v.owner != device.PoolOurs || v.applied == nil:
		return h.Tag != c.server.Tag
	case v.applied.Created == "":
		return !c.prompt
	}
	_, at, _ := strings.Cut(v.applied.Description, unchangedAt)
	unchanged, created := moment(at), moment(v.applied.Created)
	// The appliance's clock, in the header of its answer, has no fractions of a second.
	return unchanged.IsZero() || created.IsZero() || created.Sub(unchanged) > device.Blink+time.Second
}

// describe gives the description of the profile to be created. For a tenant it says when the
// appliance last showed the server unchanged: who finds the profile after a crash knows it too.
func (c *call) describe(h serverHardware) string {
	text := "Burnish has applied this profile, and removes it."
	if at, err := http.ParseTime(h.Date); err == nil && c.server.Tag != "" {
		text += unchangedAt + at.UTC().Format(time.RFC3339)
	}
	return text
}

// unchangedAt comes before the time in a profile's description.
const unchangedAt = " Unchanged until "

// moment is a time as the appliance writes it; zero if it is none.
func moment(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}
