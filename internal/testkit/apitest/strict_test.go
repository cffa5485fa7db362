package apitest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// part is a document with one answer, whose member m has this schema.
func part(t *testing.T, schema string) (*strict, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "openapi.json")
	require.NoError(t, os.WriteFile(file, []byte(`{
		"openapi": "3.0.3", "info": {"title": "t", "version": "1"},
		"paths": {"/v2/{x}": {"get": {"responses": {"200": {"description": "d", "content": {"application/json":
			{"schema": {"type": "object", "properties": {"m": `+schema+`}}}}}, "404": {"$ref": "#/components/responses/404"}}}}},
		"components": {
			"schemas": {"S": {"type": "object", "properties": {"n": {"type": "integer"}}}},
			"responses": {"404": {"description": "d", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/S"}}}}}
		}}`), 0o600))
	return loadStrict(file)
}

func TestNullIsAnAnswerOnlyWhereTheDocumentSaysSo(t *testing.T) {
	const reference = `{"$ref": "#/components/schemas/S"}`
	for schema, allowed := range map[string]bool{
		reference: false, `{"type": "array", "nullable": true, "items": {}}`: true, `{"type": "string"}`: false,
		`{"type": "string", "nullable": true, "enum": ["a"]}`:                                  false,
		`{"anyOf": [` + reference + `, {"type": "object", "nullable": true, "enum": [null]}]}`: true,
		`{"type": "object", "nullable": true, "allOf": [` + reference + `]}`:                   false,
	} {
		s, err := part(t, schema)
		require.NoError(t, err, schema)
		err = s.check("/v2/{x}", "GET", 200, []byte(`{"m": null}`))
		require.Equal(t, allowed, err == nil, "%s: %v", schema, err)
	}
	s, err := part(t, reference)
	require.NoError(t, err)
	require.Error(t, s.check("/v2/{x}", "GET", 404, []byte(`{"n": "1"}`)), "an answer that several operations have")
	require.NoError(t, s.check("/v2/{x}", "GET", 404, []byte(`{"n": 1}`)))
	_, err = part(t, `{"nullable": true, "allOf": [`+reference+`]}`)
	require.ErrorContains(t, err, "nullable has no effect")
	s, err = part(t, `{"$ref": "#/components/schemas/Missing"}`)
	require.NoError(t, err)
	require.ErrorContains(t, s.check("/v2/{x}", "GET", 200, []byte(`{"m": {}}`)), "Missing")
}
