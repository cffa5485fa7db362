package file

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"burnish/internal/device"
	"burnish/internal/inventory"
)

// record is one provider's file, with its members in the order of their names.
type record struct {
	Bindings   int         `json:"bindings,omitzero"`
	Class      string      `json:"class"`
	Cleans     int         `json:"cleans,omitzero"`
	Consumers  []string    `json:"consumers"`
	Generation int64       `json:"generation"`
	Hardware   []string    `json:"hardware,omitempty"` // each one that its device was enrolled with
	Hold       device.Hold `json:"hold,omitzero"`
	Name       string      `json:"name"`
	Reserved   int         `json:"reserved"`
	// Tenant is who has the device: nil where that was never recorded, "" for no instance. Hold,
	// Bindings and Cleans are the rest of device.Record.
	Tenant *string  `json:"tenant,omitzero"`
	Total  int      `json:"total"`
	Traits []string `json:"traits"`
	Used   int      `json:"used"`
	UUID   string   `json:"uuid"`
	// Rest are the members of a newer build, which are kept.
	Rest jsontext.Value `json:",embed"`
}

func (r *record) reservation() inventory.Reservation {
	st := inventory.Reservation{Generation: r.Generation, Total: r.Total, Reserved: r.Reserved}
	if r.Tenant != nil {
		st.Record = device.RecordOf(*r.Tenant)
		st.Hold, st.Bindings, st.Cleans = r.Hold, r.Bindings, r.Cleans
	}
	return st
}

// numbered refuses null for a number: it would read as zero, and the device as not reserved.
var numbered = json.JoinUnmarshalers(noNull[int](), noNull[int64]())

func noNull[T int | int64]() *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *T) error {
		if d.PeekKind() == jsontext.KindNull {
			return errors.New("it is null")
		}
		return errors.ErrUnsupported // by this function: it is read as any number
	})
}

// decode reads a file and checks that it is complete and consistent. Of a number that is missing the
// one here stays, which is not.
func decode(uuid string, data []byte) (*record, error) {
	r := &record{Total: -1, Reserved: -1, Used: -1, Generation: -1}
	if err := json.Unmarshal(data, r, json.WithUnmarshalers(numbered)); err != nil {
		return nil, fmt.Errorf("not a provider's JSON: %w", err)
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

// uuidForm is strict because the UUID is a file's name: each provider has one spelling,
// and no name leads out of the directory.
var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func checkUUID(uuid string) error {
	if uuidForm.MatchString(uuid) {
		return nil
	}
	return inventory.Invalid(fmt.Sprintf("%q is not a UUID in lower case", uuid), "name the provider by its UUID")
}
