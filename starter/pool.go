package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// poolSettings are the settings of --set that describe a device's pool, and do not belong to its
// driver, in the order in which one is reported missing.
var poolSettings = []string{contract.PoolAppliance, contract.PoolHardware, contract.PoolTemplate, contract.PoolDynamic}

// poolOf reads the pool of an enrollment; nil if it names none.
func (e enrollment) poolOf() (*contract.Pool, error) {
	given := func(key string) bool { _, ok := e.set[key]; return ok }
	if !slices.ContainsFunc(poolSettings, given) {
		return nil, nil
	}
	for _, key := range poolSettings {
		if key != contract.PoolDynamic && !given(key) {
			return nil, fmt.Errorf("%s is missing: a device of a pool needs %s, %s and %s", key, contract.PoolAppliance,
				contract.PoolHardware, contract.PoolTemplate)
		}
	}
	pool := &contract.Pool{Appliance: e.set[contract.PoolAppliance], Hardware: e.set[contract.PoolHardware],
		Template: e.set[contract.PoolTemplate]}
	if err := pool.Check(); err != nil {
		return nil, err
	}
	if text := e.set[contract.PoolDynamic]; given(contract.PoolDynamic) {
		dynamic, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return nil, fmt.Errorf("%s %q: must be true or false", contract.PoolDynamic, text)
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
