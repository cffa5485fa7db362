package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova/metadata"
	"burnish/internal/testkit/apitest"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

var update = flag.Bool("update", false, "write openapi.json and the golden files again")

// The document that the API serves is what its routes give; `make docs` writes it.
func TestTheDocumentIsFresh(t *testing.T) {
	want, err := json.MarshalIndent(document(t), "", "  ")
	require.NoError(t, err)
	want = append(want, '\n')
	if *update {
		require.NoError(t, os.WriteFile("openapi.json", want, 0o644))
		return
	}
	require.True(t, bytes.Equal(want, openAPI), "openapi.json is not what the routes give: run make docs")
	apitest.Load(t)
}

type object = map[string]any

// meanings of the statuses, for every operation.
var meanings = map[int]string{
	http.StatusOK:                          "Done, or so already",
	http.StatusAccepted:                    "Accepted: the device carries it out",
	http.StatusBadRequest:                  "The request is not valid, or this device cannot be cleaned",
	http.StatusUnauthorized:                "No valid token",
	http.StatusForbidden:                   "The policy does not allow it, or the request comes from another site's page",
	http.StatusNotFound:                    "There is no such device, or no such path in this version",
	http.StatusMethodNotAllowed:            "The path has other methods: see Allow",
	http.StatusNotAcceptable:               "The version is not supported",
	http.StatusConflict:                    "The device's state or hardware does not allow it",
	http.StatusRequestEntityTooLarge:       "The body is larger than 64 KiB",
	http.StatusRequestURITooLong:           "The address is larger than 16 KiB; the answer is text",
	http.StatusUnsupportedMediaType:        "The body is not application/json",
	http.StatusRequestHeaderFieldsTooLarge: "The headers are too large; the answer is text",
	http.StatusUnprocessableEntity:         "The Idempotency-Key was used with another body",
	http.StatusTooManyRequests:             "The caller sends too much: see Retry-After",
	http.StatusInternalServerError:         "An unexpected error",
	http.StatusServiceUnavailable: "Temporal, a worker or another system does not answer: the request is not " +
		"carried out",
	http.StatusGatewayTimeout: "Sent, and not answered in time: it may still be carried out",
}

// document is the OpenAPI document of the routes.
func document(t *testing.T) object {
	t.Helper()
	s := &schemas{t: t, all: object{}, types: map[string]reflect.Type{}}
	paths := object{}
	for _, r := range routes(contract.Verbs) {
		at, ok := paths[r.Path].(object)
		if !ok {
			at = object{}
			paths[r.Path] = at
		}
		at[strings.ToLower(r.Method)] = s.operation(r)
	}
	paths["/metrics"] = object{"get": object{"operationId": "metrics", "summary": "Figures in Prometheus' format",
		"security": []any{},
		"responses": object{"200": object{"description": "The figures", "content": object{"text/plain": object{"schema": object{"type": "string"}}}},
			"403": object{"$ref": "#/components/responses/403"}}}}
	failures := object{}
	for status, meaning := range meanings {
		if status < 400 {
			continue
		}
		headers := object{}
		for name, of := range map[string]int{"Allow": http.StatusMethodNotAllowed,
			"WWW-Authenticate": http.StatusUnauthorized, "Retry-After": http.StatusTooManyRequests} {
			if status == of || name == "Retry-After" && status == http.StatusServiceUnavailable {
				headers[name] = object{"required": true, "schema": object{"type": "string"}}
			}
		}
		content := object{"application/json": object{"schema": s.of(reflect.TypeFor[client.ErrorBody](), false)}}
		// before the API is asked
		if status == http.StatusRequestHeaderFieldsTooLarge || status == http.StatusRequestURITooLong {
			content = object{"text/plain": object{"schema": object{"type": "string"}}}
		}
		failures[strconv.Itoa(status)] = object{"description": meaning, "headers": headers, "content": content}
	}
	return object{
		"openapi": "3.0.3",
		"info": object{"title": "Burnish", "version": newest.String(), "license": object{"name": "see LICENSE"},
			"description": "Cleaning of passthrough devices between cloud tenants. Answers may get further members in later versions."},
		"security": []any{object{"token": []any{}}, object{"bearer": []any{}}},
		"paths":    paths,
		"components": object{"schemas": s.all, "responses": failures, "securitySchemes": object{
			"token":  object{"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
			"bearer": object{"type": "http", "scheme": "bearer"},
		}},
	}
}

// schemas are those of the Go types.
type schemas struct {
	t     *testing.T
	all   object
	types map[string]reflect.Type
	// selected: the caller names the fields of devices that it wants.
	selected bool
}

func (s *schemas) operation(r route) object {
	s.selected = r.Operation == "listDevices"
	defer func() { s.selected = false }()
	success := object{"description": meanings[max(r.Status, http.StatusOK)]}
	if r.Out != nil {
		success["content"] = object{"application/json": object{"schema": s.of(reflect.TypeOf(r.Out), false)}}
	}
	versioned := strings.HasPrefix(r.Path, "/v2/")
	if versioned {
		success["headers"] = object{
			versionHeader: object{"required": true, "schema": object{"type": "string"}},
			"Vary":        object{"required": true, "schema": object{"type": "string"}},
		}
	}
	responses := object{strconv.Itoa(max(r.Status, http.StatusOK)): success}
	if _, dry := r.parameter(dryRunParameter); dry {
		would := s.of(reflect.TypeFor[contract.DryRun](), false)
		if r.Status == 0 {
			success["content"] =
				object{"application/json": object{"schema": object{"oneOf": []any{s.of(reflect.TypeOf(r.Out), false), would}}}}
		} else {
			asked := maps.Clone(success)
			asked["description"] = "What the change would do"
			asked["content"] = object{"application/json": object{"schema": would}}
			responses["200"] = asked
		}
	}
	for _, status := range statusesOf(r) {
		responses[strconv.Itoa(status)] = object{"$ref": fmt.Sprintf("#/components/responses/%d", status)}
	}
	op := object{"operationId": r.Operation, "summary": r.Summary, "responses": responses}
	parameters := s.parameters(r, versioned)
	if len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if r.Rule == "" {
		op["security"] = []any{}
	} else {
		op["description"] = "Needs the policy's rule " + r.Rule + "."
		if r.Since > oldest {
			op["description"] = fmt.Sprintf("%s Since version %s.", op["description"], r.Since)
		}
	}
	if r.In != nil {
		op["requestBody"] = object{"content": object{"application/json": object{"schema": s.body(r)}}}
	}
	return op
}

// statusesOf are the statuses of an operation's errors.
func statusesOf(r route) []int {
	found := []int{http.StatusForbidden, http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestURITooLong,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusInternalServerError}
	if strings.HasPrefix(r.Path, "/v2/") {
		found = append(found, http.StatusNotFound, http.StatusNotAcceptable)
	}
	if r.Rule != "" {
		found = append(found, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	}
	if r.In != nil {
		found = append(found, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, code := range r.Codes {
		found = append(found, statusOf(code))
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (s *schemas) parameters(r route, versioned bool) []any {
	text := object{"type": "string"}
	var all []any
	for _, segment := range strings.Split(r.Path, "/") {
		if name := strings.Trim(segment, "{}"); name != segment {
			all = append(all, object{"name": name, "in": "path", "required": true, "schema": text})
		}
	}
	for _, p := range r.Query {
		schema := text
		if p.Many {
			schema = object{"type": "array", "items": text}
		}
		all = append(all, object{"name": p.Name, "in": "query", "description": p.About, "schema": schema})
	}
	if versioned {
		all = append(all, object{"name": versionHeader, "in": "header",
			"description": "accelerator 2.0, accelerator 2.1 or accelerator latest; without it, 2.0", "schema": text})
	}
	if r.In != nil && !r.ReadOnly {
		all = append(all, object{"name": keyHeader, "in": "header",
			"description": "The change is carried out once under one key", "schema": text},
			object{"name": requestHeader, "in": "header", "description": "As Idempotency-Key, for one body", "schema": text})
	}
	return all
}

// of gives the schema of a type: of a struct a reference. A request's members are all that it
// may have.
func (s *schemas) of(t reflect.Type, request bool) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[time.Duration]():
		return object{"type": "integer", "description": "nanoseconds"}
	case reflect.TypeFor[json.RawMessage]():
		return object{}
	case reflect.TypeFor[contract.BoardInfo]():
		return object{"type": "string", "description": "An object as JSON: product_id, pci_address"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.orNull(s.of(t.Elem(), request))
	case reflect.Struct:
		return s.reference(t, t.Name(), request)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return object{"type": "string", "format": "byte"}
		}
		return object{"type": "array", "items": s.of(t.Elem(), request)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem(), request)}
	case reflect.Interface:
		return object{}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	}
	require.FailNow(s.t, "no schema", t.String())
	return nil
}

// orNull allows null besides. In OpenAPI 3.0.3 nullable adds to the type beside it, and to
// nothing else: beside a reference it has no effect.
func (s *schemas) orNull(schema object) object {
	if _, ok := schema["$ref"]; ok {
		return object{"anyOf": []any{schema, object{"type": "object", "nullable": true, "enum": []any{nil}}}}
	}
	require.Contains(s.t, schema, "type")
	schema["nullable"] = true
	return schema
}

// body is the schema of a request's body.
func (s *schemas) body(r route) object {
	if r.InName != "" {
		return s.reference(reflect.TypeOf(r.In), r.InName, true)
	}
	return s.of(reflect.TypeOf(r.In), true)
}

// reference gives the reference to a struct's schema.
func (s *schemas) reference(t reflect.Type, name string, request bool) object {
	name = strings.ToUpper(name[:1]) + name[1:]
	switch {
	case t == reflect.TypeFor[contract.DeviceStatus]() && s.selected:
		name = "SelectedDevice"
	case t == reflect.TypeFor[contract.DeviceStatus]():
		name = "Device"
	case t == reflect.TypeFor[metadata.Device]():
		name = "GuestDevice"
	case request && !strings.HasSuffix(name, "Body") && !strings.HasSuffix(name, "Input"):
		name += "Input"
	}
	if before, ok := s.types[name]; ok {
		require.True(s.t, before == t, "two types are named %s", name)
		return object{"$ref": "#/components/schemas/" + name}
	}
	s.types[name] = t
	members, required := object{}, []string{}
	s.members(t, request, members, &required)
	schema := object{"type": "object", "properties": members}
	switch name {
	case "Device":
		required = slices.DeleteFunc(slices.Clone(cyborgFields), func(f string) bool { return f == "device_state" })
	case "SelectedDevice":
		required = nil
	case "EnrollmentInput":
		required = []string{"driver", "host"}
	}
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = required
	}
	if request {
		schema["additionalProperties"] = false
	}
	s.all[name] = schema
	return object{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) members(t reflect.Type, request bool, members object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.members(f.Type, request, members, required)
			continue
		case !f.IsExported() || name == "-":
			continue
		}
		schema := s.of(f.Type, request)
		optional := strings.Contains(options, "omit")
		if kind := f.Type.Kind(); !optional && (kind == reflect.Slice || kind == reflect.Map) {
			schema = s.orNull(schema)
		}
		members[name] = schema
		if !optional {
			*required = append(*required, name)
		}
	}
}
