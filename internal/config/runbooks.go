package config

import (
	"encoding/json"
	"slices"
	"strings"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/yamlfile"
)

// readRunbooks reads the section runbooks. It does not check them against the steps.
func readRunbooks(r *yamlfile.Reader, node yamlfile.Node, policy *clean.Policy) {
	for name, body := range r.Mapping(node, "runbooks") {
		if !clean.RunbookNames.MatchString(name) {
			r.Problem(body, "%q is not a valid name of a runbook: letters, digits, - _ and . are possible", name)
		}
		e := entryOf(r, body, "the runbook "+name, "description", "match", "group", "steps")
		book := clean.Runbook{Name: name, Description: e.text(r, "description"), Line: body.Line()}
		if node, ok := e.keys["group"]; ok {
			book.Group = e.text(r, "group")
			if err := device.CheckLabelKey(book.Group); err != nil {
				r.Problem(node, "group: %s", err)
			}
		}
		if match, ok := e.keys["match"]; ok {
			m := matchEntry(r, match)
			chosen := m.match(r)
			if chosen == (clean.Match{}) {
				r.Problem(body, "the match of %s is empty; name a type, a vendor, a model or a trait", name)
			}
			book.Match = &chosen
		}
		if _, ok := e.keys["steps"]; !ok {
			r.Problem(body, "the runbook %s needs steps", name)
		}
		for _, item := range r.List(e.keys["steps"], "steps") {
			book.Steps = append(book.Steps, readRunbookStep(r, item))
		}
		policy.Runbooks = append(policy.Runbooks, book)
	}
	slices.SortFunc(policy.Runbooks, func(a, b clean.Runbook) int { return strings.Compare(a.Name, b.Name) })
}

// matchEntry reads the mapping match, of which the caller reports that it is empty.
func matchEntry(r *yamlfile.Reader, node yamlfile.Node) entry {
	if node.Nothing() {
		return entry{what: "match", at: node}
	}
	return entryOf(r, node, "match", matchKeys...)
}

func readRunbookStep(r *yamlfile.Reader, item yamlfile.Node) clean.RunbookStep {
	e := entryOf(r, item, "a step", "step", "args")
	step := clean.RunbookStep{Step: e.required(r, "step"), Line: item.Line()}
	args := map[string]any{}
	for name, value := range r.Mapping(e.keys["args"], "args") {
		args[name] = plain(r, value, name)
	}
	if len(args) == 0 {
		return step
	}
	text, err := json.Marshal(args)
	if err != nil {
		r.Problem(item, "args: %s", err)
	}
	step.Args = text
	return step
}

// plain gives any value as JSON has it.
func plain(r *yamlfile.Reader, node yamlfile.Node, what string) any {
	switch {
	case node.IsMapping():
		object := map[string]any{}
		for name, value := range r.Mapping(node, what) {
			object[name] = plain(r, value, name)
		}
		return object
	case node.IsList():
		list := []any{}
		for _, item := range r.List(node, what) {
			list = append(list, plain(r, item, what))
		}
		return list
	}
	return scalar(r, node, what)
}
