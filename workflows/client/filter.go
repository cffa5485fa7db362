package client

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Field is what devices are selected by. From its entry come the question to Temporal, the comparison in memory, the
// parameter of the API and the flag of the commands.
type Field struct {
	// Name is the parameter of the API, Also another name of it, which the flag has, too.
	Name, Also string
	// Of is the member of a device that is compared. About says which devices are selected: "only devices in …".
	Of, About string
	// Value is what the flag's help calls a value.
	Value string
	// List: in the API values may also be separated by commas.
	List bool
	// Allowed are all values; nil: there are others. Fold gives a value its case. Read checks a value.
	Allowed []string
	Fold    func(string) string
	Read    func(string) (string, error)
	// Text is the member as text; nil: selects compares.
	Text    func(*contract.DeviceStatus) string
	selects func(values []string, v *contract.DeviceStatus) bool
	// asked is the question to Temporal; nil, and "": Temporal cannot compare it.
	asked func(values []string) string
}

// Booleans are the values of a field that is true or false.
var Booleans = []string{"true", "false"}

// Bool says that a field is true or false.
func (by *Field) Bool() bool { return slices.Equal(by.Allowed, Booleans) }

// Values are the values of the field, as they are compared, of those that somebody gave.
func (by *Field) Values(given []string) ([]string, error) {
	values := make([]string, len(given))
	for i, v := range given {
		var err error
		if by.Read != nil && v != "" {
			v, err = by.Read(v)
		}
		if by.Fold != nil { // Python's clients send True
			v = by.Fold(v)
		}
		switch {
		case v == "":
			return nil, errors.New("has an empty value")
		case err != nil:
			return nil, fmt.Errorf("%q: %w", given[i], err)
		case by.Allowed != nil && !slices.Contains(by.Allowed, v):
			return nil, fmt.Errorf("%q: must be one of %s", given[i], strings.Join(by.Allowed, ", "))
		}
		values[i] = v
	}
	return values, nil
}

// The fields. They are shared, and never changed.
var (
	ByUUID = &Field{Name: "uuid", Of: "uuid", List: true, About: "of these UUIDs", Fold: strings.ToLower,
		Text: func(v *contract.DeviceStatus) string { return v.UUID }, asked: attribute(contract.AttrUUID.GetName())}
	ByType = &Field{Name: "type", Of: "type", List: true, About: "of these types, such as DISK or NVME",
		Value: "TYPE", Fold: strings.ToUpper,
		Text: func(v *contract.DeviceStatus) string { return v.Type }, asked: attribute(contract.AttrType.GetName())}
	ByVendor = &Field{Name: "vendor", Of: "vendor", About: "of these vendors",
		Text: func(v *contract.DeviceStatus) string { return v.Vendor }}
	ByModel = &Field{Name: "model", Of: "model", About: "of exactly these models", Value: "MODEL",
		Text: func(v *contract.DeviceStatus) string { return v.Model }}
	ByHost = &Field{Name: "hostname", Also: "host", Of: "hostname", List: true, About: "on these hosts", Value: "HOST",
		Fold: strings.ToLower,
		Text: func(v *contract.DeviceStatus) string { return v.Hostname }, asked: attribute(contract.AttrHost.GetName())}
	ByStatus = &Field{Name: "status", Of: "status", List: true, About: "with these administrative states",
		Allowed: []string{string(device.Enabled), string(device.Maintaining)},
		Text:    func(v *contract.DeviceStatus) string { return string(v.Status) }}
	ByState = &Field{Name: "device_state", Also: "state", Of: "device_state", List: true, About: "in these states",
		Value: "STATE", Allowed: States(device.States()...),
		Text:  func(v *contract.DeviceStatus) string { return string(v.DeviceState) },
		asked: askedByState}
	ByName = &Field{Name: "name", Of: "name", List: true, About: "with these names", Read: device.CanonicalName,
		Text: func(v *contract.DeviceStatus) string { return v.Name }, asked: askedByName}
	BySerial = &Field{Name: "serial", Of: "serial", About: "with these serial numbers",
		Text: func(v *contract.DeviceStatus) string { return v.Serial }, asked: attribute(contract.AttrSerial.GetName())}
	ByInstance = &Field{Name: "instance", Of: "instance_uuid", List: true, About: "bound to these instances",
		Fold: strings.ToLower, Text: instanceText, asked: attribute(contract.AttrInstance.GetName())}
	ByFault = &Field{Name: "fault", Of: "fault", List: true, About: "with these faults", Value: "CODE",
		Text: func(v *contract.DeviceStatus) string { return v.Fault }, asked: attribute(contract.AttrFault.GetName())}
	ByLabel = &Field{Name: "label", Of: "labels", List: true, Value: "SELECTOR",
		About: "with these labels, all of which must match: KEY=VALUE, KEY!=VALUE, KEY or !KEY",
		Read:  readSelector, selects: labeled}
	ByNeedsOperator = &Field{Name: "needs_operator", Of: "needs_operator", About: "that need an operator, or do not",
		Allowed: Booleans, Fold: strings.ToLower,
		Text:  func(v *contract.DeviceStatus) string { return strconv.FormatBool(v.NeedsOperator) },
		asked: ifTrue(contract.AttrNeedsOperator.GetName() + " = true")}
	ByAwaitingCleaning = &Field{Name: "awaiting_cleaning", Of: "dirty", Allowed: Booleans, Fold: strings.ToLower,
		About: "that wait for a clean, or do not: pending_cleaning, and error while dirty",
		Text:  func(v *contract.DeviceStatus) string { return strconv.FormatBool(v.AwaitsCleaning()) },
		asked: ifTrue(fmt.Sprintf("(%[1]s = %[2]s OR (%[1]s = %[3]s AND %[4]s = true))", contract.AttrState.GetName(),
			literal(string(device.PendingCleaning)), literal(string(device.Error)), contract.AttrDirty.GetName()))}
	ByOneTimeUse = &Field{Name: "one_time_use", Of: "one_time_use", Allowed: Booleans, Fold: strings.ToLower,
		About: "that are cleaned after every tenant, or are not",
		Text:  func(v *contract.DeviceStatus) string { return strconv.FormatBool(v.OneTimeUse) }}
)

// Fields are all of them, in the order of the API's parameters.
var Fields = []*Field{ByUUID, ByType, ByVendor, ByModel, ByHost, ByStatus, ByState, ByName, BySerial, ByInstance,
	ByFault, ByLabel, ByNeedsOperator, ByAwaitingCleaning, ByOneTimeUse}

// Filter selects devices by their fields, all of which must match. The values of a field are alternatives; one without
// values selects all.
type Filter map[*Field][]string

// States are values of ByState.
func States(states ...device.State) []string {
	values := make([]string, len(states))
	for i, s := range states {
		values[i] = string(s)
	}
	return values
}

// InService are the states of the devices that are not retired.
func InService() []string {
	return slices.DeleteFunc(States(device.States()...), func(s string) bool { return s == string(device.Retired) })
}

// Query is the filter in Temporal's query language. The server may find more than the filter selects, see anyOf; List
// leaves those out.
func (f Filter) Query() string {
	return joined(running(contract.WorkflowDeviceLifecycle), f.conditions())
}

// conditions are those of the filter's fields.
func (f Filter) conditions() string {
	var terms []string
	for _, by := range Fields {
		if values := f[by]; len(values) > 0 && by.asked != nil {
			terms = append(terms, by.asked(values))
		}
	}
	return joined(terms...)
}

// Selects reports whether the device is one that the filter selects.
func (f Filter) Selects(v *contract.DeviceStatus) bool {
	for by, values := range f {
		if len(values) > 0 && !by.has(values, v) {
			return false
		}
	}
	return true
}

func (by *Field) has(values []string, v *contract.DeviceStatus) bool {
	if by.selects != nil {
		return by.selects(values, v)
	}
	text := by.Text(v)
	return slices.ContainsFunc(values, func(value string) bool { return stored(value) == text })
}

func instanceText(v *contract.DeviceStatus) string {
	if v.InstanceUUID == nil {
		return ""
	}
	return *v.InstanceUUID
}

func readSelector(text string) (string, error) {
	_, err := device.ParseLabelSelector(text)
	return text, err
}

func labeled(selectors []string, v *contract.DeviceStatus) bool {
	selector, err := device.ParseLabelSelector(strings.Join(selectors, ","))
	return err == nil && selector.Selects(v.Labels)
}

// attribute asks for one of the values of a search attribute.
func attribute(name string) func([]string) string {
	return func(values []string) string { return anyOf(name, values) }
}

func askedByState(values []string) string {
	others := slices.DeleteFunc(States(device.States()...), func(s string) bool { return slices.Contains(values, s) })
	if len(others) == 1 {
		return contract.AttrState.GetName() + " != " + literal(others[0])
	}
	return anyOf(contract.AttrState.GetName(), values)
}

func askedByName(names []string) string {
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = contract.WorkflowID(name)
	}
	return anyOf("WorkflowId", ids)
}

// ifTrue asks for those of which a field is true.
func ifTrue(condition string) func([]string) string {
	return func(values []string) string {
		if slices.Equal(values, Booleans[:1]) {
			return condition
		}
		return ""
	}
}
