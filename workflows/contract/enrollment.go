package contract

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"burnish/internal/device"
)

var (
	hostForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	wordForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)
)

// Normalize checks an enrollment as an operator gave it, and gives it in the one spelling that
// devices keep: host and driver in lower case, the type in upper case. With an address the
// name is derived from it, and a name that is also given must be equal.
func (e Enrollment) Normalize() (Enrollment, error) {
	switch {
	case e.Host == "":
		return e, errors.New("host is missing")
	case !hostForm.MatchString(e.Host):
		return e, fmt.Errorf("%q is not a valid host name", e.Host)
	case e.Driver == "":
		return e, errors.New("driver is missing")
	case !wordForm.MatchString(e.Driver):
		return e, fmt.Errorf("%q is not a valid driver name", e.Driver)
	case e.Type != "" && !wordForm.MatchString(e.Type):
		return e, fmt.Errorf("%q is not a valid type", e.Type)
	case e.Name == "" && e.Address == "":
		return e, errors.New("NAME is missing: give a NAME or a PCI address")
	}
	name := e.Name
	if name != "" {
		var err error
		if name, err = device.CanonicalName(name); err != nil {
			return e, err
		}
	}
	if e.Address != "" {
		made, err := device.NameOf(e.Host, e.Address)
		if err != nil {
			return e, err
		}
		if name != "" && name != made {
			return e, fmt.Errorf("NAME %s does not fit the host and the address, which give %s: leave NAME out", name, made)
		}
		name = made
	}
	if err := device.CheckLabels(e.Labels); err != nil {
		return e, err
	}
	e.Name, e.Host, e.Driver, e.Address = name, strings.ToLower(e.Host), strings.ToLower(e.Driver),
		strings.ToLower(e.Address)
	switch {
	case e.Type != "":
		e.Type = strings.ToUpper(e.Type)
	case e.Pool != nil:
		e.Type = TypeNode
	default:
		e.Type = typeOf(e.Driver)
	}
	switch e.Owner {
	case "":
		e.Owner = device.OwnerSelf
	case device.OwnerSelf, device.OwnerNova:
	default:
		return e, fmt.Errorf("owner %q: must be one of %s, %s", e.Owner, device.OwnerSelf, device.OwnerNova)
	}
	return e, nil
}

// NormalizeSlot checks the slot that a device moves to, and gives it in the one spelling. Only
// the name must be set: in the form HOST_ADDRESS it gives host and address.
func (e Enrollment) NormalizeSlot() (Enrollment, error) {
	var err error
	if e.Name, err = device.CanonicalName(e.Name); err != nil {
		return e, err
	}
	e.Host, e.Driver, e.Address = strings.ToLower(e.Host), strings.ToLower(e.Driver), strings.ToLower(e.Address)
	switch {
	case e.Host != "" && !hostForm.MatchString(e.Host):
		return e, fmt.Errorf("%q is not a valid host name", e.Host)
	case e.Driver != "" && !wordForm.MatchString(e.Driver):
		return e, fmt.Errorf("%q is not a valid driver name", e.Driver)
	}
	host, address, found := device.SplitName(e.Name)
	if !found {
		if e.Address != "" {
			return e, fmt.Errorf("the name %s does not fit the address %s: use the form HOST_ADDRESS", e.Name, e.Address)
		}
		return e, nil
	}
	if e.Host != "" && e.Host != host || e.Address != "" && e.Address != address {
		return e, fmt.Errorf("the name %s does not fit the host %s and the address %s", e.Name, e.Host, e.Address)
	}
	e.Host, e.Address = host, address
	return e, nil
}

// typeOf is the default type of a driver's devices.
func typeOf(driver string) string {
	if driver == "block" {
		return "DISK"
	}
	return strings.ToUpper(driver)
}
