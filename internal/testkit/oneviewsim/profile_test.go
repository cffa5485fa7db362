package oneviewsim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
)

// A profile is applied, its server switched on and off, and it is removed, by tasks.
func TestAProfileIsAppliedAndRemoved(t *testing.T) {
	for _, form := range []oneviewsim.Form{oneviewsim.LocationOnly, oneviewsim.BodyOnly, oneviewsim.Both,
		oneviewsim.Absolute} {
		t.Run(string(form), func(t *testing.T) {
			s := oneviewsim.Start(t, func(c *oneviewsim.Config, _ *oneviewsim.State) {
				c.TaskForm, c.Delays = form, oneviewsim.Delays{Accept: time.Hour, Apply: time.Hour, Remove: time.Hour,
					PowerOff: time.Hour}
			})
			c := login(t, s)
			server := c.hardware("server-1")
			switchOn := map[string]any{"powerState": "On", "powerControl": "MomentaryPress"}
			r := c.do("POST", "/rest/server-profiles", c.profile("uuid-1", server))
			require.Equal(t, 202, r.status)
			location := r.header.Get("Location")
			switch form {
			case oneviewsim.BodyOnly:
				require.Empty(t, location)
				location, _ = r.at("uri").(string)
			case oneviewsim.Both:
				require.Equal(t, location, r.at("uri"))
			case oneviewsim.Absolute:
				require.True(t, strings.HasPrefix(location, s.URL+"/rest/tasks/"), location)
				location = strings.TrimPrefix(location, s.URL)
			default:
				require.Empty(t, r.body)
			}
			task := c.get(location)
			require.Equal(t, "Starting", task.at("taskState"))
			require.Nil(t, task.at("associatedResource", "resourceUri"))
			s.Hurry()
			task = c.get(location)
			require.Equal(t, "Running", task.at("taskState"))
			profile, _ := task.at("associatedResource", "resourceUri").(string)
			require.Equal(t, "Creating", c.get(profile).at("state"))
			require.Equal(t, "ApplyingProfile", c.get(server).at("state"))
			require.Equal(t, profile, c.get(server).at("serverProfileUri"))
			require.Equal(t, 409, c.do("DELETE", profile, nil).status, "it is being applied")
			require.Equal(t, 409, c.do("PUT", server+"/powerState", switchOn).status)
			s.Hurry()
			task = c.get(location)
			require.Equal(t, "Completed", task.at("taskState"))
			require.Equal(t, 100.0, task.at("percentComplete"))
			require.Equal(t, "ProfileApplied", c.get(server).at("state"))

			require.Equal(t, "Completed", c.power(server, "On", "MomentaryPress").at("taskState"))
			require.Equal(t, "On", c.get(server).at("powerState"))
			refused := c.do("DELETE", profile, nil)
			s.Hurry()
			require.Equal(t, "ServerNotOff", c.get(taskOf(refused, s)).code())
			off := c.do("PUT", server+"/powerState", map[string]any{"powerState": "Off", "powerControl": "PressAndHold"})
			require.Equal(t, "PoweringOff", c.get(server).at("powerState"))
			require.Equal(t, 409, c.do("PUT", server+"/powerState", switchOn).status, "one at a time")
			s.Hurry()
			require.Equal(t, "Completed", c.get(taskOf(off, s)).at("taskState"))
			deleted := c.do("DELETE", profile, nil)
			s.Hurry()
			require.Equal(t, "Deleting", c.get(profile).at("state"))
			require.Equal(t, "RemovingProfile", c.get(server).at("state"))
			s.Hurry()
			require.Equal(t, "Completed", c.get(taskOf(deleted, s)).at("taskState"))
			require.Equal(t, 404, c.get(profile).status)
			require.Nil(t, c.get(server).at("serverProfileUri"))
			require.Equal(t, "NoProfileApplied", c.get(server).at("state"))
		})
	}
}

// taskOf is the URI of an answer's task.
func taskOf(r reply, s *oneviewsim.Server) string {
	if location := r.header.Get("Location"); location != "" {
		return strings.TrimPrefix(location, s.URL)
	}
	uri, _ := r.at("uri").(string)
	return uri
}

// A profile that cannot be applied is accepted, and its task ends in Error.
func TestAProfileThatCannotBeApplied(t *testing.T) {
	s := oneviewsim.Start(t)
	c := login(t, s)
	one, two, three := c.hardware("server-1"), c.hardware("server-2"), c.hardware("server-3")
	require.NoError(t, s.Take("server-2"))
	require.NoError(t, s.SetPower("server-3", oneviewsim.On))
	require.Equal(t, "Completed", c.apply("uuid-1", one).at("taskState"))
	for code, body := range map[string]map[string]any{
		"ProfileNameAlreadyExists":     c.profile("UUID-1", three),
		"ProfileAlreadyExistsInServer": c.profile("uuid-2", two),
		"ServerNotOff":                 c.profile("uuid-3", three),
	} {
		task := c.ended(c.do("POST", "/rest/server-profiles", body))
		require.Equal(t, "Error", task.at("taskState"))
		require.Equal(t, code, task.code())
		require.Nil(t, task.at("associatedResource", "resourceUri"))
	}
	require.Len(t, s.Profiles(s.Username), 1)
}

// The power goes with the control that was asked for.
func TestPowerControls(t *testing.T) {
	s := oneviewsim.Start(t)
	c := login(t, s)
	server := c.hardware("server-1")
	c.apply("uuid-1", server)
	for _, one := range [][2]string{{"Off", "MomentaryPress"}, {"On", "MomentaryPress"}, {"Off", "PressAndHold"}} {
		require.Equal(t, "Completed", c.power(server, one[0], one[1]).at("taskState"), one)
		require.Equal(t, one[0], c.get(server).at("powerState"))
	}
	c.power(server, "On", "MomentaryPress")
	s.Configure(func(c *oneviewsim.Config) { c.IgnoreShutdown = true })
	require.Equal(t, "PowerOperationFailed", c.power(server, "Off", "MomentaryPress").code())
	require.Equal(t, "On", c.get(server).at("powerState"))
	s.Change(func(s *oneviewsim.State) { s.Hardware[0].PowerLock = true })
	require.Equal(t, "POWER_LOCKED",
		c.do("PUT", server+"/powerState", map[string]any{"powerState": "Off", "powerControl": "PressAndHold"}).
			at("errorCode"))
}
