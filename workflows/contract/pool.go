package contract

import (
	"fmt"
	"regexp"
	"strings"

	"burnish/internal/device"
)

// Pool is the pool that a server is shared in: an appliance of OneView, whose other users
// take servers too (S4). The applied server profile says who has the server.
type Pool struct {
	// Appliance is its name in the control worker's oneview.yaml.
	Appliance string `json:"appliance"`
	// Hardware and Template are URIs on the appliance: /rest/server-hardware/… and
	// /rest/server-profile-templates/….
	Hardware string `json:"server_hardware_uri"`
	Template string `json:"server_profile_template_uri"`
	// Dynamic: Burnish has a profile on the server only while it uses it. Without it the
	// device is pre-allocated, and no poll touches it (S4.36).
	Dynamic bool `json:"dynamic_allocation"`
}

// The names of a pool's settings, as operators give and read them.
const (
	PoolAppliance = "oneview"
	PoolHardware  = "server_hardware_uri"
	PoolTemplate  = "server_profile_template_uri"
	PoolDynamic   = "dynamic_allocation"
)

// The collections of an appliance that a pool's URIs are of.
const (
	HardwareURIs = "/rest/server-hardware/"
	TemplateURIs = "/rest/server-profile-templates/"
)

var (
	applianceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	resourceForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)
)

// Check refuses a pool whose settings cannot be those of an appliance, in one line that begins with
// the setting.
func (p Pool) Check() error {
	if !applianceForm.MatchString(p.Appliance) {
		return fmt.Errorf("%s %q: must be the name of an appliance in oneview.yaml", PoolAppliance, p.Appliance)
	}
	for _, one := range []struct{ setting, uri, collection string }{{PoolHardware, p.Hardware, HardwareURIs},
		{PoolTemplate, p.Template, TemplateURIs}} {
		if id, found := strings.CutPrefix(one.uri, one.collection); !found || !resourceForm.MatchString(id) {
			return fmt.Errorf("%s %q: must be a URI such as %s30303437-3034-4d32-3230-313030304752", one.setting, one.uri,
				one.collection)
		}
	}
	return nil
}

// PoolState is what a device's workflow knows of its pool.
type PoolState struct {
	// Profile is the URI of the profile that Burnish has applied; "" if it has none.
	Profile string `json:"applied_server_profile_uri,omitempty"`
	// Applying: a profile was requested whose URI is not recorded yet, or may have been by a
	// lost history. One that has the device's UUID as its name is Burnish's.
	Applying bool `json:"applying,omitempty"`
	// Tag is the appliance's of the server after its profile was removed, Burnish's own last act:
	// with another one, others may have used the server and left it between two polls. In the
	// request of a profile for a tenant it is that of the server that the tenant shall get.
	Tag string `json:"tag,omitempty"`
	// Migrating: it became dynamic, and left the offer until its idle profile is removed (S4.35).
	Migrating bool `json:"migrating,omitempty"`
	// Abandoned: it was retired as lost, and its profile could not be removed. It may be
	// forgotten nevertheless.
	Abandoned bool `json:"abandoned,omitempty"`
}

// ChangedBy says that the server was returned with another tag than this one. An unknown tag
// says nothing.
func (s PoolState) ChangedBy(tag string) bool { return s.Tag != "" && tag != "" && tag != s.Tag }

// StatusPool is the pool of a device as clients see it.
type StatusPool struct {
	Pool
	PoolState
	// LostRace: other users took the server while Burnish was about to use it (S4.12, S4.13).
	LostRace bool `json:"lost_race,omitempty"`
	// Taken: the device is in maintenance because other users have its server (S4.8), and for
	// no other reason. Only such a maintenance is ended when they free it (S4.10).
	Taken bool `json:"taken,omitempty"`
}

// PoolRequest is the input of ReadPool, ApplyProfile and RemoveProfile.
type PoolRequest struct {
	Name string `json:"name"`
	// UUID is the device's, and the name of its profile. Serial is the one that its host saw:
	// a server with another one is refused.
	UUID   string    `json:"uuid"`
	Serial string    `json:"serial"`
	Pool   Pool      `json:"pool"`
	State  PoolState `json:"state"`
}

// PoolSnapshot is who has a server, by its appliance.
type PoolSnapshot struct {
	Ownership device.Ownership `json:"ownership"`
	// Profile is the URI of the profile on the server; "" if there is none.
	Profile string `json:"profile,omitempty"`
	// Power is On or Off.
	Power string `json:"power,omitempty"`
	// Tag changes whenever the appliance changes the server; "" where it is not compared.
	Tag string `json:"tag,omitempty"`
	// Gap, of ApplyProfile and RemoveProfile: others may have used the server unseen, since
	// Burnish's own last act or between that and its profile (F34).
	Gap bool `json:"gap,omitempty"`
}

// The pool's activities, of the control worker.
const (
	ActivityReadPool      = "ReadPool"
	ActivityApplyProfile  = "ApplyProfile"
	ActivityRemoveProfile = "RemoveProfile"
)

// SignalTaken and SignalFreed are hints of the polls. The device asks the appliance itself.
const (
	SignalTaken = "taken"
	SignalFreed = "freed"
)
