package main

import (
	"fmt"
	"strings"

	"burnish/internal/device"
	"burnish/starter/internal/jsonpath"
)

// listOutput is the -o of list: the formats of every command, and three of its own.
type listOutput struct {
	*format
	wide, name bool
	template   *jsonpath.Template
	text       string
}

// String gives the format as it was written.
func (o *listOutput) String() string {
	if o.text != "" || o.format == nil {
		return o.text
	}
	return o.format.String()
}

// Set takes a format's name, or a template.
func (o *listOutput) Set(s string) error {
	o.text, o.wide, o.name, o.template, *o.format = s, false, false, nil, formatTable
	switch kind, text, _ := strings.Cut(s, "="); {
	case s == "wide":
		o.wide = true
	case s == "name":
		o.name = true
	case kind == "jsonpath":
		if strings.Contains(text, ".items") {
			return fmt.Errorf(`of jsonpath: a listing is {"devices":[…]}, such as {.devices[*].name}; it has no items`)
		}
		template, err := jsonpath.Parse(text)
		if err != nil {
			return fmt.Errorf("of jsonpath, such as jsonpath={.devices[*].name}: %w", err)
		}
		o.template = &template
	default:
		if err := o.format.Set(s); err != nil {
			return fmt.Errorf("must be one of table, wide, name, json, yaml, jsonpath=TEMPLATE")
		}
	}
	return nil
}

// templateFailure is that of a template that does not fit what it is for, or of an output
// that cannot be written.
func templateFailure(err error) error {
	return &failure{exit: exitFailed, code: device.CodeInvalid, message: "jsonpath: " + err.Error(),
		remedy: "see burnish list -o json"}
}

// emitList prints a listing in its format.
func (a *app) emitList(o listOutput, s shape, list deviceList) error {
	s.sort(list.Devices)
	switch {
	case o.template != nil:
		if err := o.template.Print(a.stdout, list); err != nil {
			return templateFailure(err)
		}
		return nil
	case o.name:
		var names strings.Builder
		for _, v := range list.Devices {
			names.WriteString(oneLine(v.Name) + "\n")
		}
		return a.print(names.String())
	}
	return a.emit(list, func() string { return s.table(list.Devices, a.now()).Text(a.width(), a.palette()) })
}
