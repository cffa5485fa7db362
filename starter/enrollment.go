package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// enrollment is one device as an operator writes it, by flags or in a fleet file.
type enrollment struct {
	name, host, driver, kind, address string
	set                               map[string]string
	oneTimeUse, provide, clean        bool
	acceptSignature                   string
}

// settingOwner is a setting that does not belong to the driver: who allocates the device.
const settingOwner = "owner"

var (
	hostForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)
	wordForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)
	settingForm = regexp.MustCompile(`,([A-Za-z][A-Za-z0-9_.-]*=)`)
)

// input checks the enrollment without a server and gives the request.
// With an address the name is derived from it, and a name that is also given must be
// equal. Host and driver are written in lower case, the type in upper case.
func (e enrollment) input() (contract.EnrollInput, error) {
	fail := func(format string, args ...any) (contract.EnrollInput, error) {
		return contract.EnrollInput{}, fmt.Errorf(format, args...)
	}
	switch {
	case e.host == "":
		return fail("host is missing")
	case !hostForm.MatchString(e.host):
		return fail("%q is not a valid host name", e.host)
	case e.driver == "":
		return fail("driver is missing")
	case !wordForm.MatchString(e.driver):
		return fail("%q is not a valid driver name", e.driver)
	case e.kind != "" && !wordForm.MatchString(e.kind):
		return fail("%q is not a valid type", e.kind)
	case e.name == "" && e.address == "":
		return fail("NAME is missing: give a NAME or a PCI address")
	}
	name := e.name
	if name != "" {
		var err error
		if name, err = device.CanonicalName(name); err != nil {
			return fail("%w", err)
		}
	}
	if e.address != "" {
		made, err := device.NameOf(e.host, e.address)
		if err != nil {
			return fail("%w", err)
		}
		if name != "" && name != made {
			return fail("NAME %s does not fit the host and the address, which give %s: leave NAME out", name, made)
		}
		name = made
	}
	in := contract.EnrollInput{
		Provide: e.provide,
		Enrollment: contract.Enrollment{
			Name:                 name,
			Host:                 strings.ToLower(e.host),
			Driver:               strings.ToLower(e.driver),
			Type:                 strings.ToUpper(e.kind),
			Address:              strings.ToLower(e.address),
			Owner:                device.OwnerSelf,
			OneTimeUse:           e.oneTimeUse,
			AcceptSignature:      e.acceptSignature,
			OperatorAssertsClean: e.clean,
		},
	}
	var err error
	if in.Enrollment.Pool, err = e.poolOf(); err != nil {
		return fail("%w", err)
	}
	switch {
	case in.Enrollment.Type != "":
	case in.Enrollment.Pool != nil:
		in.Enrollment.Type = contract.TypeNode
	default:
		in.Enrollment.Type = typeOf(in.Enrollment.Driver)
	}
	for key, value := range e.set {
		if slices.Contains(poolSettings, key) {
			continue
		}
		if key != settingOwner {
			if in.Enrollment.Settings == nil {
				in.Enrollment.Settings = map[string]string{}
			}
			in.Enrollment.Settings[key] = value
			continue
		}
		switch owner := device.Owner(value); owner {
		case device.OwnerSelf, device.OwnerNova:
			in.Enrollment.Owner = owner
		default:
			return fail("owner %q: must be one of %s, %s", value, device.OwnerSelf, device.OwnerNova)
		}
	}
	return in, nil
}

// typeOf is the default type of a driver's devices.
func typeOf(driver string) string {
	if driver == "block" {
		return "DISK"
	}
	return strings.ToUpper(driver)
}

// settings reads the values of --set: k=v, or several separated by commas. A comma that is
// not followed by `key=` belongs to the value.
func settings(given []string) (map[string]string, error) {
	set := map[string]string{}
	for _, text := range given {
		for _, pair := range strings.Split(settingForm.ReplaceAllString(text, "\x00$1"), "\x00") {
			key, value, ok := strings.Cut(pair, "=")
			if !ok || key == "" {
				return nil, fmt.Errorf("--set %q: must be key=value", pair)
			}
			if _, twice := set[key]; twice {
				return nil, fmt.Errorf("--set %s is given twice", key)
			}
			set[key] = value
		}
	}
	return set, nil
}
