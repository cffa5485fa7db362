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
	acceptSignature, reason           string
	labels                            map[string]string
}

// settingOwner is a setting that does not belong to the driver: who allocates the device.
const settingOwner = "owner"

var settingForm = regexp.MustCompile(`,([A-Za-z][A-Za-z0-9_.-]*=)`)

// input checks the enrollment without a server and gives the request.
func (e enrollment) input() (contract.EnrollInput, error) {
	in := contract.EnrollInput{
		Provide: e.provide,
		Reason:  e.reason,
		Enrollment: contract.Enrollment{
			Name: e.name, Host: e.host, Driver: e.driver, Type: e.kind, Address: e.address,
			OneTimeUse:           e.oneTimeUse,
			AcceptSignature:      e.acceptSignature,
			Labels:               e.labels,
			OperatorAssertsClean: e.clean,
		},
	}
	var poolErr, err error
	in.Enrollment.Pool, poolErr = e.poolOf()
	for key, value := range e.set {
		switch {
		case slices.Contains(poolSettings, key):
		case key == settingOwner && value == "":
			return contract.EnrollInput{},
				fmt.Errorf("owner %q: must be one of %s, %s", value, device.OwnerSelf, device.OwnerNova)
		case key == settingOwner:
			in.Enrollment.Owner = device.Owner(value)
		default:
			if in.Enrollment.Settings == nil {
				in.Enrollment.Settings = map[string]string{}
			}
			in.Enrollment.Settings[key] = value
		}
	}
	if in.Enrollment, err = in.Enrollment.Normalize(); err != nil {
		return contract.EnrollInput{}, err
	}
	return in, poolErr
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
