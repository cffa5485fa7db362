package api

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// listQuery is what a caller asks of GET /v2/devices.
type listQuery struct {
	filters []func(*contract.DeviceStatus) bool // all of which must hold
	limit   int
	marker  string
	sort    deviceOrder
	fields  []deviceField
}

func (q listQuery) selects(v *contract.DeviceStatus) bool {
	return !slices.ContainsFunc(q.filters, func(selects func(*contract.DeviceStatus) bool) bool { return !selects(v) })
}

// listFilter is a parameter that selects devices by a field. Values are alternatives.
type listFilter struct {
	name, field, about string
	// list: values may also be separated by commas.
	list bool
	// allowed are all values; nil: there are others. fold gives a value its case.
	allowed []string
	fold    func(string) string
}

var (
	booleans   = []string{"true", "false"}
	stateWords = wordsOf(device.States())
)

// texts are the fields of a device that are compared as text.
var texts = map[string]func(v *contract.DeviceStatus) string{
	"uuid":         func(v *contract.DeviceStatus) string { return v.UUID },
	"name":         func(v *contract.DeviceStatus) string { return v.Name },
	"type":         func(v *contract.DeviceStatus) string { return v.Type },
	"vendor":       func(v *contract.DeviceStatus) string { return v.Vendor },
	"model":        func(v *contract.DeviceStatus) string { return v.Model },
	"serial":       func(v *contract.DeviceStatus) string { return v.Serial },
	"hostname":     func(v *contract.DeviceStatus) string { return v.Hostname },
	"status":       func(v *contract.DeviceStatus) string { return string(v.Status) },
	"device_state": func(v *contract.DeviceStatus) string { return string(v.DeviceState) },
	"fault":        func(v *contract.DeviceStatus) string { return v.Fault },
	"instance_uuid": func(v *contract.DeviceStatus) string {
		if v.InstanceUUID == nil {
			return ""
		}
		return *v.InstanceUUID
	},
	"needs_operator": func(v *contract.DeviceStatus) string { return strconv.FormatBool(v.NeedsOperator) },
	"dirty":          func(v *contract.DeviceStatus) string { return strconv.FormatBool(v.AwaitsCleaning()) },
	"one_time_use":   func(v *contract.DeviceStatus) string { return strconv.FormatBool(v.OneTimeUse) },
}

// listFilters are Cyborg's filters and those of `burnish list`. Python's clients send True.
var listFilters = []listFilter{
	{name: "uuid", field: "uuid", list: true, about: "of these UUIDs", fold: strings.ToLower},
	{name: "type", field: "type", list: true, about: "of these types, such as DISK or NVME", fold: strings.ToUpper},
	{name: "vendor", field: "vendor", about: "of these vendors"},
	{name: "model", field: "model", about: "of exactly these models"},
	{name: "hostname", field: "hostname", list: true, about: "on these hosts", fold: strings.ToLower},
	{name: "host", field: "hostname", list: true, about: "as hostname", fold: strings.ToLower},
	{name: "status", field: "status", list: true, about: "with these administrative states",
		allowed: wordsOf([]device.Status{device.Enabled, device.Maintaining})},
	{name: "device_state", field: "device_state", list: true, about: "in these states (2.1)", allowed: stateWords},
	{name: "state", field: "device_state", list: true, about: "as device_state (2.1)", allowed: stateWords},
	{name: "name", field: "name", list: true, about: "with these names"},
	{name: "serial", field: "serial", about: "with these serial numbers"},
	{name: "instance", field: "instance_uuid", list: true, about: "bound to these instances", fold: strings.ToLower},
	{name: "fault", field: "fault", list: true, about: "with these faults"},
	{name: "label", field: "labels", list: true,
		about: "with these labels, all of which must match: KEY=VALUE, KEY!=VALUE, KEY or !KEY"},
	{name: "needs_operator", field: "needs_operator", about: "that need an operator, or do not", allowed: booleans,
		fold: strings.ToLower},
	{name: "awaiting_cleaning", field: "dirty", allowed: booleans, fold: strings.ToLower,
		about: "that wait for a clean, or do not: pending_cleaning, and error while dirty"},
	{name: "one_time_use", field: "one_time_use", about: "that are cleaned after every tenant, or are not",
		allowed: booleans, fold: strings.ToLower},
}

// by is the filter with values that it has read.
func (f listFilter) by(values []string) func(*contract.DeviceStatus) bool {
	if f.name == "label" {
		selector, _ := device.ParseLabelSelector(strings.Join(values, ",")) // values has read it
		return func(v *contract.DeviceStatus) bool { return selector.Selects(v.Labels) }
	}
	text := texts[f.field]
	return func(v *contract.DeviceStatus) bool { return slices.Contains(values, text(v)) }
}

// listParameters are all parameters of GET /v2/devices.
func listParameters() []parameter {
	all := []parameter{
		{Name: "limit", About: fmt.Sprintf("the most devices on a page, 1 to %d; %d without it", maxLimit, defaultLimit)},
		{Name: "marker", About: "the UUID of the device after which the page begins: the last one of the page before"},
		{Name: "sort", About: "KEY or KEY:asc or KEY:desc, KEY one of " + strings.Join(orderNames, ", ") + "; uuid:asc without it"},
		{Name: "sort_key", About: "the KEY of sort"},
		{Name: "sort_dir", About: "asc or desc"},
		{Name: "fields", About: "only these fields of each device, separated by commas", Many: true},
	}
	for _, f := range listFilters {
		all = append(all, parameter{Name: f.name, About: "only devices " + f.about, Many: true})
	}
	return all
}

// listQuery reads the parameters. Each value that is not understood is refused: a filter
// that is ignored shows devices that were not asked for.
func (c *call) listQuery() (q listQuery, err error) {
	given := c.r.URL.Query()
	q.limit = defaultLimit
	if given.Has("limit") {
		if q.limit, err = strconv.Atoi(given.Get("limit")); err != nil || q.limit < 1 || q.limit > maxLimit {
			return q, invalid(fmt.Sprintf("limit: %q is not a number from 1 to %d", given.Get("limit"), maxLimit),
				"give such a number, or leave it out")
		}
	}
	if given.Has("marker") {
		id, err := uuid.Parse(given.Get("marker"))
		if err != nil || len(given.Get("marker")) != 36 {
			return q, invalid(fmt.Sprintf("marker: %q is not a UUID", given.Get("marker")),
				"give the UUID of the last device of the page before")
		}
		q.marker = id.String()
	}
	if q.sort, err = c.order(given); err != nil {
		return q, err
	}
	if q.fields, err = c.chosenFields(given["fields"], given.Has("fields")); err != nil {
		return q, err
	}
	for _, f := range listFilters {
		if !given.Has(f.name) {
			continue
		}
		values, err := f.values(given[f.name])
		if err == nil {
			err = c.mayUse(f.name, f.field)
		}
		if err != nil {
			return q, err
		}
		q.filters = append(q.filters, f.by(values))
	}
	if given.Has("state") && given.Has("device_state") || given.Has("host") && given.Has("hostname") {
		return q, invalid("state is device_state, and host is hostname: both are given", "leave out one of them")
	}
	return q, nil
}

// values reads a filter's values.
func (f listFilter) values(given []string) ([]string, error) {
	var values []string
	for _, each := range given {
		if f.list {
			values = append(values, strings.Split(each, ",")...)
		} else {
			values = append(values, each)
		}
	}
	for i, v := range values {
		if v = strings.TrimSpace(v); v == "" {
			return nil, invalid(f.name+" has an empty value", "give a value, or leave it out")
		}
		if f.name == "name" {
			name, err := device.CanonicalName(v)
			if err != nil {
				return nil, invalid("name: "+err.Error(), "give the name of a device")
			}
			v = name
		}
		if f.name == "label" {
			if _, err := device.ParseLabelSelector(v); err != nil {
				return nil, invalid("label: "+err.Error(), "give terms such as rack=a1")
			}
		}
		if f.fold != nil {
			v = f.fold(v)
		}
		if f.allowed != nil && !slices.Contains(f.allowed, v) {
			return nil, invalid(fmt.Sprintf("%s: %q is not one of %s", f.name, v, strings.Join(f.allowed, ", ")),
				"give one of them")
		}
		values[i] = v
	}
	if slices.Equal(f.allowed, booleans) && len(values) > 1 {
		return nil, invalid(f.name+" is given twice", "give it once")
	}
	return values, nil
}

// mayUse refuses a parameter about a field that the caller does not see: answers that depend
// on it would show it.
func (c *call) mayUse(parameter, field string) error {
	f := deviceFields[slices.IndexFunc(deviceFields, func(f deviceField) bool { return f.name == field })]
	switch {
	case c.version.less(f.since):
		return invalid(fmt.Sprintf("%s: version %s has no %s", parameter, c.version, field),
			fmt.Sprintf("send %s: %s %s", versionHeader, serviceType, f.since))
	case f.detail && !c.may(ruleDetail):
		return forbidden(ruleDetail)
	}
	return nil
}

// chosenFields are the fields that the caller asks for; all that it sees if it names none.
func (c *call) chosenFields(given []string, any bool) ([]deviceField, error) {
	visible := c.visible()
	if !any {
		return visible, nil
	}
	names := strings.Split(strings.Join(given, ","), ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
		if !slices.ContainsFunc(deviceFields, func(f deviceField) bool { return f.name == names[i] }) {
			return nil, invalid(fmt.Sprintf("fields: a device has no %q", name), "see "+openAPIPath)
		}
		if err := c.mayUse("fields", names[i]); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(visible, func(f deviceField) bool { return !slices.Contains(names, f.name) }), nil
}

// deviceOrder is an order of devices: by a key, then by UUID.
type deviceOrder struct {
	key        string
	descending bool
	by         func(a, b *contract.DeviceStatus) int
}

func (o deviceOrder) compare(a, b *contract.DeviceStatus) int {
	order := cmp.Or(o.by(a, b), strings.Compare(a.UUID, b.UUID))
	if o.descending {
		return -order
	}
	return order
}

// orderNames lists the keys of sort, as the fields stand in a device.
var orderNames = []string{"uuid", "type", "vendor", "model", "hostname", "device_state", "created_at", "updated_at",
	"name"}

// orderBy is the order by a key of sort.
func orderBy(key string) func(a, b *contract.DeviceStatus) int {
	switch key {
	case "created_at":
		return func(a, b *contract.DeviceStatus) int { return a.CreatedAt.Compare(b.CreatedAt) }
	case "updated_at":
		return func(a, b *contract.DeviceStatus) int { return a.UpdatedAt.Compare(b.UpdatedAt) }
	}
	text := texts[key]
	return func(a, b *contract.DeviceStatus) int { return strings.Compare(text(a), text(b)) }
}

// order reads sort, or sort_key and sort_dir.
func (c *call) order(given url.Values) (o deviceOrder, err error) {
	name, direction := "sort", "asc"
	o.key = "uuid"
	switch {
	case given.Has("sort") && (given.Has("sort_key") || given.Has("sort_dir")):
		return o, invalid("sort is sort_key and sort_dir in one: both are given", "leave out one of them")
	case given.Has("sort"):
		var named bool
		if o.key, direction, named = strings.Cut(given.Get("sort"), ":"); !named {
			direction = "asc"
		}
	default:
		if name = "sort_key"; given.Has(name) {
			o.key = given.Get(name)
		}
		if given.Has("sort_dir") {
			direction = given.Get("sort_dir")
		}
	}
	if !slices.Contains(orderNames, o.key) {
		return o, invalid(fmt.Sprintf("%s: %q is not one of %s", name, o.key, strings.Join(orderNames, ", ")),
			"give one of them")
	}
	o.by = orderBy(o.key)
	if direction != "asc" && direction != "desc" {
		if given.Has("sort_dir") {
			name = "sort_dir"
		}
		return o, invalid(fmt.Sprintf("%s: the direction %q is not asc or desc", name, direction), "give one of them")
	}
	o.descending = direction == "desc"
	return o, c.mayUse(name, o.key)
}

func wordsOf[T ~string](values []T) []string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return words
}
