package workflows

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// shown is what the server was last told, so that only changes are written: an
// upsert costs a sixth of the server's time for a cycle (measured).
type published struct {
	Attributes attributes
	Memo       digest
}

// digest stands for facts, which are long.
type digest [sha256.Size]byte

func (d *lifecycle) digestOf(f contract.StatusMemo) digest {
	text, err := json.Marshal(f)
	if err != nil {
		d.log.Error("facts cannot be written", "device", d.state.Name, "error", err)
	}
	return sha256.Sum256(text)
}

// attributes are the search attributes' values; empty ones are unset.
type attributes struct {
	State, UUID, Serial, Type, Host, Instance, Step, Fault string
	NeedsOperator, Dirty                                   bool
}

// shownBefore is what the run before this one had told: continue-as-new carries
// search attributes and memo over.
func lastPublished(ctx workflow.Context, s *contract.DeviceState) published {
	d := &lifecycle{state: s, log: workflow.GetLogger(ctx)}
	if workflow.GetTypedSearchAttributes(ctx).Size() == 0 {
		return published{}
	}
	return published{Attributes: d.attributes(), Memo: d.digestOf(d.memo())}
}

// show is the one writer of what the Web UI and listings see. It writes search
// attributes and memo where they changed, and the details always.
func (d *lifecycle) publishStatus(ctx workflow.Context) {
	if !d.state.Enrolled {
		return
	}
	attributes, facts := d.attributes(), d.memo()
	digest := d.digestOf(facts)
	factsChanged := digest != d.published.Memo
	if now := attributes; now != d.published.Attributes || factsChanged {
		if err := workflow.UpsertTypedSearchAttributes(ctx, now.updates(d.state.UpdatedAt)...); err != nil {
			d.log.Error("search attributes were not written", "device", d.state.Name, "error", err)
		} else {
			d.published.Attributes = now
		}
	}
	if factsChanged {
		if err := workflow.UpsertMemo(ctx, map[string]any{contract.MemoStatus: facts}); err != nil {
			d.log.Error("memo was not written", "device", d.state.Name, "error", err)
		} else {
			d.published.Memo = digest
		}
	}
	workflow.SetCurrentDetails(ctx, d.details())
}

func (a attributes) updates(at time.Time) []temporal.SearchAttributeUpdate {
	word := func(key temporal.SearchAttributeKeyKeyword, value string) temporal.SearchAttributeUpdate {
		if value == "" {
			return key.ValueUnset()
		}
		return key.ValueSet(value)
	}
	return []temporal.SearchAttributeUpdate{
		word(contract.AttrState, a.State), word(contract.AttrUUID, a.UUID), word(contract.AttrSerial, a.Serial),
		word(contract.AttrType, a.Type), word(contract.AttrHost, a.Host), word(contract.AttrInstance, a.Instance),
		word(contract.AttrStep, a.Step), word(contract.AttrFault, a.Fault),
		contract.AttrNeedsOperator.ValueSet(a.NeedsOperator), contract.AttrDirty.ValueSet(a.Dirty),
		contract.AttrUpdated.ValueSet(at),
	}
}

func (d *lifecycle) attributes() attributes {
	s := d.state
	a := attributes{
		State: string(s.Device.State), UUID: s.UUID, Serial: s.Host.Identity.Serial, Type: s.Enrollment.Type,
		Host: s.Enrollment.Host, NeedsOperator: d.needsOperator(), Dirty: s.Device.Dirty,
	}
	if b := s.Device.Binding; b != nil {
		a.Instance = b.Instance
	}
	if f := d.fault(); f != nil {
		a.Fault = string(f.Code)
	}
	if step := d.cleanStep(); step != nil {
		a.Step = step.Step
	}
	return a
}

// needsOperator says that the device does not get on without a person.
func (d *lifecycle) needsOperator() bool {
	s := d.state
	return s.Device.State == device.Error || s.Device.AwaitingManualClean || s.Clean != nil && s.Clean.HostUnreachable ||
		s.Device.Maintenance == device.MaintenanceQuarantined ||
		s.Fault != nil && (s.Fault.Class == device.NeedsOperator || s.Device.State == device.Unknown)
}

// fault is the present one: the recorded, or that the host is silent.
func (d *lifecycle) fault() *device.Fault {
	if c := d.state.Clean; c != nil && c.HostUnreachable {
		return &device.Fault{Class: device.NeedsOperator, Code: device.CodeHostUnreachable,
			Message: "no worker of host " + d.state.Enrollment.Host + " takes the step",
			Remedy:  "start burnish-worker on " + d.state.Enrollment.Host + "; the clean then goes on by itself"}
	}
	return d.state.Fault
}

func (d *lifecycle) cleanStep() *contract.CleanStep {
	c := d.state.Clean
	if d.state.Device.State != device.Cleaning || c == nil || c.Next >= len(c.Plan) {
		return nil
	}
	p := c.Plan[c.Next]
	return &contract.CleanStep{Step: p.Step, Priority: p.Priority, Interface: p.Interface}
}

func (d *lifecycle) memo() contract.StatusMemo {
	s := d.state
	f := contract.StatusMemo{
		Name: s.Name, Vendor: s.Host.Identity.Vendor, Model: s.Host.Identity.Model,
		StdBoardInfo: d.boardInfo(), Status: s.Device.Status,
		Maintenance: s.Device.InMaintenance(), MaintenanceReason: d.maintenanceReason(),
		LastError: s.LastError, LastRefusal: s.LastRefusal, CreatedAt: s.CreatedAt.Truncate(time.Second),
		Driver: s.Enrollment.Driver, Owner: s.Device.Owner, OneTimeUse: s.Device.OneTimeUse,
		NotSanitized: s.Device.NotSanitized, Operation: s.Host.Operation, Steps: s.Steps, Provider: s.Provider,
	}
	if fault := d.fault(); fault != nil {
		f.Remedy = fault.Remedy
	}
	return f
}

// boardInfo is Cyborg's free-form description of the hardware.
func (d *lifecycle) boardInfo() map[string]string {
	info := map[string]string{}
	set := func(key, value string) {
		if value != "" {
			info[key] = value
		}
	}
	set("address", d.state.Enrollment.Address)
	set("path", d.state.Host.Identity.Path)
	set("firmware", d.state.Host.Identity.Firmware)
	if size := d.state.Host.Identity.Size; size > 0 {
		set("size_bytes", fmt.Sprint(size))
	}
	return info
}

func (d *lifecycle) maintenanceReason() string {
	s := d.state
	if !s.Device.InMaintenance() {
		return ""
	}
	reason := string(s.Device.Maintenance)
	if s.HoldReason != "" {
		reason += ": " + s.HoldReason
	}
	return reason
}

// view is the device as people and programs are shown it. Progress is left to those
// who can read a running activity's heartbeat, past tenancies and cleans to the query.
func (d *lifecycle) status() contract.DeviceStatus {
	s := d.state
	v := contract.DeviceStatus{
		UUID: s.UUID, Name: s.Name, Type: s.Enrollment.Type,
		Vendor: s.Host.Identity.Vendor, Model: s.Host.Identity.Model, Serial: s.Host.Identity.Serial,
		Hostname: s.Enrollment.Host, StdBoardInfo: d.boardInfo(), VendorBoardInfo: map[string]string{},
		Status: s.Device.Status, DeviceState: s.Device.State, Dirty: s.Device.Dirty,
		Maintenance: s.Device.InMaintenance(), MaintenanceReason: d.maintenanceReason(), CleanStep: d.cleanStep(),
		LastError: s.LastError, LastRefusal: s.LastRefusal, NeedsOperator: d.needsOperator(),
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
		Driver: s.Enrollment.Driver, Owner: s.Device.Owner, OneTimeUse: s.Device.OneTimeUse,
		NotSanitized: s.Device.NotSanitized, Operation: s.Host.Operation,
		Steps: s.Steps,
	}
	if b := s.Device.Binding; b != nil {
		instance := b.Instance
		v.InstanceUUID, v.Binding = &instance, b.Number
	}
	if c := s.Device.Claim; c != nil {
		v.ClaimedBy = c.Instance
	}
	if f := d.fault(); f != nil {
		v.Fault, v.Remedy = string(f.Code), f.Remedy
	}
	return v
}

// details is the Markdown that the Web UI shows on top of the workflow.
func (d *lifecycle) details() string {
	s := d.state
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** on %s: **%s**", s.Name, s.Enrollment.Host, d.describeState())
	if s.Device.Dirty {
		b.WriteString(", dirty")
	}
	b.WriteString("\n\n")
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(&b, "- %s: %s\n", what, text)
		}
	}
	if step := d.cleanStep(); step != nil {
		c := s.Clean
		line("step", fmt.Sprintf("%s (%d of %d), scheduled %s", step.Step, c.Next+1, len(c.Plan), c.StepAt.Format(time.RFC3339)))
	}
	line("maintenance", d.maintenanceReason())
	line("last error", s.LastError)
	line("last refusal", s.LastRefusal)
	if f := d.fault(); f != nil {
		line("fault", string(f.Code))
		line("what to do", f.Remedy)
	}
	line("possible now", strings.Join(d.allowedActions(), ", "))
	return b.String()
}

// verbs lists what an operator may ask of the device now.
func (d *lifecycle) allowedActions() []string {
	var verbs []string
	for _, v := range []struct {
		name string
		kind device.EventKind
	}{
		{contract.UpdateProvide, device.Provide}, {contract.UpdateClean, device.Clean},
		{contract.UpdateManage, device.Manage}, {contract.UpdateRetire, device.Retire}, {contract.UpdateForget, device.Forget},
	} {
		if d.legal(device.Event{Kind: v.kind}) == nil {
			verbs = append(verbs, v.name)
		}
	}
	if d.legal(device.Event{Kind: device.ClaimEvent}) == nil {
		verbs = append(verbs, contract.UpdateBind)
	}
	if b := d.state.Device.Binding; b != nil && d.state.Device.State == device.Allocated {
		verbs = append(verbs, contract.UpdateUnbind+" --instance "+b.Instance)
	}
	if d.cleanUnderWay() {
		verbs = append(verbs, contract.UpdateAbort)
	}
	return verbs
}

func stepsOf(plan []clean.Planned) []contract.CleanStep {
	steps := []contract.CleanStep{}
	for _, p := range plan {
		steps = append(steps, contract.CleanStep{Step: p.Step.Name, Priority: p.Priority, Interface: p.Step.Interface})
	}
	return steps
}
