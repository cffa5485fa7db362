package api

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"burnish/workflows/contract"
)

// cyborgFields are Cyborg's own fields of a device, in its order. Whoever may read devices
// sees them; all others need the rule cyborg:device:get_details.
var cyborgFields = []string{"uuid", "type", "vendor", "model", "std_board_info", "vendor_board_info",
	"hostname", "status",
	"device_state", "created_at", "updated_at"}

// deviceField is one member of a device.
type deviceField struct {
	name  string
	index int
	// since is the first version that has it, detail: only callers with get_details see it.
	since  version
	detail bool
}

// deviceFields are all members of a device: Cyborg's first, then Burnish's.
var deviceFields = fieldsOf(reflect.TypeFor[contract.DeviceStatus]())

func fieldsOf(t reflect.Type) []deviceField {
	var own, further []deviceField
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		f := deviceField{name: name, index: i}
		if f.detail = !slices.Contains(cyborgFields, name); f.detail {
			further = append(further, f)
			continue
		}
		if name == "device_state" {
			f.since = v21
		}
		own = append(own, f)
	}
	slices.SortFunc(own, func(a, b deviceField) int {
		return slices.Index(cyborgFields, a.name) - slices.Index(cyborgFields, b.name)
	})
	return append(own, further...)
}

// visible are the fields that the caller sees in the version that it asked for.
func (c *call) visible() []deviceField {
	details := c.may(ruleDetail)
	return slices.DeleteFunc(slices.Clone(deviceFields), func(f deviceField) bool {
		return f.detail && !details || c.version.less(f.since)
	})
}

// deviceView is a device as one caller sees it: a struct of the fields that are seen.
type deviceView any

// view is the device as the caller sees it.
func (c *call) view(v contract.DeviceStatus) deviceView { return viewsOf(c.visible())(&v) }

// viewsOf makes views with these fields, in their order.
func viewsOf(fields []deviceField) func(*contract.DeviceStatus) deviceView {
	status, seen := reflect.TypeFor[contract.DeviceStatus](), []reflect.StructField{}
	for _, f := range fields {
		seen = append(seen, status.Field(f.index))
	}
	t := reflect.StructOf(seen)
	return func(v *contract.DeviceStatus) deviceView {
		from, view := reflect.ValueOf(v).Elem(), reflect.New(t)
		for i, f := range fields {
			view.Elem().Field(i).Set(from.Field(f.index))
			if at, ok := view.Elem().Field(i).Addr().Interface().(*time.Time); ok {
				*at = at.UTC().Truncate(time.Second)
			}
		}
		return view.Interface()
	}
}

// resultView is the answer to a change, as its caller sees it.
type resultView struct {
	Binding int        `json:"binding,omitempty"`
	Device  deviceView `json:"device"`
	Already bool       `json:"already,omitempty"`
	Note    string     `json:"note,omitempty"`
}

// result is the answer to a change of one device.
func (c *call) result(r contract.Result, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	c.know(r.Device.Name)
	return resultView{r.Binding, c.view(r.Device), r.Already, r.Note}, nil
}
