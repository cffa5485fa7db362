package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// record is one provider's file.
type record struct {
	UUID       string
	Name       string
	Class      string
	Traits     []string
	Hardware   []string // each one that its device was enrolled with
	Total      int
	Reserved   int
	Used       int
	Consumers  []string
	Generation int64
	// Tenant is who has the device: nil where that was never recorded, "" for no instance.
	Tenant *string
	// Hold, Bindings and Cleans are the rest of device.Record.
	Hold             device.Hold
	Bindings, Cleans int
	// rest is the file as it was read, so that fields of a newer build are kept.
	rest map[string]json.RawMessage
}

func (r *record) reservation() inventory.Reservation {
	st := inventory.Reservation{Generation: r.Generation, Total: r.Total, Reserved: r.Reserved}
	if r.Tenant != nil {
		st.Record = device.RecordOf(*r.Tenant)
		st.Hold, st.Bindings, st.Cleans = r.Hold, r.Bindings, r.Cleans
	}
	return st
}

// fields maps the names of the fields to the fields. encoding/json itself would ignore
// case, and take "Reserved" for "reserved".
func (r *record) fields() map[string]any {
	return map[string]any{
		"uuid": &r.UUID, "name": &r.Name, "class": &r.Class, "traits": &r.Traits,
		"total": &r.Total, "reserved": &r.Reserved, "used": &r.Used, "consumers": &r.Consumers,
		"generation": &r.Generation, "tenant": &r.Tenant, "hold": &r.Hold, "bindings": &r.Bindings, "cleans": &r.Cleans,
		"hardware": &r.Hardware,
	}
}

// optional are the fields that may be absent or null. Any other missing field would
// read as zero, and the device as not reserved. Without a tenant there is no record of who
// has the device.
var optional = map[string]bool{
	"traits": true, "consumers": true, "tenant": true, "hold": true, "bindings": true, "cleans": true, "hardware": true,
}

// decode reads a file and checks that it is complete and consistent.
func decode(uuid string, data []byte) (*record, error) {
	r := &record{}
	if err := json.Unmarshal(data, &r.rest); err != nil {
		return nil, fmt.Errorf("not a provider's JSON: %w", err)
	}
	for name, to := range r.fields() {
		raw, ok := r.rest[name]
		if !ok || string(raw) == "null" {
			if optional[name] {
				continue
			}
			return nil, fmt.Errorf("field %q is missing", name)
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
	}
	if len(r.Consumers) == 0 {
		r.Consumers = nil // so that an empty list equals an absent one
	}
	switch {
	case r.UUID != uuid:
		return nil, fmt.Errorf("it is the file of provider %q", r.UUID)
	case r.Name == "":
		return nil, errors.New("the name is empty")
	case r.Total < 1:
		return nil, fmt.Errorf("total is %d", r.Total)
	case r.Reserved < 0 || r.Reserved > r.Total:
		return nil, fmt.Errorf("reserved is %d of %d", r.Reserved, r.Total)
	case r.Used != len(r.Consumers):
		return nil, fmt.Errorf("used is %d with %d consumers", r.Used, len(r.Consumers))
	case r.Generation < 0:
		return nil, fmt.Errorf("generation is %d", r.Generation)
	}
	return r, nil
}

// encode gives the file's new content: the known fields over what was read.
func (r *record) encode() ([]byte, error) {
	all := map[string]any{}
	for name, raw := range r.rest {
		all[name] = raw
	}
	maps.Copy(all, r.fields())
	if r.Tenant == nil {
		for _, name := range []string{"tenant", "hold", "bindings", "cleans"} {
			delete(all, name)
		}
	}
	if len(r.Hardware) == 0 {
		delete(all, "hardware")
	}
	for name, list := range map[string][]string{"traits": r.Traits, "consumers": r.Consumers} {
		if len(list) == 0 {
			all[name] = []string{} // rather than null
		}
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// uuidForm is strict because the UUID is a file's name: each provider has one spelling,
// and no name leads out of the directory.
var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func checkUUID(uuid string) error {
	if uuidForm.MatchString(uuid) {
		return nil
	}
	return inventory.Invalid(fmt.Sprintf("%q is not a UUID in lower case", uuid), "name the provider by its UUID")
}

func checkProvider(p inventory.Provider) error {
	if err := checkUUID(p.UUID); err != nil {
		return err
	}
	if p.Name == "" || p.Class == "" {
		return inventory.Invalid(
			fmt.Sprintf("provider %s has no name or no resource class", p.UUID), "give it both")
	}
	return nil
}
