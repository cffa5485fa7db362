package redfish

import (
	"context"
	"net/http"
	"slices"

	"burnish/internal/hardware"
)

// bmcResetRecord is the progress of a reset of the BMC to its defaults, as it is journaled on the host.
type bmcResetRecord struct {
	// Before is when the BMC was restarted last, "" where it does not say. Accepted: it has said yes to the reset.
	Before   string `json:"before,omitempty"`
	Accepted bool   `json:"accepted,omitempty"`
}

// keepsUsers is the only reset that is sent: after another one the BMC does not come back where it was, or does
// not know the secret.
const keepsUsers = "PreserveNetworkAndUsers"

// resetBMC sets the BMC back to its defaults, but for its network and accounts, and waits for its return.
func (h *handle) resetBMC(ctx context.Context, run hardware.StepRun) (string, error) {
	m, err := h.resettable(ctx)
	if err != nil {
		return "", err
	}
	if m == nil {
		return "not covered: the BMC offers no reset to its defaults that keeps its network and accounts", nil
	}
	var rec bmcResetRecord
	if _, err := run.Load(run.Step, &rec); err != nil {
		return "", err
	}
	t, earlier := h.driver.timing, rec.Accepted
	_, session := h.bmc.ownSession()
	if !rec.Accepted {
		if err := h.waitUntilNothingWrites(ctx, run); err != nil {
			return "", err
		}
		rec.Before = m.LastResetTime
		// A second reset harms nothing: one without an answer is sent again.
		var refusedWith error
		err := h.until(ctx, run, t.restart, func() (bool, string, error) {
			refusedWith, err = h.send(ctx, []request{{Method: http.MethodPost, Path: string(m.Actions.Reset.Target),
				Body: map[string]any{"ResetType": keepsUsers}}})
			again := isLost(refusedWith) || mayBeAskedAgain(refusedWith)
			return err == nil && !again, "sends the reset of the BMC again", err
		}, func() error { return nil })
		if err != nil {
			return "", err
		}
		if refusedWith != nil {
			return "", refusedWith
		}
		rec.Accepted = true
		if err := run.Save(run.Step, rec); err != nil {
			return "", err
		}
	}
	err = h.until(ctx, run, t.restart, func() (bool, string, error) {
		now := &manager{}
		err := h.get(ctx, m.path, now)
		_, open := h.bmc.ownSession()
		restarted := now.LastResetTime != rec.Before || rec.Before == "" && (open != session || earlier)
		return err == nil && restarted, "waits for the BMC to restart", err
	}, stuck("the BMC has not restarted within %v after its reset to the defaults", t.restart))
	if err != nil {
		return "", err
	}
	return "the BMC has its defaults, but for its network and accounts, and is the same one", nil
}

// resettable gives the manager that can be reset so; nil: there is none.
func (h *handle) resettable(ctx context.Context) (found *manager, err error) {
	err = h.eachManager(ctx, func(m *manager) error {
		reset := m.Actions.Reset
		allowed, err := h.allowedValues(ctx, reset.Allowed, reset.ActionInfo, "ResetType")
		if found == nil && reset.Target != "" && slices.Contains(allowed, keepsUsers) {
			found = m
		}
		return err
	})
	return found, err
}
