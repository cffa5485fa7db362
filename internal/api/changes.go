package api

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"burnish/internal/api/access"
	"burnish/internal/device"
	"burnish/workflows/contract"
)

// changeRoutes are the changes of devices, each with its own rule.
func changeRoutes(verbs []contract.Verb) []route {
	var all []route
	for _, v := range verbs {
		if !v.Internal {
			all = append(all, verbRoute(v))
		}
	}
	return append(all, resumeRoute())
}

// verbRoute is the route of a verb of a device.
func verbRoute(v contract.Verb) route {
	r := changeRoute(v, "/v2/devices/{device}/", "Device")
	r.Rule, r.Out = ruleOf(v), contract.Result{}
	r.do = func(ctx context.Context, c *call) (any, error) { return c.carryOut(ctx, v) }
	switch v.Name {
	case contract.VerbEnroll.Name:
		r.Path = "/v2/devices"
	case contract.VerbOverride.Name:
		of := []device.Code{device.CodeOverrideOff, device.CodeSamePrincipal, device.CodeOverrideUnsigned}
		r.Codes = append(of, r.Codes...)
	}
	if strings.Contains(r.Path, "{device}") { // one that is enrolled can be asked
		r.Query = []parameter{{Name: dryRunParameter, About: "true: nothing is changed, and the answer is a DryRun: " +
			"what the change would do, as far as the device's workflow knows"}}
	}
	return r
}

// changeRoute is what the routes of all verbs have; of is what they change.
func changeRoute(v contract.Verb, path, of string) route {
	body, name := v.BodyType()
	return route{
		Method: http.MethodPost, Path: path + v.Path(), Operation: operationOf(v.Path(), of),
		Summary: strings.ToUpper(v.About[:1]) + v.About[1:], Since: version(v.HTTP.Since),
		In: reflect.Zero(body).Interface(), InName: name, Status: v.HTTP.Status, Codes: actCodes,
	}
}

// carryOut has a device carry out a verb, or asks what that would do.
func (c *call) carryOut(ctx context.Context, v contract.Verb) (any, error) {
	dry, err := c.wantsDryRun()
	if err != nil {
		return nil, err
	}
	in, err := c.input(v)
	if err != nil {
		return nil, err
	}
	if enrolled, ok := in.(contract.EnrollInput); ok {
		c.name = enrolled.Enrollment.Name
	}
	ctx = c.withRequest(ctx, v.ToBody(in))
	if act, ok := in.(contract.OverrideInput); ok {
		if in, err = c.signed(ctx, act); err != nil {
			return nil, err
		}
	}
	if dry {
		return c.dryRun(ctx, v, in)
	}
	result, err := c.Devices.Do(ctx, c.name, v, in)
	if moved, ok := in.(contract.MoveInput); ok && err == nil {
		c.know(moved.Enrollment.Name)
	}
	return c.result(result, err)
}

// input reads what the request asks of a verb.
func (c *call) input(v contract.Verb) (contract.Input, error) {
	t, _ := v.BodyType()
	body := reflect.New(t)
	if err := c.readBody(body.Interface()); err != nil {
		return nil, err
	}
	given := body.Elem().Interface()
	if steps, ok := given.(contract.CleanBody); ok {
		if err := checkInterfaces(steps); err != nil {
			return nil, err
		}
	}
	asked := v.FromBody(given)
	access.RecordOf(c.r.Context()).Reason = asked.Act().Reason
	in, err := contract.Normalize(asked)
	if err != nil {
		return nil, invalid(err.Error(), "see "+openAPIPath+" for its form")
	}
	return contract.CalledBy(in, c.caller()), nil
}

// resumeRoute is the change of the limits.
func resumeRoute() route {
	v := contract.VerbResume
	r := changeRoute(v, "/v2/limits/", "Step")
	r.Rule, r.Out = ruleOf(v), contract.ResumeResult{}
	r.do = func(ctx context.Context, c *call) (any, error) {
		in, err := c.input(v)
		if err != nil {
			return nil, err
		}
		asked, _ := in.(contract.ResumeInput)
		return c.Devices.Resume(ctx, asked)
	}
	return r
}
