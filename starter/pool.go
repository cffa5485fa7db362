package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// The settings of --set that describe a device's pool. They do not belong to its driver.
const (
	settingPool     = "oneview"
	settingHardware = "server_hardware_uri"
	settingTemplate = "server_profile_template_uri"
	settingDynamic  = "dynamic_allocation"
)

// poolSettings are all of them, in the order in which one is reported missing.
var poolSettings = []string{settingPool, settingHardware, settingTemplate, settingDynamic}

var (
	applianceForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)
	uriForm       = regexp.MustCompile(`^/rest/[a-z-]+/[A-Za-z0-9][A-Za-z0-9._:-]*$`)
)

const (
	hardwareURIs = "/rest/server-hardware/"
	templateURIs = "/rest/server-profile-templates/"
)

// poolOf reads the pool of an enrollment; nil if it names none.
func (e enrollment) poolOf() (*contract.Pool, error) {
	given := func(key string) bool { _, ok := e.set[key]; return ok }
	if !slices.ContainsFunc(poolSettings, given) {
		return nil, nil
	}
	for _, key := range poolSettings {
		if key != settingDynamic && !given(key) {
			return nil, fmt.Errorf("%s is missing: a device of a pool needs %s, %s and %s", key, settingPool, settingHardware, settingTemplate)
		}
	}
	pool := &contract.Pool{Appliance: e.set[settingPool], Hardware: e.set[settingHardware], Template: e.set[settingTemplate]}
	if err := checkPool(*pool); err != nil {
		return nil, err
	}
	if text := e.set[settingDynamic]; given(settingDynamic) {
		dynamic, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return nil, fmt.Errorf("%s %q: must be true or false", settingDynamic, text)
		}
		pool.Dynamic = dynamic
	}
	switch {
	case e.kind != "" && !strings.EqualFold(e.kind, contract.TypeNode):
		return nil, fmt.Errorf("type %q: only devices of the type %s are shared in a pool", e.kind, contract.TypeNode)
	case e.set[settingOwner] != "" && e.set[settingOwner] != string(device.OwnerSelf):
		return nil, fmt.Errorf("owner %q: a device of a pool has the owner %s", e.set[settingOwner], device.OwnerSelf)
	}
	return pool, nil
}

// checkPool refuses a pool whose names cannot be those of an appliance.
func checkPool(p contract.Pool) error {
	if !applianceForm.MatchString(p.Appliance) {
		return fmt.Errorf("%s %q: must be the name of an appliance in oneview.yaml", settingPool, p.Appliance)
	}
	for _, one := range []struct{ key, uri, collection string }{
		{settingHardware, p.Hardware, hardwareURIs}, {settingTemplate, p.Template, templateURIs},
	} {
		if !uriForm.MatchString(one.uri) || !strings.HasPrefix(one.uri, one.collection) {
			return fmt.Errorf("%s %q: must be a URI such as %s30303437-3034-4d32-3230-313030304752", one.key, one.uri, one.collection)
		}
	}
	return nil
}

// poolRows are the pool of a device for people.
func poolRows(p contract.StatusPool) [][]string {
	model := "pre-allocation: the profile stays on the server"
	if p.Dynamic {
		model = "dynamic: a profile only while the server is used"
	}
	profile := p.Profile
	switch {
	case p.Applying && profile == "":
		profile = "requested, not recorded yet"
	case profile == "" && p.Dynamic:
		profile = "none of ours"
	}
	rows := [][]string{
		{"pool", p.Appliance + ", " + model}, {"server hardware", p.Hardware}, {"profile template", p.Template}, {"applied profile", profile},
	}
	if p.LostRace {
		rows = append(rows, []string{"lost race", "yes: others took the server while Burnish was about to use it"})
	}
	return rows
}
