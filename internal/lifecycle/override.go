package lifecycle

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// maxOverrideText bounds each text of an override: the state keeps two of them, and the archive one with each that was
// approved.
const maxOverrideText = 500

// pendingOverride is the request that waits for its approval; nil if there is none.
func (d *State) pendingOverride() *contract.Override {
	if d.Override == nil {
		return nil
	}
	return d.Override.Pending
}

// checkOverride: only a device in state error can be returned without a clean (S3.21), and only as two principals
// decide (D2).
func (d *State) checkOverride(in contract.OverrideInput) error {
	if err := d.legal(device.Event{Kind: device.Override}); err != nil {
		return err
	}
	for _, text := range []string{in.Reason, in.ID, in.Approve, in.By, in.Principal} {
		if len(text) > maxOverrideText {
			return d.refuse(device.CodeInvalid, fmt.Sprintf("a text is longer than %d bytes", maxOverrideText), "shorten it")
		}
	}
	if in.Approve != "" {
		return d.checkApproval(in)
	}
	switch {
	case in.ID == "" || in.Principal == "":
		return d.unsigned()
	case strings.TrimSpace(in.Reason) == "":
		return d.refuse(device.CodeInvalid, "an override needs a reason", "give a reason")
	case in.ExpiresAt.IsZero():
		return d.refuse(device.CodeInvalid, "an override needs an expiry", "give expires_at")
	case d.Intent.DuplicateAt != "": // F23: the return would end in error again
		return d.duplicateSerial()
	}
	return nil
}

// checkApproval: another principal approves the very request that is pending.
func (d *State) checkApproval(in contract.OverrideInput) error {
	p := d.pendingOverride()
	switch {
	case in.Reason != "" || !in.ExpiresAt.IsZero():
		return d.refuse(device.CodeInvalid, "an approval has neither a reason nor an expiry: those of the request count",
			"give approve alone")
	case p == nil || p.ID != in.Approve:
		return d.refuse(device.CodeNotFound, "no such request of an override is pending: it expired, or the device has "+
			"changed since", "show "+d.Name)
	case in.Principal == "":
		return d.unsigned()
	case maybeOnePerson(in.Principal, p.RequestedAs):
		return d.refuse(device.CodeSamePrincipal, "the same principal requested the override",
			"have a second person approve it")
	}
	return nil
}

// maybeOnePerson says that two principals may be one person: whoever is root may use a unix socket as the worker's user
// too.
func maybeOnePerson(a, b string) bool {
	const peer = "unix:"
	return strings.EqualFold(a, b) || strings.HasPrefix(a, peer) && strings.HasPrefix(b, peer)
}

// checkSignature refuses what the API did not sign for this device as it is now, and what comes too late. SAFETY D2: it
// is asked only when the request arrives, so that a refusal leaves no history.
func (d *State) checkSignature(in contract.OverrideInput) error {
	verify, now := d.by.Signed()
	if verify == nil {
		return d.refuse(device.CodeOverrideOff, "overrides are off", "set BURNISH_API_KEY for the control workers")
	}
	claims := in.Claims(d.UUID, d.OverrideNumbers(), d.pendingOverride())
	if !verify(claims, in.Signature) {
		return d.unsigned()
	}
	switch left := claims.ExpiresAt.Sub(now); {
	case left <= 0:
		return d.refuse(device.CodeInvalid, "the override expired at "+claims.ExpiresAt.Format(time.RFC3339),
			"request another one")
	case left > contract.MaxOverride:
		return d.refuse(device.CodeInvalid, "the override would expire in more than "+contract.MaxOverride.String(),
			"give an earlier expiry")
	}
	return nil
}

func (d *State) unsigned() error {
	return d.refuse(device.CodeOverrideUnsigned, "the request is not signed for this device as it is now",
		"send it through the HTTP API; if it came from there, repeat it, and check that all control workers have the same "+
			"BURNISH_API_KEY")
}

// override records a request, or carries out the pending one.
func (d *State) override(j *Job, in contract.OverrideInput) {
	now := d.now.UTC().Truncate(time.Second)
	kept := contract.OverrideState{}
	if d.Override != nil {
		kept = *d.Override
	}
	if in.Approve != "" {
		approved := *kept.Pending
		approved.ApprovedBy, approved.ApprovedAs, approved.ApprovedAt = in.By, in.Principal, now
		d.overrideApproved(j, approved)
		return
	}
	kept.Number++
	kept.Pending = &contract.Override{ID: in.ID, Reason: in.Reason, ExpiresAt: in.ExpiresAt.UTC(), RequestedBy: in.By,
		RequestedAs: in.Principal, RequestedAt: now}
	d.Override = &kept
	d.done(j, contract.Result{Device: d.Status(), Note: "the override " + in.ID +
		" waits for the approval of another principal until " + kept.Pending.ExpiresAt.Format(time.RFC3339)}, nil)
}

// overrideApproved begins the return. As in any return without a clean, the device is reserved and read first, and its
// host looks at it before it is offered (F4, F5, F24, F27).
func (d *State) overrideApproved(j *Job, approved contract.Override) {
	number := d.Override.Number
	if err := d.apply(device.Event{Kind: device.Override}); err != nil {
		d.refused(j, err)
		return
	}
	d.Override = &contract.OverrideState{Number: number, Approved: &approved}
	d.Fault, d.LastError, d.LastRefusal, d.Clean = nil, "", "", nil
	d.keepSummary(contract.CleanSummary{
		Number: d.Cleans, Reason: approved.Reason, Outcome: "overridden", Override: &approved,
		StartedAt: approved.RequestedAt, EndedAt: approved.ApprovedAt,
	})
	d.by.Log(slog.LevelWarn, "returned without a clean", "device", d.Name, "uuid", d.UUID,
		"requested", approved.RequestedAs, "approved", approved.ApprovedAs, "reason", approved.Reason)
	d.done(j, contract.Result{Device: d.Status(), Note: "it is returned to the offer, not sanitized"}, nil)
}
