package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Signatures verifies the signatures of overrides. Only validateSignature asks it, so that a
// replay never depends on this worker's key.
type Signatures interface {
	Verify(c contract.OverrideClaims, signature []byte) bool
}

// maxOverrideText bounds each text of an override: the state keeps two of them, and the
// archive one with each that was approved.
const maxOverrideText = 500

// pendingOverride is the request that waits for its approval; nil if there is none.
func (d *parts) pendingOverride() *contract.Override {
	if d.State.Override == nil {
		return nil
	}
	return d.State.Override.Pending
}

// validateOverride: only a device in state error can be returned without a clean (S3.21), and
// only as two principals decide (D2).
func (d operations) validateOverride(in contract.OverrideInput) error {
	if err := d.Legal(device.Event{Kind: device.Override}); err != nil {
		return err
	}
	for _, text := range []string{in.Reason, in.ID, in.Approve, in.By, in.Principal} {
		if len(text) > maxOverrideText {
			return d.Refuse(device.CodeInvalid, fmt.Sprintf("a text is longer than %d bytes", maxOverrideText), "shorten it")
		}
	}
	if in.Approve != "" {
		return d.validateApproval(in)
	}
	switch {
	case in.ID == "" || in.Principal == "":
		return d.unsigned()
	case strings.TrimSpace(in.Reason) == "":
		return d.Refuse(device.CodeInvalid, "an override needs a reason", "give a reason")
	case in.ExpiresAt.IsZero():
		return d.Refuse(device.CodeInvalid, "an override needs an expiry", "give expires_at")
	case d.State.Intent.DuplicateAt != "": // F23: the return would end in error again
		return d.DuplicateSerialFault()
	}
	return nil
}

// validateApproval: another principal approves the very request that is pending.
func (d operations) validateApproval(in contract.OverrideInput) error {
	p := d.pendingOverride()
	switch {
	case in.Reason != "" || !in.ExpiresAt.IsZero():
		return d.Refuse(device.CodeInvalid, "an approval has neither a reason nor an expiry: those of the request count",
			"give approve alone")
	case p == nil || p.ID != in.Approve:
		return d.Refuse(device.CodeNotFound, "no such request of an override is pending: it expired, or the device has "+
			"changed since", "show "+d.State.Name)
	case in.Principal == "":
		return d.unsigned()
	case maybeOnePerson(in.Principal, p.RequestedAs):
		return d.Refuse(device.CodeSamePrincipal, "the same principal requested the override",
			"have a second person approve it")
	}
	return nil
}

// maybeOnePerson says that two principals may be one person: whoever is root may use a unix
// socket as the worker's user too.
func maybeOnePerson(a, b string) bool {
	const peer = "unix:"
	return strings.EqualFold(a, b) || strings.HasPrefix(a, peer) && strings.HasPrefix(b, peer)
}

// validateSignature refuses what the API did not sign for this device as it is now, and what
// comes too late. SAFETY D2: it is never replayed, so that a refusal leaves no history.
func (d operations) validateSignature(ctx workflow.Context, in contract.OverrideInput) error {
	if d.signatures == nil {
		return d.Refuse(device.CodeOverrideOff, "overrides are off", "set BURNISH_API_KEY for the control workers")
	}
	claims := in.Claims(d.State.UUID, d.State.OverrideNumbers(), d.pendingOverride())
	if !d.signatures.Verify(claims, in.Signature) {
		return d.unsigned()
	}
	switch left := claims.ExpiresAt.Sub(workflow.Now(ctx)); {
	case left <= 0:
		return d.Refuse(device.CodeInvalid, "the override expired at "+claims.ExpiresAt.Format(time.RFC3339),
			"request another one")
	case left > contract.MaxOverride:
		return d.Refuse(device.CodeInvalid, "the override would expire in more than "+contract.MaxOverride.String(),
			"give an earlier expiry")
	}
	return nil
}

func (d operations) unsigned() error {
	return d.Refuse(device.CodeOverrideUnsigned, "the request is not signed for this device as it is now",
		"send it through the HTTP API; if it came from there, repeat it, and check that all control workers have the same "+
			"BURNISH_API_KEY")
}

// override records a request, or carries out the pending one.
func (d operations) override(ctx workflow.Context, in contract.OverrideInput) (contract.Result, error) {
	now := workflow.Now(ctx).UTC().Truncate(time.Second)
	kept := contract.OverrideState{}
	if d.State.Override != nil {
		kept = *d.State.Override
	}
	if in.Approve != "" {
		approved := *kept.Pending
		approved.ApprovedBy, approved.ApprovedAs, approved.ApprovedAt = in.By, in.Principal, now
		return d.carryOutOverride(ctx, approved)
	}
	kept.Number++
	kept.Pending = &contract.Override{ID: in.ID, Reason: in.Reason, ExpiresAt: in.ExpiresAt.UTC(), RequestedBy: in.By,
		RequestedAs: in.Principal, RequestedAt: now}
	d.State.Override = &kept
	return contract.Result{Device: d.Status(), Note: "the override " + in.ID +
		" waits for the approval of another principal until " + kept.Pending.ExpiresAt.Format(time.RFC3339)}, nil
}

// carryOutOverride begins the return. As in any return without a clean, the device is
// reserved and read first, and its host looks at it before it is offered (F4, F5, F24, F27).
func (d operations) carryOutOverride(ctx workflow.Context, approved contract.Override) (contract.Result, error) {
	if err := d.Apply(ctx, device.Event{Kind: device.Override}); err != nil {
		return contract.Result{}, err
	}
	d.State.Override = &contract.OverrideState{Number: d.State.Override.Number, Approved: &approved}
	d.State.Fault, d.State.LastError, d.State.LastRefusal, d.State.Clean = nil, "", "", nil
	archive, err := d.State.Archive.With(contract.CleanSummary{
		Number: d.State.Cleans, Reason: approved.Reason, Outcome: "overridden", Override: &approved,
		StartedAt: approved.RequestedAt, EndedAt: approved.ApprovedAt,
	})
	if err != nil {
		workflow.GetLogger(ctx).Error("an override was not archived", "device", d.State.Name, "error", err)
	}
	d.State.Archive = archive
	workflow.GetLogger(ctx).Warn("returned without a clean", "device", d.State.Name, "uuid", d.State.UUID,
		"requested", approved.RequestedAs, "approved", approved.ApprovedAs, "reason", approved.Reason)
	return contract.Result{Device: d.Status(), Note: "it is returned to the offer, not sanitized"}, nil
}

// watchOverride drops the pending request when it expires.
func (d *run) watchOverride(ctx workflow.Context) {
	id, expires := d.pendingOverride().ID, d.pendingOverride().ExpiresAt
	pending := func() bool { p := d.pendingOverride(); return p != nil && p.ID == id }
	ended, err := d.awaitFor(ctx, max(expires.Sub(workflow.Now(ctx)), 1), "override of "+d.State.Name,
		func() bool { return !pending() })
	if err == nil && !ended && pending() {
		d.DropOverride()
		d.State.LastRefusal = "a requested override expired before its approval"
		d.Publish()
	}
}
