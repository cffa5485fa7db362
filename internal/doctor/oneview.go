package doctor

import (
	"context"
	"errors"
	"time"

	"burnish/internal/oneview"
)

// applianceTimeout limits the request to an appliance.
const applianceTimeout = 30 * time.Second

// oneview reads oneview.yaml as a control worker would, and asks each appliance for its
// version. It does not log in.
func (m machine) oneview() {
	const check = "oneview"
	if m.settings.OneView == "" {
		return
	}
	fail := func(err error) { m.fault(check, "correct it; no restart is needed", err) }
	pools, err := oneview.Open(m.settings.OneView)
	if err != nil {
		fail(err)
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), applianceTimeout, errors.New("it takes too long"))
	defer cancel()
	names := pools.Names()
	for _, name := range names {
		if version, err := pools.Reach(ctx, name); err != nil {
			fail(err)
		} else {
			m.OK(check, "%s: the appliance %s answers, API version %d", m.settings.OneView, name, version)
		}
	}
	if len(names) == 0 {
		m.Warn(check, "see docs/oneview.md", "%s names no appliance", m.settings.OneView)
	}
	if err := pools.Close(ctx); err != nil {
		m.Warn(check, "see the appliance", "%v", err)
	}
}
