package metadata

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// What CheckGuest takes is what the schema allows.
func TestCheckAndSchemaHaveTheSameForms(t *testing.T) {
	var schema struct {
		Definitions map[string]struct {
			Properties struct {
				Address json.RawMessage `json:"address"`
			} `json:"properties"`
		} `json:"definitions"`
	}
	require.NoError(t, json.Unmarshal(schemaText, &schema))
	for _, b := range buses {
		address := schema.Definitions[b.name+"devicebus"].Properties.Address
		if b.form == "" {
			require.JSONEq(t, "false", string(address))
			continue
		}
		var of struct {
			Pattern string `json:"pattern"`
		}
		require.NoError(t, json.Unmarshal(address, &of))
		require.Equal(t, "^"+b.form+"$", of.Pattern)
		require.Regexp(t, of.Pattern, b.example)
	}
}
