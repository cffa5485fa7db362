package contract

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// Over HTTP a verb takes its input without what only Burnish itself sets: the fields with the tag
// api:"-", among them who asks.

// BodyType is the type of the verb's body over HTTP, and its name in the API's document.
func (v Verb) BodyType() (t reflect.Type, name string) {
	if v.HTTP.Body != nil {
		t = reflect.TypeOf(v.HTTP.Body)
		return t, t.Name()
	}
	in := reflect.TypeOf(v.Input)
	var fields []reflect.StructField
	for _, f := range bodyFields(in) {
		f.Index, f.Offset = nil, 0
		fields = append(fields, f)
	}
	return reflect.StructOf(fields), strings.TrimSuffix(in.Name(), "Input") + "Body"
}

// FromBody is the input that a body asks for; body is a value of BodyType.
func (v Verb) FromBody(body any) Input {
	if own, ok := body.(Body); ok {
		return own.Input()
	}
	from, in := reflect.ValueOf(body), reflect.New(reflect.TypeOf(v.Input)).Elem()
	for i, f := range bodyFields(in.Type()) {
		in.FieldByIndex(f.Index).Set(from.Field(i))
	}
	return in.Interface().(Input)
}

// ToBody is the body that asks for an input.
func (v Verb) ToBody(in Input) any {
	if v.HTTP.Body != nil {
		return v.HTTP.Body.Of(in)
	}
	t, _ := v.BodyType()
	from, body := reflect.ValueOf(in), reflect.New(t).Elem()
	for i, f := range bodyFields(from.Type()) {
		body.Field(i).Set(from.FieldByIndex(f.Index))
	}
	return body.Interface()
}

// bodyFields are the fields of an input that its body has, those of embedded structs one by one.
func bodyFields(in reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for i := range in.NumField() {
		f := in.Field(i)
		switch {
		case f.Tag.Get("api") == "-":
		case f.Anonymous:
			for _, inner := range bodyFields(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				fields = append(fields, inner)
			}
		default:
			fields = append(fields, f)
		}
	}
	return fields
}

// CalledBy is the input as sent by a caller.
func CalledBy(in Input, who Caller) Input {
	with := reflect.New(reflect.TypeOf(in)).Elem()
	with.Set(reflect.ValueOf(in))
	with.FieldByName("Caller").Set(reflect.ValueOf(who))
	return with.Interface().(Input)
}

// Normalize checks what can be checked of an input without a device, and gives it its one spelling.
func Normalize(in Input) (Input, error) {
	switch in := in.(type) {
	case EnrollInput:
		var err error
		in.Enrollment, err = in.Enrollment.Normalize()
		return in, err
	case MoveInput:
		at := in.Enrollment
		slot := Enrollment{Name: at.Name, Address: at.Address, Host: at.Host, Driver: at.Driver, Settings: at.Settings}
		if !reflect.DeepEqual(slot, at) {
			return in, errors.New("a device that moves keeps everything but name, address, host, driver and settings")
		}
		var err error
		in.Enrollment, err = slot.NormalizeSlot()
		return in, err
	case InstanceBindInput:
		return in.Normalize()
	case InstanceMoveInput:
		return in.Normalize()
	case InstanceDetachInput:
		return in.Normalize()
	}
	return in, nil
}

// CleanBody is the body of a clean as Cyborg has it. Without steps and runbook it is a full clean.
//
// S2.73
type CleanBody struct {
	CleanSteps []NamedStep `json:"clean_steps,omitempty"`
	Runbook    string      `json:"runbook,omitempty"`
	Reason     string      `json:"reason,omitempty"`
}

// NamedStep is a step that the caller names. Interface must be the step's own, or is left out.
type NamedStep struct {
	Interface string          `json:"interface,omitempty"`
	Step      string          `json:"step"`
	Args      json.RawMessage `json:"args,omitempty"`
}

// Of is the body that asks for a CleanInput.
func (CleanBody) Of(in Input) Body {
	asked, _ := in.(CleanInput)
	body := CleanBody{Runbook: asked.Runbook, Reason: asked.Reason}
	for _, step := range asked.Steps {
		body.CleanSteps = append(body.CleanSteps, NamedStep{Step: step, Args: asked.Args[step]})
	}
	return body
}

// Input is the CleanInput that the body asks for.
func (b CleanBody) Input() Input {
	in := CleanInput{Reason: b.Reason, Runbook: b.Runbook}
	for _, s := range b.CleanSteps {
		in.Steps = append(in.Steps, s.Step)
		if len(s.Args) > 0 {
			if in.Args == nil {
				in.Args = map[string]json.RawMessage{}
			}
			in.Args[s.Step] = s.Args
		}
	}
	return in
}
