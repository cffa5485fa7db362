package metadata

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/tagging"
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
	for _, b := range tagging.Buses {
		address := schema.Definitions[b.Name+"devicebus"].Properties.Address
		if b.Form == "" {
			require.JSONEq(t, "false", string(address))
			continue
		}
		var of struct {
			Pattern string `json:"pattern"`
		}
		require.NoError(t, json.Unmarshal(address, &of))
		require.Equal(t, "^"+b.Form+"$", of.Pattern)
		require.Regexp(t, of.Pattern, b.Example)
	}
}
