package apitest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// strict is the document for a second validator, which takes OpenAPI 3.0.3 at its word: nullable adds null
// to the type that stands beside it, and has no other effect. kin-openapi lets it reach further.
type strict struct {
	text     any
	compiler *jsonschema.Compiler

	mu    sync.Mutex // a compiler is for one goroutine
	known map[string]*jsonschema.Schema
}

const documentURL = "file:///openapi.json"

func loadStrict(path string) (*strict, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	s := &strict{compiler: jsonschema.NewCompiler(), known: map[string]*jsonschema.Schema{}}
	if s.text, err = jsonschema.UnmarshalJSON(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	if err := withNull(s.text); err != nil {
		return nil, err
	}
	s.compiler.DefaultDraft(jsonschema.Draft4) // which that of OpenAPI 3.0 is closest to
	if err := s.compiler.AddResource(documentURL, s.text); err != nil {
		return nil, err
	}
	for name := range s.at([]string{"components", "schemas"}) {
		if _, err := s.schema([]string{"components", "schemas", name}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// withNull writes nullable as JSON Schema does, and refuses one that has no effect.
func withNull(value any) error {
	var inner []any
	switch value := value.(type) {
	case map[string]any:
		if value["nullable"] == true {
			kind, is := value["type"].(string)
			if !is {
				return fmt.Errorf("nullable has no effect without a type beside it: %v", value)
			}
			value["type"] = []any{kind, "null"}
		}
		inner = slices.Collect(maps.Values(value))
	case []any:
		inner = value
	}
	for _, each := range inner {
		if err := withNull(each); err != nil {
			return err
		}
	}
	return nil
}

// check compares an answer in JSON with the schema of its status.
func (s *strict) check(path, method string, status int, body []byte) error {
	at := []string{"paths", path, strings.ToLower(method), "responses", strconv.Itoa(status)}
	if ref, is := s.at(at)["$ref"].(string); is {
		at = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	}
	at = append(at, "content", "application/json", "schema")
	if s.at(at) == nil {
		return nil // an answer without a body, or in text
	}
	schema, err := s.schema(at)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

func (s *strict) schema(at []string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	url := documentURL + "#"
	for _, step := range at {
		url += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(step)
	}
	if s.known[url] == nil {
		schema, err := s.compiler.Compile(url)
		if err != nil {
			return nil, fmt.Errorf("compile %s: %w", url, err)
		}
		s.known[url] = schema
	}
	return s.known[url], nil
}

// at is the object at a place of the document, nil if there is none.
func (s *strict) at(steps []string) map[string]any {
	here, _ := s.text.(map[string]any)
	for _, step := range steps {
		here, _ = here[step].(map[string]any)
	}
	return here
}
