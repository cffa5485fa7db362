package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// route is one operation of the API. The OpenAPI document is made from these.
type route struct {
	Method, Path string
	// Operation is the operation's name, Summary one line about it.
	Operation, Summary string
	// Rule is the policy's rule; "": the operation needs no token.
	Rule string
	// Since is the first microversion that has it.
	Since version
	// Query are the parameters that it takes.
	Query []parameter
	// In and Out are values of the types of its body and its answer; nil: it has none.
	In, Out any
	// InName is the name of In in the document, where its type has none.
	InName string
	// Status is that of its success; 0 is 200.
	Status int
	// ReadOnly: it changes nothing, although its method is POST.
	ReadOnly bool
	// Codes are its further errors, beside those that every operation has.
	Codes []device.Code
	do    func(ctx context.Context, c *call) (any, error)
}

// parameter is one parameter of a query.
type parameter struct {
	Name, About string
	// Many: it may be given several times.
	Many bool
}

// The policy's rules.
const (
	ruleList   = "cyborg:device:get_all"
	ruleGet    = "cyborg:device:get_one"
	ruleDetail = "cyborg:device:get_details"
)

// ruleOf is the rule of a verb of a device, instanceRuleOf that of one of an instance.
func ruleOf(v contract.Verb) string { return "cyborg:device:" + v.Rule() }

func instanceRuleOf(v contract.Verb) string { return "cyborg:instance:" + v.Rule() }

// AdminRules are the rules of what only administrators may do unless the policy says otherwise: every
// change, and the reads of an instance, which names its devices, its guest's addresses and what others
// must not know of both.
func AdminRules() []string {
	rules := []string{ruleOf(contract.VerbResume), ruleInstance, ruleMetadata}
	for _, v := range contract.Verbs {
		if !v.Internal {
			rules = append(rules, ruleOf(v))
		}
	}
	for _, v := range contract.InstanceVerbs {
		rules = append(rules, instanceRuleOf(v))
	}
	return rules
}

const openAPIPath = "/openapi.json"

// routes lists the operations.
func routes(verbs []contract.Verb) []route {
	all := []route{
		{Method: http.MethodGet, Path: "/", Operation: "listVersions", Summary: "The versions of the API",
			Out: versionsDocument{}, do: getVersions},
		{Method: http.MethodGet, Path: "/v2", Operation: "getVersion", Summary: "Version 2 with its microversions",
			Out: versionDocument{}, do: getVersion},
		{Method: http.MethodGet, Path: "/healthz", Operation: "health", Summary: "The process answers",
			Out: health{}, do: getHealth},
		{Method: http.MethodGet, Path: "/readyz", Operation: "readiness", Summary: "The API can answer requests",
			Out: health{}, do: getReadiness, Codes: []device.Code{device.CodeUnreachable}},
		{Method: http.MethodGet, Path: openAPIPath, Operation: "openAPI", Summary: "This description", Out: map[string]any{}, do: getOpenAPI},

		{Method: http.MethodGet, Path: "/v2/devices", Operation: "listDevices", Summary: "The devices, a page at a time",
			Rule: ruleList, Query: listParameters(), Out: devicesDocument{}, do: listDevices,
			Codes: []device.Code{device.CodeInvalid, device.CodeUnreachable}},
		{Method: http.MethodGet, Path: "/v2/devices/{device}", Operation: "showDevice", Summary: "One device",
			Rule: ruleGet, Out: contract.DeviceStatus{}, Codes: readCodes, do: func(ctx context.Context, c *call) (any, error) {
				v, err := c.status(ctx)
				return c.view(v), err
			}},
		read("/v2/devices/{device}/cleaning/steps", "listCleaningSteps", "The steps of the device's full clean, in order",
			ruleGet, func(ctx context.Context, c *call) ([]contract.CleanStep, error) { // S3.31
				v, err := c.status(ctx)
				return append([]contract.CleanStep{}, v.Steps...), err
			}),
	}
	return slices.Concat(all, changeRoutes(verbs), instanceRoutes(), operatorRoutes())
}

// read is a route of what is only read.
func read[Out any](path, operation, summary, rule string, do func(context.Context, *call) (Out, error)) route {
	var out Out
	return route{
		Method: http.MethodGet, Path: path, Operation: operation, Summary: summary, Rule: rule, Out: out, Codes: readCodes,
		do: func(ctx context.Context, c *call) (any, error) { return do(ctx, c) },
	}
}

// readCodes are the errors of a request about one device that changes nothing.
var readCodes = []device.Code{device.CodeNotFound, device.CodeUnreachable}

// actCodes are those of a request for a change.
var actCodes = []device.Code{device.CodeInvalid, device.CodeNotFound, device.CodeRequestTooLarge, device.CodeMediaType,
	device.CodeRefused, device.CodeRequestReused,
	device.CodeUnreachable, device.CodeTimeout, device.CodeInternal}

// checkQuery refuses parameters that the operation does not have, or twice.
func (c *call) checkQuery() error {
	// URL.Query leaves out what it cannot read: a marker that is left out shows the first page.
	given, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return invalid("the query cannot be read: "+err.Error(), "escape its values")
	}
	for name, values := range given {
		p, known := c.route.parameter(name)
		if !known {
			return invalid("there is no parameter "+name, "leave it out")
		}
		if len(values) > 1 && !p.Many {
			return invalid("the parameter "+name+" is given twice", "give it once")
		}
	}
	return nil
}

func (r *route) parameter(name string) (parameter, bool) {
	for _, p := range r.Query {
		if p.Name == name {
			return p, true
		}
	}
	return parameter{}, false
}

// operationOf is the name of the operation of an act: release-hold is releaseHoldDevice.
func operationOf(verb, of string) string {
	words := strings.Split(verb, "-")
	for i, w := range words[1:] {
		words[i+1] = strings.ToUpper(w[:1]) + w[1:]
	}
	return strings.Join(words, "") + of
}
