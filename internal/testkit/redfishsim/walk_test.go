package redfishsim_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// Each link of each resource leads to a resource.
func TestEveryLinkLeadsToAResource(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		c := login(t, redfishsim.Start(t, p))
		seen := map[string]bool{}
		var walk func(path string)
		var follow func(value any)
		follow = func(value any) {
			switch value := value.(type) {
			case map[string]any:
				for key, inner := range value {
					switch link, _ := inner.(string); {
					case key == "@odata.id" && !strings.Contains(link, "#"), key == "Uri":
						walk(link)
					default:
						follow(inner)
					}
				}
			case []any:
				for _, inner := range value {
					follow(inner)
				}
			}
		}
		walk = func(path string) {
			if seen[path] {
				return
			}
			seen[path] = true
			r := c.get(path)
			require.NoError(t, r.Err)
			require.Equal(t, 200, r.Status, path)
			require.Equal(t, path, r.At("@odata.id"), "the resource names itself")
			follow(r.Body)
		}
		root := "/redfish/v1"
		if c.bmc.Config().TrailingSlash {
			root += "/"
		}
		walk(root)
		require.Greater(t, len(seen), 30)
		require.Zero(t, c.bmc.Changes())
	})
}
