package main

import (
	"errors"
	"fmt"
	"iter"
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
	name, host, driver, kind, address string
	set                               map[string]string
	oneTimeUse, provide, clean        bool
	acceptSignature, reason, golden   string
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
	if e.golden != "" {
		if in.Enrollment.Settings == nil {
			in.Enrollment.Settings = map[string]string{}
		}
		in.Enrollment.Settings[device.SettingGolden] = e.golden
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

// mapping reads a mapping that must not be left out.
func mapping(r *yamlfile.Reader, node yamlfile.Node, what string, keys ...string) iter.Seq2[string, yamlfile.Node] {
	if node.Nothing() {
		r.Problem(node, "%s must be a mapping, not nothing", what)
	}
	return r.Mapping(node, what, keys...)
}

// parseEntry reads one device.
func parseEntry(node yamlfile.Node) fleetEntry {
	var e enrollment
	r := &yamlfile.Reader{}
	texts := map[string]*string{
		"name": &e.name, "host": &e.host, "driver": &e.driver, "type": &e.kind,
		"address": &e.address, "accept_signature": &e.acceptSignature, "golden": &e.golden,
	}
	bools := map[string]*bool{"one_time_use": &e.oneTimeUse, "provide": &e.provide, "clean": &e.clean}
	for key, value := range mapping(r, node, "a device", "name", "host", "driver", "type", "address", "set",
		"one_time_use", "provide", "clean", "accept_signature", "golden", "labels") {
		switch {
		case texts[key] != nil:
			*texts[key] = r.Scalar(value, key)
		case bools[key] != nil:
			*bools[key] = r.Bool(value, key)
		default:
			texts := map[string]string{}
			for name, text := range r.Mapping(value, key) {
				texts[name] = r.Scalar(text, key+": "+name)
			}
			if key == "labels" {
				e.labels = texts
			} else {
				e.set = texts
			}
		}
	}
	if err := firstProblem(r); err != nil {
		return fleetEntry{name: e.name, err: err}
	}
	in, err := e.input()
	if err != nil {
		return fleetEntry{name: e.name, err: fmt.Errorf("line %d: %w", node.Line(), err)}
	}
	return fleetEntry{name: in.Enrollment.Name, line: node.Line(), input: in}
}
