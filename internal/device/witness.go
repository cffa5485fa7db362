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

// HeldBy says that the record names this instance.
func (i Inventory) HeldBy(instance string) bool {
	return i.Witness == WitnessBound && SameTenant(i.Tenant, instance)
}

// SameTenant says that a recorded tenant is this instance. A record may hold the
// instance's TenantUUID instead of its name.
func SameTenant(recorded, instance string) bool {
	return instance != "" && (recorded == instance || recorded == TenantUUID(instance))
}

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
