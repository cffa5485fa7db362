package placement

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"burnish/internal/device"
)

// TenantClass is the resource class of a second inventory, which Burnish writes on its own
// providers only: who has the device (F24). It rides in the same PUT as reserved.
//
// Its reserved always equals its total, so that it has no capacity: Placement lists it in
// no allocation candidates, and grants no allocation of it. A tenant's UUID is in its other
// numbers, highest bits first: 8 bits in allocation_ratio − 1, then 30 each in total − 2³⁰,
// min_unit − 1, max_unit − 1 and step_size − 1. No instance is total 1, with all others 1.
const TenantClass = "CUSTOM_BURNISH_TENANT"

// RecordClass is that of a third inventory, for the rest of device.Record: the hold in
// allocation_ratio − 1 (0 none, 1 by an operator, 2 maintenance), the number of bindings in
// min_unit − 1 and that of cleans in max_unit − 1; its total is 1.
const RecordClass = "CUSTOM_BURNISH_RECORD"

const (
	tenantBits = 30
	tenantMask = 1<<tenantBits - 1
	// tenantBound is added to the total where there is a tenant.
	tenantBound = 1 << tenantBits
)

// holds are in the order of their numbers.
var holds = []device.Hold{device.HoldNone, device.HoldOperator, device.HoldMaintenance}

// tenantFields gives the second inventory for a tenant; "" is no instance.
func tenantFields(tenant string) map[string]any {
	if tenant == "" {
		return tenantNumbers(1, 0, 0, 0, 0)
	}
	var raw [16]byte
	// TenantUUID is always a UUID.
	_, _ = hex.Decode(raw[:], []byte(strings.ReplaceAll(device.TenantUUID(tenant), "-", "")))
	high, low := binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	return tenantNumbers(
		tenantBound|high>>26&tenantMask, high>>56,
		(high<<4|low>>60)&tenantMask, low>>30&tenantMask, low&tenantMask)
}

func tenantNumbers(total, ratio, minUnit, maxUnit, step uint64) map[string]any {
	return map[string]any{
		"total": total, "reserved": total, "min_unit": minUnit + 1, "max_unit": maxUnit + 1,
		"step_size": step + 1, "allocation_ratio": ratio + 1,
	}
}

// restFields gives the third inventory.
func restFields(of device.Record) map[string]any {
	return tenantNumbers(1, uint64(max(slices.Index(holds, of.Hold), 0)), number(of.Bindings), number(of.Cleans), 0)
}

// number is a count as far as Placement's integers reach.
func number(n int) uint64 { return uint64(min(max(n, 0), tenantMask)) }

// recordOf reads both inventories of a record. What Burnish did not write is none.
func recordOf(tenant, rest map[string]any) device.Record {
	of := holderOf(tenant)
	hold, ok0 := tenantNumber(rest, "allocation_ratio", 1)
	bindings, ok1 := tenantNumber(rest, "min_unit", 1)
	cleans, ok2 := tenantNumber(rest, "max_unit", 1)
	if of.Witness != device.WitnessNone && ok0 && ok1 && ok2 && hold < uint64(len(holds)) {
		of.Hold, of.Bindings, of.Cleans = holds[hold], int(bindings), int(cleans)
	}
	return of
}

// holderOf reads who has the device. One that Burnish did not write is no record.
func holderOf(fields map[string]any) device.Record {
	total, ok0 := tenantNumber(fields, "total", 0)
	reserved, ok1 := tenantNumber(fields, "reserved", 0)
	ratio, ok2 := tenantNumber(fields, "allocation_ratio", 1)
	minUnit, ok3 := tenantNumber(fields, "min_unit", 1)
	maxUnit, ok4 := tenantNumber(fields, "max_unit", 1)
	step, ok5 := tenantNumber(fields, "step_size", 1)
	switch {
	case !(ok0 && ok1 && ok2 && ok3 && ok4 && ok5), total != reserved:
		return device.Record{}
	case total == 1 && ratio|minUnit|maxUnit|step == 0:
		return device.RecordOf("")
	case total < tenantBound || ratio > 0xff || minUnit > tenantMask || maxUnit > tenantMask || step > tenantMask:
		return device.Record{}
	}
	var raw [16]byte
	high := ratio<<56 | (total&tenantMask)<<26 | minUnit>>4
	low := minUnit<<60 | maxUnit<<30 | step
	binary.BigEndian.PutUint64(raw[:8], high)
	binary.BigEndian.PutUint64(raw[8:], low)
	h := hex.EncodeToString(raw[:])
	return device.RecordOf(h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:])
}

// tenantNumber gives a field less an offset. Placement writes the allocation ratio as a
// float.
func tenantNumber(fields map[string]any, name string, offset uint64) (uint64, bool) {
	n, ok := fields[name].(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	if err != nil || f < float64(offset) || f > 1<<32 || f != float64(uint64(f)) {
		return 0, false
	}
	return uint64(f) - offset, true
}
