package redfishsim

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/testkit/simserver"
)

// Dialect is how a BMC writes its JSON, where that is not as the schemas have it.
type Dialect struct {
	Floats           bool // whole numbers as 2.6e+01
	EmptyLists       bool // an object without properties, and a property without a value, is []
	AbsoluteLinks    bool // with scheme and host
	VersionedActions bool // #Bios.v1_0_0.ResetBios, and DellManager.v1_0_0#DellManager.ClearPending
	// Properties have this value wherever they are, such as one of another type.
	Properties map[string]any
}

// written is the JSON of an answer in the BMC's dialect.
func (d Dialect) written(raw []byte, host string) []byte {
	if reflect.ValueOf(d).IsZero() {
		return raw
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return simserver.Encode(err.Error())
	}
	return simserver.Encode(d.rewritten(document, host))
}

func (d Dialect) rewritten(v any, host string) any {
	switch one := v.(type) {
	case nil:
		if d.EmptyLists {
			return []any{}
		}
	case json.Number:
		if n, err := one.Int64(); err == nil && d.Floats {
			return json.Number(strconv.FormatFloat(float64(n), 'e', -1, 64))
		}
	case string:
		if d.AbsoluteLinks && strings.HasPrefix(one, "/redfish/v1/") {
			return "https://" + host + one
		}
	case []any:
		for i := range one {
			one[i] = d.rewritten(one[i], host)
		}
	case map[string]any:
		if len(one) == 0 && d.EmptyLists {
			return []any{}
		}
		for _, key := range slices.Collect(maps.Keys(one)) {
			value := d.rewritten(one[key], host)
			if other, has := d.Properties[key]; has {
				value = other
			}
			delete(one, key)
			one[d.action(key)] = value
		}
	}
	return v
}

// action is the key of a property, which has a version if it is an action.
func (d Dialect) action(key string) string {
	kind, name, _ := strings.Cut(strings.TrimPrefix(key, "#"), ".")
	switch {
	case !d.VersionedActions || !strings.HasPrefix(key, "#"):
		return key
	case kind == "DellManager":
		return kind + ".v1_0_0" + key
	}
	return "#" + kind + ".v1_0_0." + name
}
