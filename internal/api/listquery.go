package api

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// listQuery is what a caller asks of GET /v2/devices.
type listQuery struct {
	filter client.Filter
	limit  int
	marker string
	sort   deviceOrder
	fields []deviceField
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
	for _, by := range client.Fields {
		since := ""
		if v := fieldOf(by.Of).since; v > 0 {
			since = " (" + v.String() + ")"
		}
		all = append(all, parameter{Name: by.Name, About: "only devices " + by.About + since, Many: true})
		if by.Also != "" {
			all = append(all, parameter{Name: by.Also, About: "only devices as " + by.Name + since, Many: true})
		}
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
	q.filter = client.Filter{}
	for _, by := range client.Fields {
		name := by.Name
		if by.Also != "" && given.Has(by.Also) {
			if given.Has(name) {
				return q, invalid(by.Also+" is "+name+": both are given", "leave out one of them")
			}
			name = by.Also
		}
		if !given.Has(name) {
			continue
		}
		if q.filter[by], err = filterValues(by, name, given[name]); err == nil {
			err = c.mayUse(name, by.Of)
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

// filterValues reads the values of a filter.
func filterValues(by *client.Field, name string, given []string) ([]string, error) {
	var values []string
	for _, each := range given {
		if by.List {
			values = append(values, strings.Split(each, ",")...)
		} else {
			values = append(values, each)
		}
	}
	for i, v := range values {
		values[i] = strings.TrimSpace(v)
	}
	values, err := by.Values(values)
	switch {
	case err != nil:
		return nil, invalid(name+" "+err.Error(), "give another value, or leave it out")
	case by.Bool() && len(values) > 1:
		return nil, invalid(name+" is given twice", "give it once")
	}
	return values, nil
}

// fieldOf is the member of a device with this name.
func fieldOf(name string) deviceField {
	return deviceFields[slices.IndexFunc(deviceFields, func(f deviceField) bool { return f.name == name })]
}

// mayUse refuses a parameter about a field that the caller does not see: answers that depend
// on it would show it.
func (c *call) mayUse(parameter, field string) error {
	f := fieldOf(field)
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
	text := client.Fields[slices.IndexFunc(client.Fields, func(by *client.Field) bool { return by.Name == key })].Text
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
