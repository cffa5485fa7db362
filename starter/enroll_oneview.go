package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// serversPerPage is how many servers one answer of an appliance's workflow has, about.
const serversPerPage = 100

// fromPool is what `enroll --from oneview` adds to an enrollment.
type fromPool struct {
	from, appliance, template string
	filters                   []string
	dryRun, yes               bool
}

// fromFlags are the flags that go with --from only.
var fromFlags = []string{"appliance", "template", "filter", "yes"}

// placeholder is a part of a --set value that each server fills in.
var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

// enrollFrom enrolls the servers of an appliance that are not enrolled.
func (a *app) enrollFrom(ctx context.Context, like enrollment, f fromPool) error {
	filter, err := f.check(like)
	if err != nil {
		return err
	}
	return a.devices(ctx, func(l deviceClient) error {
		if f.appliance == "" {
			none := failf(device.CodeNotFound, "start one with BURNISH_ONEVIEW", "no control worker serves an appliance")
			if f.appliance, err = a.onlyServed(ctx, l, "an appliance", "appliance", l.Appliances, none); err != nil {
				return err
			}
		}
		found, enrolled, err := a.servers(ctx, l, f.appliance, filter)
		if err != nil {
			return err
		}
		if len(found) == 0 && a.format == formatTable {
			return a.print("nothing to enroll: " + matching(enrolled) + "\n")
		}
		if enrolled > 0 {
			a.note("", fmt.Sprintf("enrolled already: %d of the servers that match", enrolled))
		}
		if !f.dryRun {
			if err := a.confirm(ctx, f.question(a, like, found)); err != nil {
				return err
			}
		}
		return a.enrollServers(ctx, l, like, f, found)
	})
}

// question is asked before servers are enrolled: they are chosen by a filter, and --provide
// erases them.
func (f fromPool) question(a *app, like enrollment, found []contract.PoolServer) question {
	does, may := "enroll", contract.VerbEnroll.May
	if like.Provide {
		does, may = "enroll and clean", may|contract.Erases
	}
	return question{does: does, n: len(found), above: asksAbove(may, true), yes: f.yes, show: func() (string, error) {
		rows := [][]string{{"NAME", "HOST", "SERIAL", "MODEL", "PROFILE"}}
		for _, s := range found[:min(maxAsked, len(found))] {
			rows = append(rows, []string{deviceName(s), like.Host, s.Serial, s.Model, s.Profile})
		}
		table := a.columns(rows)
		if rest := len(found) - maxAsked; rest > 0 {
			table += fmt.Sprintf("and %d more\n", rest)
		}
		return table, nil
	}}
}

// matching says why no server is left to enroll.
func matching(enrolled int) string {
	if enrolled == 0 {
		return "no server matches"
	}
	return fmt.Sprintf("all servers that match are enrolled (%d)", enrolled)
}

// check refuses a wrong command line before a server is contacted, and gives the filters.
func (f fromPool) check(like enrollment) (map[string]string, error) {
	for _, key := range []string{contract.PoolAppliance, contract.PoolHardware, contract.PoolTemplate} {
		if _, given := like.Set[key]; given {
			return nil, usagef("--set %s and --from exclude each other: use --appliance and --template", key)
		}
	}
	switch {
	case f.from != "oneview":
		return nil, usagef("--from %q: must be oneview", f.from)
	case f.template == "":
		return nil, usagef("--template is missing: give the URI of the server profile template of these servers")
	}
	filter := map[string]string{}
	for _, text := range f.filters {
		key, value, ok := strings.Cut(text, "=")
		_, twice := filter[key]
		switch {
		case !ok || value == "":
			return nil, usagef("--filter %q: must be KEY=VALUE", text)
		case !slices.Contains(contract.ServerFilters(), key):
			return nil, usagef("--filter %q: KEY must be one of %s", text, strings.Join(contract.ServerFilters(), ", "))
		case twice:
			return nil, usagef("--filter %s is given twice", key)
		}
		filter[key] = value
	}
	example := contract.PoolServer{Hardware: contract.HardwareURIs + "x", Name: "x", Serial: "x", UUID: "x"}
	for key, value := range like.Set {
		for _, found := range placeholder.FindAllStringSubmatch(value, -1) {
			if _, known := fillings(example)[found[1]]; !known {
				return nil, usagef("--set %s: %s is not one of {name}, {serial}, {uuid}", key, found[0])
			}
		}
	}
	probe := f
	probe.appliance = cmp.Or(f.appliance, "x")
	if _, err := probe.input(like, example); err != nil {
		return nil, usagef("%s", err)
	}
	return filter, nil
}

// servers are the appliance's servers that match and are not enrolled, and how many are.
func (a *app) servers(ctx context.Context, l deviceClient, appliance string,
	filter map[string]string) (found []contract.PoolServer, enrolled int, err error) {
	in := contract.ServersInput{Appliance: appliance, Limit: serversPerPage, Filter: filter}
	for {
		page, err := served(ctx, a, "an appliance named "+appliance, func(ctx context.Context) (contract.Servers, error) {
			return l.Servers(ctx, in)
		})
		if err != nil {
			return nil, 0, a.explainAppliance(ctx, l, appliance, err)
		}
		found, enrolled = append(found, page.Servers...), enrolled+page.Enrolled
		if page.Next <= in.Start {
			return found, enrolled, nil
		}
		in.Start = page.Next
	}
}

// enrollServers enrolls the servers, or says what it would do.
func (a *app) enrollServers(ctx context.Context, l deviceClient, like enrollment, f fromPool,
	found []contract.PoolServer) error {
	hardwareOf := map[string]string{}
	for _, server := range found {
		if name := deviceName(server); hardwareOf[name] == "" {
			hardwareOf[name] = server.Hardware
		}
	}
	return a.forEachDevice(len(found), parallelism, false, func(i int) outcome {
		server := found[i]
		name := deviceName(server)
		switch other := hardwareOf[name]; {
		case device.SerialKey(server.Serial) == "":
			return failed("enroll", cmp.Or(server.Name, server.Hardware), failf(device.CodeInvalid,
				"refresh the server there", "the appliance has no serial number of %s", server.Hardware))
		case other != server.Hardware:
			return failed("enroll", name, failf(device.CodeDuplicateSerial,
				"see both on the appliance, and enroll the right one by its NAME",
				"%s and %s have the same serial number %s", other, server.Hardware, server.Serial))
		}
		in, err := f.input(like, server)
		if err != nil {
			return failed("enroll", name, usagef("%s", err))
		}
		if f.dryRun {
			return done(name,
				oneLine(fmt.Sprintf("%s: would be enrolled: serial %s, %s, %s", name, server.Serial,
					cmp.Or(server.Model, "unknown model"), profileText(server.Profile))))
		}
		return a.enrolled(ctx, l, "enroll", "enrolled", in)
	})
}

// input is the enrollment of one server.
func (f fromPool) input(like enrollment, server contract.PoolServer) (contract.EnrollInput, error) {
	e, values := like, fillings(server)
	e.Name, e.Set = deviceName(server), maps.Clone(like.Set)
	for key, value := range e.Set {
		e.Set[key] = placeholder.ReplaceAllStringFunc(value, func(found string) string {
			return values[strings.Trim(found, "{}")]
		})
	}
	e.Set[contract.PoolAppliance], e.Set[contract.PoolHardware], e.Set[contract.PoolTemplate] = f.appliance,
		server.Hardware, f.template
	in, err := e.input()
	in.Hardware = contract.Hardware{Model: server.Model, Serial: server.Serial}
	return in, err
}

// fillings are the placeholders of a --set value.
func fillings(s contract.PoolServer) map[string]string {
	return map[string]string{"name": s.Name, "serial": s.Serial, "uuid": s.UUID}
}

// noNamePart is what a device's name takes no part of from a server's.
var noNamePart = regexp.MustCompile(`[^a-z0-9.]+`)

// deviceName is a server's NAME: its name on the appliance and its serial number, which
// stays where the name changes.
func deviceName(s contract.PoolServer) string {
	legal := func(text string) string {
		return strings.Trim(noNamePart.ReplaceAllString(strings.ToLower(text), "-"), "-.")
	}
	name, serial := legal(s.Name), legal(s.Serial)
	if serial == "" || strings.Contains(name, serial) && len(name) <= maxNamePart {
		return name
	}
	if len(name) > maxNamePart {
		name = strings.TrimRight(name[:maxNamePart], "-.")
	}
	return strings.Trim(name+"-"+serial, "-")
}

// maxNamePart leaves room for a serial number in a NAME.
const maxNamePart = 60

// profileText says whether a server has a profile.
func profileText(profile string) string {
	if profile == "" {
		return "no profile"
	}
	return "profile " + profile
}

// explainAppliance is explain for a request to an appliance's workflow.
func (a *app) explainAppliance(ctx context.Context, l deviceClient, appliance string, err error) error {
	if client.NotFound(err) {
		return failf(device.CodeNotFound, "the name is that in oneview.yaml, which BURNISH_ONEVIEW names; polls that were "+
			"canceled begin again when a control worker starts", "no control worker serves an appliance named %q", appliance)
	}
	return a.explain(ctx, l, "", err)
}
