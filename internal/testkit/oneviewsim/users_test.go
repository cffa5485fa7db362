package oneviewsim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
)

// Other users take a server at a chosen point, also while a profile of ours is on its way.
func TestOthersTakeAServerAtAChosenPoint(t *testing.T) {
	for kind, code := range map[oneviewsim.FaultKind]string{
		oneviewsim.TakeBefore: "ProfileAlreadyExistsInServer",
		oneviewsim.TakeAfter:  "ProfileAlreadyExistsInServer",
		oneviewsim.FreeBefore: "", // there is nothing to free
	} {
		s := oneviewsim.Start(t)
		c := login(t, s)
		server := c.hardware("server-1")
		s.Inject(oneviewsim.Fault{Method: "POST", Path: posts, Kind: kind, Server: "server-1"})
		require.Equal(t, code, c.apply("uuid-1", server).code())
		if code == "" {
			require.Len(t, s.Missed(), 1)
			continue
		}
		require.Empty(t, s.Missed())
		require.Equal(t, "On", c.get(server).At("powerState"))
		require.Empty(t, s.Profiles(s.Username))
		require.Len(t, s.Profiles("other-tenant"), 1)
		require.NotEmpty(t, s.Tasks()[0].Errors)
	}
}

// Each kind of violation is found, and nothing else is one.
func TestViolations(t *testing.T) {
	for _, one := range []struct {
		name string
		do   func(*client, *oneviewsim.Server, string)
		says string // empty: it is allowed
	}{
		{"apply, on, off, remove", func(c *client, s *oneviewsim.Server, server string) {
			profile, _ := c.apply("uuid-1", server).At("associatedResource", "resourceUri").(string)
			c.power(server, "On", "MomentaryPress")
			c.power(server, "Off", "MomentaryPress")
			c.ended(c.do("DELETE", profile, nil))
		}, ""},
		{"power of a free server", func(c *client, s *oneviewsim.Server, server string) {
			c.power(server, "Off", "MomentaryPress")
		}, ""},
		{"what is refused", func(c *client, s *oneviewsim.Server, server string) {
			require.NoError(c.t, s.Take(server))
			s.Inject(oneviewsim.Conflict(oneviewsim.Fault{Path: "*/powerState"}))
			require.Equal(c.t, 409, c.do("PUT", server+"/powerState", map[string]any{"powerState": "Off"}).Status)
		}, ""},
		{"their profile is deleted", func(c *client, s *oneviewsim.Server, server string) {
			require.NoError(c.t, s.Take(server))
			c.ended(c.do("DELETE", s.Profiles("other-tenant")[0].URI(), nil))
		}, "is the profile of other-tenant"},
		{"their server is switched off", func(c *client, s *oneviewsim.Server, server string) {
			require.NoError(c.t, s.Take(server))
			c.power(server, "Off", "PressAndHold")
		}, "has the profile"},
		{"a profile for a server that is on", func(c *client, s *oneviewsim.Server, server string) {
			require.NoError(c.t, s.SetPower(server, oneviewsim.On))
			c.apply("uuid-1", server)
		}, "created the profile: the server /rest/server-hardware/39313738-3034-5A43-0000-000000000001 is On"},
		{"a profile for a server that was taken a moment ago", func(c *client, s *oneviewsim.Server, server string) {
			s.Inject(oneviewsim.Fault{Method: "POST", Path: posts, Kind: oneviewsim.TakeBefore, Server: server})
			require.Equal(c.t, "Error", c.apply("uuid-1", server).At("taskState"))
		}, ""},
		{"a removal from a server that is on", func(c *client, s *oneviewsim.Server, server string) {
			profile, _ := c.apply("uuid-1", server).At("associatedResource", "resourceUri").(string)
			c.power(server, "On", "MomentaryPress")
			c.ended(c.do("DELETE", profile, nil))
		}, "deleted the profile: the server"},
	} {
		t.Run(one.name, func(t *testing.T) {
			s := oneviewsim.Start(t)
			c := login(t, s)
			one.do(c, s, c.hardware("server-1"))
			violations := s.Violations()
			require.Equal(t, violations, s.Violations(s.Username))
			if one.says == "" {
				require.Empty(t, violations)
				return
			}
			require.Len(t, violations, 1)
			require.Contains(t, violations[0], one.says)
			require.Contains(t, violations[0], "of burnish")
			require.Empty(t, s.Violations("other-tenant"), "of others it is asked apart")
		})
	}
}
