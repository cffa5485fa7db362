package main

import (
	"errors"
	"fmt"

	"burnish/internal/yamlfile"
	"burnish/workflows/contract"
)

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
	if node.Nothing() {
		r.Problem(node, "a device must be a mapping, not nothing")
	}
	texts := map[string]*string{
		"name": &e.name, "host": &e.host, "driver": &e.driver, "type": &e.kind,
		"address": &e.address, "accept_signature": &e.acceptSignature,
	}
	bools := map[string]*bool{"one_time_use": &e.oneTimeUse, "provide": &e.provide, "clean": &e.clean}
	for key, value := range r.Mapping(node, "a device", "name", "host", "driver", "type", "address", "set", "one_time_use",
		"provide", "clean", "accept_signature", "labels") {
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
