package metadata

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// SchemaID identifies the schema. It is the specification's own, and stays: the schema only
// grows (S1.20, S1.21).
const SchemaID = "http://openstack.org/schemas/nova/metadata/device-role-tagging/1.0"

//go:embed device-role-tagging.json
var schemaText []byte

// Schema is the JSON Schema of the document.
func Schema() []byte { return slices.Clone(schemaText) }

var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(SchemaID, text); err != nil {
		return nil, fmt.Errorf("add the schema: %w", err)
	}
	return c.Compile(SchemaID)
})

// Validate refuses a document that the schema does not allow, and names where it deviates.
func Validate(document []byte) error {
	schema, err := compiled()
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return fmt.Errorf("the metadata document is not JSON: %w", err)
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("the metadata document deviates from its schema: %w", err)
	}
	return nil
}
