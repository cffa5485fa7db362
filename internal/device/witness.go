package device

import (
	"crypto/sha1" //nolint:gosec // a version 5 UUID is made of a SHA-1; it protects nothing
	"encoding/hex"
	"regexp"
)

// Witness says who has the device by a record outside Temporal (SAFETY F24).
type Witness string

// What a witness says.
const (
	// WitnessNone: there is no record, or it cannot be read.
	WitnessNone Witness = ""
	// WitnessFree: the record says that no instance has the device.
	WitnessFree Witness = "free"
	// WitnessBound: the record names an instance.
	WitnessBound Witness = "bound"
)

// Record is what the provider of a device keeps outside Temporal, in the write that reserves it
// (SAFETY F24, F36, F43): who has the device, whether an operator holds it, and the numbers of the
// workflow that wrote it. Of a device of Nova's the allocations say who has it, and nothing says
// the rest.
type Record struct {
	Witness Witness `json:"witness,omitempty"`
	// Tenant is the instance that WitnessBound names: SameTenant compares it.
	Tenant string `json:"tenant,omitempty"`
	Hold   Hold   `json:"hold,omitempty"`
	// Bindings and Cleans count those of the device, the recorded ones included; 0: not known.
	Bindings int `json:"bindings,omitempty"`
	Cleans   int `json:"cleans,omitempty"`
}

// RecordOf is the record of a device that an instance has; "" is no instance.
func RecordOf(tenant string) Record {
	if tenant == "" {
		return Record{Witness: WitnessFree}
	}
	return Record{Witness: WitnessBound, Tenant: tenant}
}

// HeldBy says that the record names this instance.
func (r Record) HeldBy(instance string) bool {
	return r.Witness == WitnessBound && SameTenant(r.Tenant, instance)
}

// Hold says how an operator holds a device: it is not cleaned and not offered until the operator
// lets it go (SAFETY F43).
type Hold string

// The holds.
const (
	HoldNone Hold = ""
	// HoldOperator: the device is manageable, in error, retired, or runs steps that were named.
	HoldOperator Hold = "operator"
	// HoldMaintenance: the device is in the operator's maintenance.
	HoldMaintenance Hold = "maintenance"
)

// Hold is how an operator holds the device. What is in error because of a lost race alone, or
// manageable because others took it, is cleaned by itself when they have left.
func (d Device) Hold() Hold {
	switch {
	case d.Status == Maintaining:
		return HoldMaintenance
	case d.State == Retired, d.NamedSteps, d.State == Manageable && d.Maintenance != MaintenanceTaken,
		d.State == Error && (!d.LostRace || d.Maintenance == MaintenanceQuarantined):
		return HoldOperator
	}
	return HoldNone
}

// SameTenant says that a recorded tenant is this instance. A record may hold the
// instance's TenantUUID instead of its name.
func SameTenant(recorded, instance string) bool {
	return instance != "" && (recorded == instance || len(recorded) == uuidLength && recorded == TenantUUID(instance))
}

// uuidLength is that of a UUID in its usual form.
const uuidLength = 36

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// TenantUUID is the UUID by which an inventory that can record only a UUID knows an
// instance: the instance itself where it is a UUID in lower case, else one made of its
// name.
func TenantUUID(instance string) string {
	if uuidForm.MatchString(instance) {
		return instance
	}
	return nameUUID("burnish:tenant:" + instance)
}

// nameUUID is a version 5 UUID made of a name.
func nameUUID(name string) string {
	sum := sha1.Sum([]byte(name)) //nolint:gosec // see the import
	sum[6] = sum[6]&0x0f | 0x50
	sum[8] = sum[8]&0x3f | 0x80
	h := hex.EncodeToString(sum[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
