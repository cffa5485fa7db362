package client

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// Filter selects devices; an empty field selects all. Values of one field are
// alternatives, and all fields must match, except that Hosts and Instances together
// select a device that matches one of them if HostsOrInstances is set.
type Filter struct {
	States    []device.State
	NotState  device.State
	Types     []string
	Hosts     []string
	Instances []string
	Faults    []string
	Serials   []string
	UUID      string
	// HostsOrInstances joins Hosts and Instances by or.
	HostsOrInstances bool
	NeedsOperator    bool
	// AwaitingCleaning selects pending_cleaning, and error while dirty.
	AwaitingCleaning bool
	// Names are canonical.
	Names []string
}

// running selects the workflows of one type that have not ended.
func running(workflowType string) string {
	return "WorkflowType = " + literal(workflowType) + " AND ExecutionStatus = 'Running'"
}

// Query is the filter in Temporal's query language. The server may find more than the
// filter selects, see anyOf; List leaves those out.
func (f Filter) Query() string {
	return joined(running(contract.WorkflowDeviceLifecycle), f.conditions())
}

// conditions are those of the filter's fields.
func (f Filter) conditions() string {
	hosts, instances := anyOf(contract.AttrHost.GetName(), f.Hosts), anyOf(contract.AttrInstance.GetName(), f.Instances)
	terms := []string{anyOf(contract.AttrState.GetName(), f.States)}
	if f.NotState != "" {
		terms = append(terms, contract.AttrState.GetName()+" != "+literal(string(f.NotState)))
	}
	terms = append(terms, anyOf(contract.AttrType.GetName(), f.Types))
	switch {
	case !f.HostsOrInstances || len(f.Hosts) == 0 || len(f.Instances) == 0:
		terms = append(terms, hosts, instances)
	case hosts != "" && instances != "":
		terms = append(terms, "("+hosts+" OR "+instances+")")
	}
	terms = append(terms, anyOf(contract.AttrFault.GetName(), f.Faults), anyOf(contract.AttrSerial.GetName(), f.Serials))
	if f.UUID != "" {
		terms = append(terms, anyOf(contract.AttrUUID.GetName(), []string{f.UUID}))
	}
	ids := make([]string, len(f.Names))
	for i, name := range f.Names {
		ids[i] = contract.WorkflowID(name)
	}
	terms = append(terms, anyOf("WorkflowId", ids))
	if f.NeedsOperator {
		terms = append(terms, contract.AttrNeedsOperator.GetName()+" = true")
	}
	if f.AwaitingCleaning {
		terms = append(terms, fmt.Sprintf("(%[1]s = %[2]s OR (%[1]s = %[3]s AND %[4]s = true))",
			contract.AttrState.GetName(), literal(string(device.PendingCleaning)), literal(string(device.Error)),
			contract.AttrDirty.GetName()))
	}
	return joined(terms...)
}

// joined joins terms that must all hold; an empty one holds for all.
func joined(terms ...string) string {
	return strings.Join(slices.DeleteFunc(terms, func(t string) bool { return t == "" }), " AND ")
}

// Selects reports whether the device is one that the filter selects.
func (f Filter) Selects(v contract.DeviceStatus) bool {
	instance := ""
	if v.InstanceUUID != nil {
		instance = *v.InstanceUUID
	}
	where := selected(f.Hosts, v.Hostname) && selected(f.Instances, instance)
	if f.HostsOrInstances && len(f.Hosts) > 0 && len(f.Instances) > 0 {
		where = slices.Contains(f.Hosts, v.Hostname) || slices.Contains(f.Instances, instance)
	}
	return where && selected(f.States, v.DeviceState) && (f.NotState == "" || v.DeviceState != f.NotState) &&
		selected(f.Types, v.Type) && selected(f.Faults, v.Fault) && selected(f.Serials, v.Serial) &&
		(f.UUID == "" || f.UUID == v.UUID) && (!f.NeedsOperator || v.NeedsOperator) &&
		(!f.AwaitingCleaning || v.AwaitsCleaning()) && selected(f.Names, v.Name)
}

// selected reports whether a field with these alternatives selects a value.
func selected[T ~string](alternatives []T, value T) bool {
	return len(alternatives) == 0 ||
		slices.ContainsFunc(alternatives, func(a T) bool { return stored(string(a)) == string(value) })
}

// anyOf selects the workflows whose attribute has one of the values. Temporal's SQL stores
// cannot compare every value: the server trims quotes off both ends, and escapes a
// backslash, a double quote or a control character for MySQL, even if it runs on
// SQLite or PostgreSQL. For such a value anyOf compares the part before the first of
// them; "" if there is none. The caller filters the server's results again.
func anyOf[T ~string](attribute string, values []T) string {
	var exact, terms []string
	for _, value := range values {
		v := stored(string(value))
		i := strings.IndexFunc(v, func(r rune) bool { return r == '\'' || r == '"' || r == '\\' || unicode.IsControl(r) })
		switch {
		case i < 0:
			exact = append(exact, literal(v))
		case i == 0:
			return ""
		default:
			terms = append(terms, attribute+" STARTS_WITH "+literal(v[:i]))
		}
	}
	switch len(exact) {
	case 0:
	case 1:
		terms = append(terms, attribute+" = "+exact[0])
	default:
		terms = append(terms, attribute+" IN ("+strings.Join(exact, ", ")+")")
	}
	if len(terms) > 1 {
		return "(" + strings.Join(terms, " OR ") + ")"
	}
	return strings.Join(terms, "")
}

// literal is a string of Temporal's query language, whatever it contains.
func literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(stored(s)) + "'"
}

// stored is a string as a search attribute stores it: JSON replaces each byte that is
// not valid UTF-8.
func stored(s string) string { return string([]rune(s)) }
