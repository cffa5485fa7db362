package redfish

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// bmcResetRecord is the progress of a reset of the BMC to its defaults, as it is journaled on the host.
type bmcResetRecord struct {
	Kind string `json:"kind"`
	// Before is when the BMC was restarted last, "" where it does not say; Certificate is the one that it had.
	Before      string `json:"before,omitempty"`
	Certificate string `json:"certificate"`
}

// The resets that leave the BMC its address: after another one it does not come back where it was.
const (
	keepsUsers   = "PreserveNetworkAndUsers"
	keepsNetwork = "PreserveNetwork"
)

// resetBMC sets the BMC back to its defaults, and waits for its return. Its accounts stay, unless the secret has
// the password that its user gets with that: then he gets the secret's own again.
func (h *handle) resetBMC(ctx context.Context, run hardware.StepRun) (string, error) {
	m, kind, err := h.resetOf(ctx)
	if err != nil {
		return "", err
	}
	if kind == "" {
		return "not covered: the BMC offers no reset to its defaults that keeps its network", nil
	}
	var rec bmcResetRecord
	sent, err := run.Load(run.Step, &rec)
	if err != nil {
		return "", err
	}
	_, session := h.bmc.ownSession()
	for tries := 0; ; tries++ {
		within := h.driver.timing.restart
		// A second reset harms nothing: one whose answer was lost, or of which a killed attempt knew, is sent again
		// where nothing shows it.
		if !sent || tries > 0 || rec.Before == "" || rec.Before == m.LastResetTime {
			if err := h.waitUntilNothingWrites(ctx, run); err != nil {
				return "", err
			}
			rec = bmcResetRecord{Kind: kind, Before: m.LastResetTime, Certificate: h.certificate}
			_, err := h.change(ctx, request{Method: http.MethodPost, Path: string(m.Actions.Reset.Target),
				Body:   map[string]any{"ResetType": kind},
				Intent: func() error { return run.Save(run.Step, rec) }})
			switch {
			case isLost(err) && tries < maxTries:
				within = h.driver.timing.settle
			case err != nil && !isLost(err):
				return "", err
			}
		}
		done := false
		err = h.until(ctx, run, within, func() (bool, string, error) {
			now := &manager{}
			err := h.get(ctx, m.path, now)
			f, is := device.AsFault(err)
			if rec.Kind == keepsNetwork && is && f.Code == device.CodeBMCLoginRefused {
				return false, "gives the BMC its password", h.bmc.changeFirstPassword(ctx, rec.Certificate)
			}
			_, open := h.bmc.ownSession()
			done = err == nil && (now.LastResetTime != rec.Before || open != session)
			return done, "waits for the BMC to restart", err
		}, func() error { return nil })
		switch {
		case err != nil:
			return "", err
		case done:
			return "the BMC has its defaults (" + rec.Kind + "), and is the same one", nil
		case within == h.driver.timing.restart:
			return "", stuck("the BMC has not restarted within %v after its reset to the defaults", within)()
		}
	}
}

// resetOf gives the manager that can be reset, and how; "": none can.
func (h *handle) resetOf(ctx context.Context) (found *manager, kind string, err error) {
	secret, err := h.driver.credentials(h.bmc.secret)
	if err != nil {
		return nil, "", err
	}
	kinds := []string{keepsUsers}
	if secret.FirstPassword != "" {
		kinds = []string{keepsNetwork, keepsUsers}
	}
	err = h.eachManager(ctx, func(m *manager) error {
		allowed, err := h.allowedValues(ctx, m.Actions.Reset.Allowed, m.Actions.Reset.ActionInfo, "ResetType")
		for _, one := range kinds {
			if kind == "" && m.Actions.Reset.Target != "" && slices.Contains(allowed, one) {
				found, kind = m, one
			}
		}
		return err
	})
	return found, kind, err
}

// accountPath is in the words with which a BMC wants a new password: where it is to be set.
var accountPath = regexp.MustCompile(`/redfish/v1/[A-Za-z0-9_./-]*Accounts/[A-Za-z0-9_.-]*[A-Za-z0-9_]`)

// changeFirstPassword gives the secret's user the secret's password again, who has had the one of a reset
// since. Before that the BMC refuses every read, also of who the system is: its certificate must be one that
// the secret's CA vouches for, or the one of before. The system is identified right after.
func (b *bmc) changeFirstPassword(ctx context.Context, certificate string) error {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	s, err := b.driver.credentials(b.secret)
	if err != nil {
		return err
	}
	at, err := b.transmit(ctx, request{Method: http.MethodGet, Path: "/redfish/v1/"})
	if err != nil {
		return err
	}
	if s.Insecure && at.certificate != certificate {
		return hardware.Changed("certificate", "the BMC has another certificate after its reset, and none vouches for it")
	}
	made, err := b.transmit(ctx, request{Method: http.MethodPost, Path: b.sessions, Timeout: b.driver.timing.login,
		Body: map[string]string{"UserName": s.Username, "Password": s.FirstPassword}})
	if err != nil {
		return loginError(err)
	}
	account := ""
	for _, m := range made.messages() {
		account = cmp.Or(account, accountPath.FindString(m.Text))
	}
	if account == "" {
		return hardware.Refused(device.CodeBMCLoginRefused, "set the password of the secret's user on the BMC",
			"the BMC does not say where the first password is changed")
	}
	b.header = http.Header{"X-Auth-Token": {made.Header.Get("X-Auth-Token")}}
	b.session = b.path(made.Path, made.Header.Get("Location"))
	set := request{Method: http.MethodPatch, Path: account, Body: map[string]string{"Password": s.Password}}
	if _, err = b.transmit(ctx, set); hasStatus(err, http.StatusPreconditionRequired) {
		set.IfMatch = "*"
		_, err = b.transmit(ctx, set)
	}
	if r, is := asRefusal(err); is {
		r.Messages = nil // they may repeat the password
		err = refused(r)
	}
	return errors.Join(err, b.logout())
}
