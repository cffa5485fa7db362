package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"burnish/internal/device"
	"burnish/internal/yamlfile"
	"burnish/workflows/contract"
)

// enrollment is one device as an operator writes it, by flags or in a fleet file.
type enrollment struct {
	Name            string            `yaml:"name"`
	Host            string            `yaml:"host" flag:"host" help:"HOST: where the device is"`
	Driver          string            `yaml:"driver" flag:"driver" help:"D: block, fake, nvme, pci, redfish or script"`
	Type            string            `yaml:"type" flag:"type" help:"T: its type (from the driver: block DISK, fake FAKE)"`
	Address         string            `yaml:"address" flag:"address" help:"PCI: its PCI address, such as 0000:01:00.0; the NAME is then H_PCI"`
	Set             map[string]string `yaml:"set"`
	OneTimeUse      bool              `yaml:"one_time_use" flag:"one-time-use" help:"clean it after every tenant, whatever the settings"`
	Provide         bool              `yaml:"provide" flag:"provide" help:"clean it and make it available"`
	Clean           bool              `yaml:"clean" flag:"clean" help:"assert that it is clean; only with BURNISH_CLEAN_ON_ENROLL=false"`
	AcceptSignature string            `yaml:"accept_signature" flag:"accept-signature" help:"S: a file-system signature on it that may be destroyed"`
	Golden          string            `yaml:"golden" flag:"golden" help:"PROFILE: of a server, the profile under golden in the policy: what it says of the BMC and the boot is restored, and not what is found now"`
	Labels          map[string]string `yaml:"labels"`
	reason          string
}

// settingOwner is a setting that does not belong to the driver: who allocates the device.
const settingOwner = "owner"

var settingForm = regexp.MustCompile(`,([A-Za-z][A-Za-z0-9_.-]*=)`)

// input checks the enrollment without a server and gives the request.
func (e enrollment) input() (contract.EnrollInput, error) {
	in := contract.EnrollInput{
		Provide: e.Provide,
		Reason:  e.reason,
		Enrollment: contract.Enrollment{
			Name: e.Name, Host: e.Host, Driver: e.Driver, Type: e.Type, Address: e.Address,
			OneTimeUse:           e.OneTimeUse,
			AcceptSignature:      e.AcceptSignature,
			Labels:               e.Labels,
			OperatorAssertsClean: e.Clean,
		},
	}
	var poolErr, err error
	in.Enrollment.Pool, poolErr = e.poolOf()
	for key, value := range e.Set {
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
	if e.Golden != "" {
		if in.Enrollment.Settings == nil {
			in.Enrollment.Settings = map[string]string{}
		}
		in.Enrollment.Settings[device.SettingGolden] = e.Golden
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

// poolSettings are the settings of --set that describe a device's pool, and do not belong to its
// driver, in the order in which one is reported missing.
var poolSettings = []string{contract.PoolAppliance, contract.PoolHardware, contract.PoolTemplate, contract.PoolDynamic}

// poolOf reads the pool of an enrollment; nil if it names none.
func (e enrollment) poolOf() (*contract.Pool, error) {
	given := func(key string) bool { _, ok := e.Set[key]; return ok }
	if !slices.ContainsFunc(poolSettings, given) {
		return nil, nil
	}
	for _, key := range poolSettings {
		if key != contract.PoolDynamic && !given(key) {
			return nil, fmt.Errorf("%s is missing: a device of a pool needs %s, %s and %s", key, contract.PoolAppliance,
				contract.PoolHardware, contract.PoolTemplate)
		}
	}
	pool := &contract.Pool{Appliance: e.Set[contract.PoolAppliance], Hardware: e.Set[contract.PoolHardware],
		Template: e.Set[contract.PoolTemplate]}
	if err := pool.Check(); err != nil {
		return nil, err
	}
	if text := e.Set[contract.PoolDynamic]; given(contract.PoolDynamic) {
		dynamic, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return nil, fmt.Errorf("%s %q: must be true or false", contract.PoolDynamic, text)
		}
		pool.Dynamic = dynamic
	}
	switch {
	case e.Type != "" && !strings.EqualFold(e.Type, contract.TypeNode):
		return nil, fmt.Errorf("type %q: only devices of the type %s are shared in a pool", e.Type, contract.TypeNode)
	case e.Set[settingOwner] != "" && e.Set[settingOwner] != string(device.OwnerSelf):
		return nil, fmt.Errorf("owner %q: a device of a pool has the owner %s", e.Set[settingOwner], device.OwnerSelf)
	}
	return pool, nil
}

// labelsOf reads the labels of a device that is enrolled.
func labelsOf(texts []string) (map[string]string, error) {
	change, err := device.ParseLabelChange(texts)
	if err == nil && len(change.Remove) > 0 {
		err = fmt.Errorf("%s-: a device that is enrolled has no label to remove; give KEY=VALUE", change.Remove[0])
	}
	if err != nil || len(change.Set) == 0 {
		return nil, err
	}
	return change.Set, nil
}

// fleetEntry is one device of a fleet file: its request, or its error, with the
// line.
type fleetEntry struct {
	name  string // as far as it could be read
	line  int
	input contract.EnrollInput
	err   error
}

// parseFleet reads a fleet file. Its error is one of the whole file, with the line;
// a device's own error is in its entry.
func parseFleet(data []byte) ([]fleetEntry, error) {
	r := &yamlfile.Reader{}
	body := r.Parse(data)
	if len(r.Problems()) == 0 && body.Nothing() {
		return nil, errors.New("must be a mapping with the key devices")
	}
	var entries []fleetEntry
	for _, devices := range r.Mapping(body, "a fleet file", "devices") {
		for _, device := range r.List(devices, "devices") {
			entries = append(entries, parseEntry(device))
		}
	}
	if err := firstProblem(r); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("it contains no device")
	}
	markDuplicates(entries)
	return entries, nil
}

func firstProblem(r *yamlfile.Reader) error {
	if problems := r.Problems(); len(problems) > 0 {
		return errors.New(problems[0])
	}
	return nil
}

// markDuplicates refuses a name that an entry before has.
func markDuplicates(entries []fleetEntry) {
	lines := map[string]int{}
	for i, e := range entries {
		if e.err != nil {
			continue
		}
		name := e.input.Enrollment.Name
		if line, ok := lines[name]; ok {
			entries[i].err = fmt.Errorf("line %d: %s is a duplicate of line %d", e.line, name, line)
			continue
		}
		lines[name] = e.line
	}
}

// parseEntry reads one device.
func parseEntry(node yamlfile.Node) fleetEntry {
	var e enrollment
	r := &yamlfile.Reader{}
	r.Decode(node, "a device", &e, nil)
	if err := firstProblem(r); err != nil {
		return fleetEntry{name: e.Name, err: err}
	}
	in, err := e.input()
	if err != nil {
		return fleetEntry{name: e.Name, err: fmt.Errorf("line %d: %w", node.Line(), err)}
	}
	return fleetEntry{name: in.Enrollment.Name, line: node.Line(), input: in}
}
