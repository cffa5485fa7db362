package clean

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
)

// Kind is the type of an argument's value.
type Kind string

// The kinds. A duration is text such as 10m; a scalar is text, a number or a boolean.
const (
	KindText     Kind = "text"
	KindInteger  Kind = "integer"
	KindNumber   Kind = "number"
	KindBoolean  Kind = "boolean"
	KindDuration Kind = "duration"
	KindList     Kind = "list"
	KindObject   Kind = "object"
	KindScalar   Kind = "scalar"
)

// Arg is one argument of a step.
type Arg struct {
	Name     string
	Kind     Kind
	Required bool
	About    string
	From     Source
}

// Source says who gives an argument.
type Source int

// An argument comes from the policy's lists, a runbook or the operator; or from the policy's
// lists alone; or it only chooses among what the lists give, and never reaches a host.
const (
	Anyone Source = iota
	PolicyOnly
	Choice
)

// Schema describes the arguments of a step (Ironic's argsinfo). The zero Schema has none.
type Schema struct {
	Args []Arg
	// Open says what further arguments are, each a scalar under a name of its own; "": there
	// are none.
	Open string
}

// CheckGiven refuses arguments that a runbook or an operator may not give.
func (s Schema) CheckGiven(args map[string]any) error {
	return s.check(args, func(a Arg) bool { return a.From != PolicyOnly })
}

// CheckRecorded refuses arguments that no plan has, before a host carries them out.
func (s Schema) CheckRecorded(text json.RawMessage) error {
	args, err := ParseArgs(text)
	if err != nil {
		return err
	}
	for _, a := range s.Args {
		if a.Required && len(args) == 0 {
			return fmt.Errorf("the argument %s is missing", a.Name)
		}
	}
	if len(args) == 0 {
		return nil
	}
	return s.check(args, func(a Arg) bool { return a.From != Choice })
}

func (s Schema) check(args map[string]any, allowed func(Arg) bool) error {
	var names []string
	for _, a := range s.Args {
		if !allowed(a) {
			continue
		}
		names = append(names, a.Name)
		if _, given := args[a.Name]; a.Required && !given {
			return fmt.Errorf("the argument %s is missing", a.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		kind := KindScalar
		switch i := slices.IndexFunc(s.Args, func(a Arg) bool { return a.Name == name && allowed(a) }); {
		case i >= 0:
			kind = s.Args[i].Kind
		case s.Open != "" && strings.TrimSpace(name) != "":
		case len(names) == 0 && s.Open == "":
			return fmt.Errorf("unknown argument %q: the step takes none", name)
		default:
			return fmt.Errorf("unknown argument %q: must be one of %s", name, strings.Join(names, ", "))
		}
		if !fits(args[name], kind) {
			return fmt.Errorf("the argument %s must be %s, not %s", name, article(kind), shown(args[name]))
		}
	}
	return nil
}

// fits says that a value of ParseArgs is of the kind.
func fits(value any, kind Kind) bool {
	switch v := value.(type) {
	case string:
		if kind == KindDuration {
			d, err := time.ParseDuration(v)
			return err == nil && d > 0
		}
		return kind == KindText || kind == KindScalar
	case json.Number:
		if kind == KindInteger {
			_, err := v.Int64()
			return err == nil
		}
		return kind == KindNumber || kind == KindScalar
	case bool:
		return kind == KindBoolean || kind == KindScalar
	case []any:
		return kind == KindList
	case map[string]any:
		return kind == KindObject
	}
	return false
}

func article(kind Kind) string {
	switch kind {
	case KindText:
		return "text"
	case KindInteger, KindObject:
		return "an " + string(kind)
	case KindDuration:
		return "a positive duration such as 10m"
	case KindScalar:
		return "text, a number or a boolean"
	}
	return "a " + string(kind)
}

// shown gives a value as an error names it.
func shown(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(text) > 60 {
		return string(text[:60]) + "…"
	}
	return string(text)
}

// ParseArgs reads a JSON object of arguments; nothing and null are no arguments. Numbers are
// json.Number, as they were written.
func ParseArgs(text json.RawMessage) (map[string]any, error) {
	if len(text) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("the arguments are not valid JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the arguments are more than one JSON object")
	}
	args, ok := value.(map[string]any)
	if value != nil && !ok {
		return nil, fmt.Errorf("the arguments must be a JSON object, not %s", shown(value))
	}
	return args, nil
}

// maxGiven bounds the arguments that are given for one step: each plan records them.
const maxGiven = 8 << 10

// parseGiven reads the arguments that a runbook or an operator gives.
func parseGiven(text json.RawMessage) (map[string]any, error) {
	if len(text) > maxGiven {
		return nil, fmt.Errorf("the arguments are longer than %d KiB", maxGiven>>10)
	}
	return ParseArgs(text)
}

// argsFor gives the arguments of a step for the device: those of the policy's lists, or the
// given ones. Not wanted: nothing is given and the policy does not ask for the step.
func (p *Planner) argsFor(step Step, s Subject,
	given json.RawMessage) (args json.RawMessage, wanted bool, fault *device.Fault) {
	chosen, err := parseGiven(given)
	if err != nil {
		return nil, false, argsFault(step.Name, err)
	}
	var value any
	wanted = true
	if step.FromPolicy != nil {
		value, wanted = step.FromPolicy(p.policy, s)
	}
	if !wanted {
		value = nil
	}
	if len(chosen) > 0 {
		if err := step.Args.CheckGiven(chosen); err != nil {
			return nil, false, argsFault(step.Name, err)
		}
		wanted = true
		if step.Combine == nil {
			value = chosen
		} else if value, err = step.Combine(value, chosen); err != nil {
			return nil, false, argsFault(step.Name, err)
		}
	}
	if value == nil || !wanted {
		return nil, wanted, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, false, &device.Fault{Class: device.NeedsOperator, Code: device.CodeInvalidSetting,
			Message: fmt.Sprintf("the policy's arguments of %s: %v", step.Name, err), Remedy: "correct the policy"}
	}
	return text, true, nil
}

func argsFault(step string, err error) *device.Fault {
	return &device.Fault{Class: device.Permanent, Code: device.CodeInvalid,
		Message: step + ": " + err.Error(), Remedy: "`burnish steps NAME` lists the arguments of each step"}
}
