package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

// bmcReset is the last reset of a BMC to its defaults, as it is kept beside the open sessions: until the BMC has
// the secret's password again, no step can be begun that would know of it.
type bmcReset struct {
	// Kind is what was sent. Done: the BMC is back, is the same one and has the secret's password.
	Kind string `json:"kind"`
	Done bool   `json:"done,omitempty"`
	// Serial is that of the server, Service the UUID of the BMC's service, "" where it shows none, Account the
	// path of the account of the secret.
	Serial  string `json:"serial"`
	Service string `json:"service,omitempty"`
	Account string `json:"account,omitempty"`
	// Logins counts those with the first password that were refused for it, or whose worker was killed. Proved: one was
	// accepted.
	Logins int  `json:"logins,omitempty"`
	Proved bool `json:"proved,omitempty"`
	// Certificate is that of before, Accepted the one that the BMC had when it came back.
	Certificate string `json:"certificate,omitempty"`
	Accepted    string `json:"accepted,omitempty"`
}

// The resets that leave the BMC its address: after another one it does not come back where it was.
const (
	keepsUsers   = "PreserveNetworkAndUsers"
	keepsNetwork = "PreserveNetwork"
)

// mostFirstLogins bounds the logins with the first password, which is wrong once it was changed: BMCs lock an
// account after some wrong ones.
const mostFirstLogins = 2

const keptReset = "-reset"

// loadReset gives the last reset; the zero one: there was none.
func (b *bmc) loadReset() (bmcReset, error) { return kept[bmcReset](b, keptReset) }

func (b *bmc) saveReset(r bmcReset) error { return b.keep(keptReset, r, true) }

// resetRecord is how far the step is, as it is journaled.
type resetRecord struct {
	// Tries counts the requests. Back: the BMC has come back from one.
	Tries int  `json:"tries,omitempty"`
	Back  bool `json:"back,omitempty"`
}

// bmcResetter carries out one attempt of the step.
type bmcResetter struct {
	h       *handle
	run     hardware.StepRun
	manager *manager
	kind    string
	name    string // of the parameter
	rec     resetRecord
}

// resetBMC sets the BMC back to its defaults, waits for its return, and proves that it is the same one. Its
// account gets the secret's password again at the first login; see passFirst. A second reset harms nothing: what was
// not answered, or was answered to a worker that was killed, is asked for again. That the BMC has done it, only its
// word and its restart say, where it keeps the accounts: what the step changes, bmc_restore reads item by item.
func (h *handle) resetBMC(ctx context.Context, run hardware.StepRun) (string, error) {
	r := &bmcResetter{h: h, run: run}
	if found, err := r.find(ctx); err != nil || !found {
		return "not covered: the BMC offers no reset to its defaults that keeps its address", err
	}
	if _, err := run.Load(run.Step, &r.rec); err != nil {
		return "", err
	}
	for !r.rec.Back {
		if err := r.round(ctx); err != nil {
			return "", awayAfterReset(err)
		}
	}
	note, err := r.prove(ctx)
	return note, awayAfterReset(err)
}

// awayAfterReset: a BMC that does not come back is the operator's.
func awayAfterReset(err error) error {
	f, is := device.AsFault(err)
	if !is || f.Code != device.CodeBMCUnreachable {
		return err
	}
	return hardware.Refused(f.Code, "see the BMC at the server itself: its address, certificate and account; then clean "+
		"the server", "the BMC has not come back from its reset to the defaults: %s", f.Message)
}

// find gives the manager that can be reset, and how; false: none can.
func (r *bmcResetter) find(ctx context.Context) (found bool, err error) {
	secret, err := r.h.driver.credentials(r.h.bmc.secret)
	if err != nil {
		return false, err
	}
	kinds := []string{keepsUsers}
	if secret.FirstPassword != "" {
		kinds = []string{keepsNetwork, keepsUsers}
	}
	err = r.h.eachManager(ctx, func(m *manager) error {
		reset := m.Actions.Reset
		name, listed := "ResetType", reset.Allowed
		if len(reset.Older) > 0 {
			name, listed = "ResetToDefaultsType", reset.Older
		}
		allowed, err := r.h.allowedValues(ctx, listed, reset.ActionInfo, name)
		i := slices.IndexFunc(kinds, func(kind string) bool { return slices.Contains(allowed, kind) })
		if r.manager == nil && reset.Target != "" && i >= 0 {
			r.manager, r.kind, r.name = m, kinds[i], name
		}
		return err
	})
	return r.manager != nil, err
}

// round sends the request and waits for the restart. The restart of a request without an answer may be another one,
// but not that of two of them.
func (r *bmcResetter) round(ctx context.Context) error {
	switch is, err := r.h.bmc.loadReset(); {
	case err != nil:
		return err
	case r.rec.Tries > 0 && is.Proved: // by the first password
		r.rec.Back = true
		return r.save()
	case r.rec.Tries == maxTries:
		return stuck("the BMC has not restarted after %d requests for its reset to the defaults", r.rec.Tries)()
	}
	accepted, before, session, err := r.send(ctx)
	if err != nil {
		return err
	}
	within := r.h.driver.timing.settle
	if accepted {
		within = r.h.driver.timing.restart
	}
	// It shows its own time, or where it shows none, ends our session.
	restarted := false
	err = r.h.until(ctx, r.run, within, func() (bool, string, error) {
		now := &manager{}
		err := r.h.get(ctx, r.manager.path, now)
		_, open := r.h.bmc.ownSession()
		restarted = err == nil && (now.LastResetTime != before || before == "" && open != session)
		return restarted, "waits for the BMC to come back with its defaults", err
	}, nil)
	switch {
	case err != nil:
		return err
	case restarted && (accepted || r.rec.Tries > 1):
		r.rec.Back = true
		return r.save()
	case accepted:
		return stuck("the BMC has not restarted within %v after its reset to the defaults", within)()
	}
	return nil
}

// save journals how far the step is.
func (r *bmcResetter) save() error { return r.run.Save(r.run.Step, r.rec) }

// send asks for the reset. It gives the time of the BMC's last restart, "" where it does not say, and the session
// before that.
func (r *bmcResetter) send(ctx context.Context) (accepted bool, before, session string, err error) {
	h := r.h
	if _, err := h.waitUntilNothingWrites(ctx, r.run, nil); err != nil {
		return false, "", "", err
	}
	reset, err := r.prepare(ctx)
	if err != nil {
		return false, "", "", err
	}
	if err := h.progress(r.run, 10, "resets the BMC to its defaults"); err != nil {
		return false, "", "", err
	}
	tries := r.rec.Tries + 1
	for {
		now := &manager{}
		if err := h.get(ctx, r.manager.path, now); err != nil {
			return false, "", "", err
		}
		_, session = h.bmc.ownSession()
		away := h.away
		_, err = h.change(ctx, request{Method: http.MethodPost, Path: string(r.manager.Actions.Reset.Target),
			Body: map[string]any{r.name: r.kind}, Intent: func() error {
				if h.away != away {
					return errWasAway
				}
				if err := h.bmc.saveReset(reset); err != nil {
					return err
				}
				r.rec.Tries = tries
				return r.save()
			}})
		switch {
		case errors.Is(err, errWasAway): // look again
		case isLost(err) || mayBeAskedAgain(err):
			return false, now.LastResetTime, session, nil // what has come of it, its restart shows
		default:
			return err == nil, now.LastResetTime, session, err
		}
	}
}

// errWasAway: the BMC may have restarted since its last restart was read.
var errWasAway = errors.New("the BMC was away")

// prepare is what is kept of the reset before it is sent. What identifies the BMC then, it shows to everybody:
// with the first password nothing else can be read.
func (r *bmcResetter) prepare(ctx context.Context) (bmcReset, error) {
	h := r.h
	before, err := h.bmc.loadReset()
	if err != nil {
		return before, err
	}
	reset := bmcReset{Kind: r.kind, Serial: h.enrolled.Serial, Certificate: h.certificate, Accepted: before.Accepted}
	if reset.Service, err = h.service(ctx); err != nil {
		return reset, err
	}
	secret, err := h.driver.credentials(h.bmc.secret)
	if err != nil {
		return reset, err
	}
	if _, err = h.eachAccount(ctx, func(path string, a *account) {
		if a.UserName == secret.Username {
			reset.Account = path
		}
	}); err != nil {
		return reset, err
	}
	if r.kind == keepsNetwork && reset.Account == "" {
		return reset, hardware.Refused(device.CodeCommandRefused,
			"take first_password out of the secret: then the BMC keeps "+
				"its accounts", "the BMC does not show the account of the secret, and could not give it back")
	}
	return reset, nil
}

// service is the UUID of the BMC's service.
func (h *handle) service(ctx context.Context) (string, error) {
	var root serviceRoot
	err := h.get(ctx, rootPath, &root)
	return root.UUID, err
}

// prove proves that the BMC is the same one: it shows the UUID of before, and manages the enrolled server. Another
// certificate is accepted only if the secret's authority vouches for it.
func (r *bmcResetter) prove(ctx context.Context) (string, error) {
	h := r.h
	reset, err := h.bmc.loadReset()
	if err != nil {
		return "", err
	}
	secret, err := h.driver.credentials(h.bmc.secret)
	if err != nil {
		return "", err
	}
	service, err := h.service(ctx)
	if err != nil {
		return "", err
	}
	if reset.Service != service {
		return "", hardware.Changed("UUID of the BMC", "the BMC has another UUID after its reset to the defaults")
	}
	if err := h.Check(ctx); err != nil {
		return "", err
	}
	note := "by the BMC's word: it has its defaults (" + r.kind + "), and is the same one"
	if h.certificate != reset.Certificate {
		if secret.Insecure {
			return "", mismatch("certificates: the BMC has another one after its reset to the defaults, and the secret has no " +
				"authority that vouches for it")
		}
		note += ", with another certificate: " + h.certificate
		reset.Accepted = h.certificate
	}
	if r.rec.Tries > 1 {
		note += fmt.Sprintf("; it was asked %d times", r.rec.Tries)
	}
	reset.Done = true
	return note, h.bmc.saveReset(reset)
}

// accountPath is where a BMC that wants a new password says that it is to be set.
var accountPath = regexp.MustCompile(`/redfish/v1/[A-Za-z0-9_./-]*Accounts/[A-Za-z0-9_.-]*[A-Za-z0-9_]`)

// passFirst gives the secret's user the secret's password again, where he has had the first one since a reset of
// the BMC. Before that the BMC refuses every read, also of who the system is: it must be known by the UUID that it
// shows to everybody, and by its certificate. The system is identified before the next request that changes
// something.
func (b *bmc) passFirst(ctx context.Context, s host.Secret) error {
	reset, err := b.loadReset()
	if err != nil || reset.Kind != keepsNetwork || reset.Done || s.FirstPassword == "" || reset.Logins == mostFirstLogins {
		return err
	}
	root, err := b.readRoot(ctx)
	if err != nil {
		return err
	}
	if root.UUID != reset.Service || s.Insecure && root.certificate != reset.Certificate {
		return hardware.Changed("UUID or certificate of the BMC",
			"the BMC that has come back from its reset to the defaults is not known: it gets no password")
	}
	reset.Logins++
	if err := b.saveReset(reset); err != nil {
		return err
	}
	made, err := b.makeSession(ctx, s.Username, s.FirstPassword)
	refusal, refused := asRefusal(err)
	switch {
	case refused && refusal.says("PasswordChangeRequired"):
		b.header = basicAuth(s.Username, s.FirstPassword)
	case refused && !mayPass(err):
		return nil // he has another one: the secret's
	case err != nil: // no word of the password
		reset.Logins--
		return errors.Join(loginError(err), b.saveReset(reset))
	}
	reset.Proved = true
	if err := b.saveReset(reset); err != nil {
		return err
	}
	said := made.messages()
	if refused {
		said = append(said, refusal.Messages...)
	}
	account := ""
	for _, m := range said {
		account = cmp.Or(account, accountPath.FindString(strings.Join(append(m.Args, m.Text), " ")))
	}
	err = b.setPassword(ctx, cmp.Or(account, reset.Account), s.Password, reset.Serial)
	if err == nil {
		reset.Logins = mostFirstLogins
		err = b.saveReset(reset)
	}
	return errors.Join(err, b.logout())
}

// setPassword sets the password of the account that asks.
func (b *bmc) setPassword(ctx context.Context, account, password, serial string) error {
	r := request{Method: http.MethodPatch, Path: account, Timeout: b.driver.timing.login,
		Body: map[string]string{"Password": password}}
	for {
		if err := errors.Join(hardware.MayWrite(ctx), b.driver.checkAllowed(serial)); err != nil {
			return err
		}
		_, err := b.transmit(ctx, r)
		switch {
		case hasStatus(err, http.StatusPreconditionRequired) && r.IfMatch == "":
			r.IfMatch = "*"
		case hasStatus(err, http.StatusUnauthorized): // the session has ended
			return &lost{Method: r.Method, Path: r.Path, err: loginError(err)}
		default:
			return loginError(err)
		}
	}
}
