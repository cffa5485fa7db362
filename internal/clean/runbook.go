package clean

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
)

// Runbook is a list of steps with arguments, in their order (Ironic's runbooks). One with a
// Match is the full clean of the devices that it matches; each may be chosen by hand.
type Runbook struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Match       *Match `json:"match,omitempty"`
	// Group is the key of a label. The devices with one value of it, as those of a rack, are cleaned together: the step
	// together waits for all of them, and the limits count them as one.
	Group string        `json:"group,omitempty"`
	Steps []RunbookStep `json:"steps"`
	// Line is where the runbook stands in its file; 0: unknown.
	Line int `json:"-"`
}

// RunbookStep is one step of a runbook. Args is a JSON object; nil: the policy's.
type RunbookStep struct {
	Step string          `json:"step"`
	Args json.RawMessage `json:"args,omitempty"`
	Line int             `json:"-"`
}

// The steps that only a runbook can hold, and that the device's workflow carries out itself:
// hold waits for the operator, wait for a time, together for the other devices of the group.
const (
	StepHold     = "hold"
	StepWait     = "wait"
	StepTogether = "together"
)

// workflowSteps are those steps.
var workflowSteps = []Step{
	{Name: StepHold, Interface: "workflow", Abortable: true,
		Args: Schema{Args: []Arg{{Name: "reason", Kind: KindText, Required: true, About: "what the operator is to do"}}}},
	{Name: StepWait, Interface: "workflow", Abortable: true,
		Args: Schema{Args: []Arg{{Name: "for", Kind: KindDuration, Required: true, About: "how long, such as 10m"}}}},
	{Name: StepTogether, Interface: "workflow", Abortable: true},
}

// HoldArgs are the arguments of hold, WaitArgs those of wait.
type HoldArgs struct {
	Reason string `json:"reason"`
}

// WaitArgs are the arguments of wait.
type WaitArgs struct {
	For string `json:"for"`
}

// maxWait bounds the step wait: a longer one is meant as a hold.
const maxWait = 7 * 24 * time.Hour

// maxReason bounds what every listing of a held device shows.
const maxReason = 200

// OfWorkflow says that the device's workflow carries out the step itself, and no host.
func OfWorkflow(step string) bool {
	return slices.ContainsFunc(workflowSteps, func(s Step) bool { return s.Name == step })
}

// Digest identifies the runbook's content in records.
func (r Runbook) Digest() string {
	text, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// RunbookNames matches what a runbook may be called.
var RunbookNames = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// maxRunbookSteps bounds a runbook, and with it the plans that are recorded.
const maxRunbookSteps = 50

// checkRunbooks refuses runbooks that could not be carried out, or that would leave open which
// of two is meant. Each error names its line.
func (p *Planner) checkRunbooks() error {
	var wrong []error
	books := p.policy.Runbooks
	for i, book := range books {
		wrong = append(wrong, p.checkRunbook(book))
		for _, other := range books[:i] {
			if other.Match != nil && book.Match != nil && other.Match.overlaps(*book.Match) {
				wrong =
					append(wrong,
						runbookError(book.Name, book.Line, "its match has devices in common with that of %s: a device must have one "+
							"runbook", other.Name))
			}
			if other.Name == book.Name {
				wrong = append(wrong, runbookError(book.Name, book.Line, "there is another runbook of this name"))
			}
		}
	}
	return errors.Join(wrong...)
}

func runbookError(name string, line int, format string, args ...any) error {
	at := ""
	if line > 0 {
		at = fmt.Sprintf("line %d: ", line)
	}
	return fmt.Errorf("policy: runbooks: %s: %s%s", name, at, fmt.Sprintf(format, args...))
}

// checkRunbook refuses a runbook with a step that does not exist or stands twice, with
// arguments that do not fit, or with an erase that is not followed at once by its verify.
func (p *Planner) checkRunbook(book Runbook) error {
	var wrong []error
	problem := func(line int, format string, args ...any) {
		wrong = append(wrong, runbookError(book.Name, line, format, args...))
	}
	if len(book.Steps) == 0 || len(book.Steps) > maxRunbookSteps {
		problem(book.Line, "it has %d steps; 1 to %d are possible", len(book.Steps), maxRunbookSteps)
	}
	var steps []Step
	for _, planned := range book.Steps {
		step, ok := p.find(planned.Step)
		if !ok {
			problem(planned.Line, "there is no step %q; the steps are %s", planned.Step,
				strings.Join(append(names(p.steps), names(workflowSteps)...), ", "))
			continue
		}
		if !OfWorkflow(step.Name) && slices.ContainsFunc(steps, func(s Step) bool { return s.Name == step.Name }) {
			problem(planned.Line, "%s stands in it twice", step.Name)
		}
		steps = append(steps, step)
		if err := checkRunbookArgs(step, planned.Args, book.Match != nil); err != nil {
			problem(planned.Line, "%s: %s", step.Name, err)
		}
	}
	if err := p.checkErase(steps, book.Match != nil); err != nil {
		problem(book.Line, "%s", err)
	}
	together := slices.ContainsFunc(steps, func(s Step) bool { return s.Name == StepTogether })
	switch {
	case together && book.Group == "":
		problem(book.Line, "%s needs a group: the label whose value the devices have in common", StepTogether)
	case book.Group != "" && p.policy.Limits == nil:
		problem(book.Line, "a group needs the section limits in the policy, which may be empty: there it is known who "+
			"has come")
	}
	if err := checkGuards(steps); err != nil && book.Match != nil {
		problem(book.Line, "%s", err)
	}
	return errors.Join(wrong...)
}

// checkRunbookArgs checks the arguments of one step. full: the runbook is a full clean, for
// which the firmware policy may not be narrowed: each component must reach its version.
func checkRunbookArgs(step Step, text json.RawMessage, full bool) error {
	args, err := parseGiven(text)
	if err != nil {
		return err
	}
	if len(args) > 0 || OfWorkflow(step.Name) {
		if err := step.Args.CheckGiven(args); err != nil {
			return err
		}
	}
	for _, a := range step.Args.Args {
		if _, given := args[a.Name]; given && full && a.From == Choice {
			return fmt.Errorf("the argument %s is for manual cleans only: a full clean leaves nothing out", a.Name)
		}
	}
	if reason, _ := args["reason"].(string); step.Name == StepHold &&
		(len(reason) > maxReason || strings.TrimSpace(reason) == "" || strings.ContainsAny(reason, "\r\n")) {
		return fmt.Errorf("the argument reason must be one line of at most %d characters", maxReason)
	}
	if step.Name == StepWait {
		if d, err := time.ParseDuration(fmt.Sprint(args["for"])); err == nil && d > maxWait {
			return fmt.Errorf("%s is longer than %s; use hold", args["for"], maxWait)
		}
	}
	return nil
}

// checkErase refuses steps of which an erase is not directly followed by its verify, in the
// order of a full plan. full: there must be both.
func (p *Planner) checkErase(steps []Step, full bool) error {
	erases := func(s Step) bool { return s.Phase == Erase || s.Phase == Verify }
	first := slices.IndexFunc(steps, erases)
	if first < 0 {
		if full {
			return errors.New("it matches devices for their full clean, and has no erase and no verify")
		}
		return nil
	}
	last := first
	var block []Planned
	has := map[Phase]bool{}
	for i, s := range steps {
		if erases(s) {
			last = i
			block = append(block, Planned{Step: s, Priority: p.priority(s)})
			has[s.Phase] = true
		}
	}
	if full && !has[Erase] {
		return errors.New("it matches devices for their full clean, and has no erase")
	}
	if !has[Erase] {
		return nil // it only verifies
	}
	if !has[Verify] {
		return errors.New("its erase is not followed by a verify")
	}
	if last-first+1 != len(block) {
		return errors.New("between its erase and its verify stands another step")
	}
	ordered := slices.Clone(block)
	p.order(ordered)
	if !slices.EqualFunc(block, ordered, func(a, b Planned) bool { return a.Step.Name == b.Step.Name }) {
		return fmt.Errorf("its erase and its verify must stand in the order %s", strings.Join(stepNames(ordered), ", "))
	}
	return nil
}

// checkGuards refuses steps that look for what a tenant left after one that may change the
// device, because a reset would apply what was staged for it (F20), and a check of firmware
// before the firmware is written.
func checkGuards(steps []Step) error {
	var changed string
	for i, s := range steps {
		switch {
		case OfWorkflow(s.Name):
		case s.Phase != Prepare:
			changed = cmp.Or(changed, s.Name)
		case changed != "":
			return fmt.Errorf("%s must stand before %s: it finds what a tenant left before anything is changed", s.Name, changed)
		}
		if !s.Guards || s.Phase != Restore {
			continue
		}
		for _, later := range steps[i+1:] {
			if later.Interface == s.Interface {
				return fmt.Errorf("%s must stand after %s, whose result it checks", s.Name, later.Name)
			}
		}
	}
	return nil
}

// find gives a step by its name, those of the workflow too.
func (p *Planner) find(name string) (Step, bool) {
	for _, all := range [][]Step{p.steps, workflowSteps} {
		if i := slices.IndexFunc(all, func(s Step) bool { return s.Name == name }); i >= 0 {
			return all[i], true
		}
	}
	return Step{}, false
}

// Automated gives the runbook that is the device's full clean; nil: it has none. A device that
// two runbooks match has no plan.
func (p *Planner) Automated(s Subject) (*Runbook, *device.Fault) {
	var chosen *Runbook
	for i, book := range p.policy.Runbooks {
		if book.Match == nil || !book.Match.Matches(s) {
			continue
		}
		if chosen != nil {
			return nil, &device.Fault{Class: device.NeedsOperator, Code: device.CodeInvalidSetting,
				Message: fmt.Sprintf("the runbooks %s and %s both match this device", chosen.Name, book.Name),
				Remedy:  "change the match of one of them in the policy, restart the control workers, then clean " + s.Name}
		}
		chosen = &p.policy.Runbooks[i]
	}
	return chosen, nil
}

// Runbook gives the runbook of a name.
func (p *Planner) Runbook(name string) (*Runbook, *device.Fault) {
	var known []string
	for i, book := range p.policy.Runbooks {
		if book.Name == name {
			return &p.policy.Runbooks[i], nil
		}
		known = append(known, book.Name)
	}
	remedy := "the policy has no runbooks"
	if len(known) > 0 {
		remedy = "name one of " + strings.Join(known, ", ")
	}
	return nil, &device.Fault{Class: device.Permanent, Code: device.CodeNoSuchRunbook,
		Message: fmt.Sprintf("there is no runbook %q", name), Remedy: remedy}
}

// GroupOf gives the label and the value that the devices cleaned together with this one have; "" without a group.
func (r Runbook) GroupOf(s Subject) (string, *device.Fault) {
	if r.Group == "" {
		return "", nil
	}
	value, ok := s.Labels[r.Group]
	if !ok {
		return "", &device.Fault{Class: device.NeedsOperator, Code: device.CodeInvalidSetting,
			Message: fmt.Sprintf("the runbook %s cleans the devices with one value of the label %s together, and this device "+
				"has none", r.Name, r.Group),
			Remedy: fmt.Sprintf("label %s %s=VALUE, then clean %s", s.Name, r.Group, s.Name)}
	}
	return r.Group + "=" + value, nil
}

// byRunbook makes the full clean that a runbook describes. Like every full plan it holds what
// applies to the device and what the policy asks for. standard is the plan without the
// runbook: all of its erase and its verify must be there, together and in its order, and each
// step that guards.
func (p *Planner) byRunbook(book *Runbook, standard []Planned, s Subject) ([]Planned, *device.Fault) {
	plan, fault := p.follow(book, s, func(Step) *device.Fault { return nil })
	if fault != nil {
		return nil, fault
	}
	erases := func(p Planned) bool { return p.Step.Phase == Erase || p.Step.Phase == Verify }
	var wanted []string
	have := stepNames(plan)
	for _, planned := range standard {
		if erases(planned) {
			wanted = append(wanted, planned.Step.Name)
		}
		if name := planned.Step.Name; planned.Step.Guards && !slices.Contains(have, name) {
			return nil, &device.Fault{Class: device.NeedsOperator, Code: device.CodeInvalidSetting,
				Message: fmt.Sprintf("the runbook %s leaves out %s", book.Name, name),
				Remedy: fmt.Sprintf("name it in the runbook, or give it priority 0 in the policy; restart the control workers, "+
					"then clean %s", s.Name)}
		}
	}
	for i := range have {
		if i+len(wanted) <= len(have) && slices.Equal(have[i:i+len(wanted)], wanted) {
			return plan, nil
		}
	}
	return nil, &device.Fault{Class: device.NeedsOperator, Code: device.CodeNoErasePath,
		Message: fmt.Sprintf("the runbook %s does not erase and verify this device: it needs %s, one directly after the "+
			"other", book.Name, strings.Join(wanted, ", ")),
		Remedy: "correct the runbook, restart the control workers, then clean " + s.Name}
}

// byHand plans a runbook that an operator chooses. An erase that is not this device's is left
// out; any other step must apply.
func (p *Planner) byHand(book *Runbook, s Subject) ([]Planned, *device.Fault) {
	if book.Match != nil && !book.Match.Matches(s) {
		return nil, &device.Fault{Class: device.Permanent, Code: device.CodeNoSuchRunbook,
			Message: fmt.Sprintf("the runbook %s is for other devices: its match is %s", book.Name, book.Match),
			Remedy:  "name a runbook that is for this device"}
	}
	plan, fault := p.follow(book, s, func(step Step) *device.Fault {
		if step.Phase == Erase {
			return nil
		}
		return p.noSuchStep(step.Name, s)
	})
	if fault != nil {
		return nil, fault
	}
	inPlan := func(phase Phase) bool {
		return slices.ContainsFunc(plan, func(p Planned) bool { return p.Step.Phase == phase })
	}
	for _, planned := range book.Steps {
		if step, ok := p.find(planned.Step); ok && step.Phase == Erase && !inPlan(Erase) {
			return nil, noErasePath()
		}
	}
	return plan, nil
}

// follow plans the steps of a runbook that apply to the device; missing says what one means
// that does not, or that the policy has nothing for.
func (p *Planner) follow(book *Runbook, s Subject, missing func(Step) *device.Fault) ([]Planned, *device.Fault) {
	var plan []Planned
	for _, entry := range book.Steps {
		step, ok := p.find(entry.Step)
		if !ok { // NewPlanner refuses such a runbook
			return nil, p.noSuchStep(entry.Step, s)
		}
		if OfWorkflow(step.Name) {
			plan = append(plan, Planned{Step: step, Args: entry.Args})
			continue
		}
		if !step.Applies(s) {
			if fault := missing(step); fault != nil {
				return nil, fault
			}
			continue
		}
		planned, wanted, fault := p.include(step, s, entry.Args)
		if fault != nil {
			return nil, fault
		}
		if wanted {
			plan = append(plan, planned)
		}
	}
	return plan, nil
}

// String gives the patterns of the match.
func (m Match) String() string {
	var parts []string
	for _, field := range m.fields() {
		if field.pattern != "" {
			parts = append(parts, field.name+" "+field.pattern)
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "every device")
}

type matchField struct{ name, pattern string }

func (m Match) fields() []matchField {
	return []matchField{{"type", m.Type}, {"vendor", m.Vendor}, {"model", m.Model}, {"trait", m.Trait}}
}

// overlaps says that one of the two is for all devices of the other. Whether two have some in
// common otherwise, only the devices show.
func (m Match) overlaps(other Match) bool { return m.covers(other) || other.covers(m) }

// covers says that what other matches, m matches too.
func (m Match) covers(other Match) bool {
	theirs := other.fields()
	for i, field := range m.fields() {
		if field.pattern != "" && (theirs[i].pattern == "" || !matches(field.pattern, theirs[i].pattern)) {
			return false
		}
	}
	return true
}

func stepNames(plan []Planned) []string {
	var all []string
	for _, p := range plan {
		all = append(all, p.Step.Name)
	}
	return all
}
