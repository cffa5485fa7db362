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
			require.Equal(t, 202, r.Status)
			location := r.Header.Get("Location")
			switch form {
			case oneviewsim.BodyOnly:
				require.Empty(t, location)
				location, _ = r.At("uri").(string)
			case oneviewsim.Both:
				require.Equal(t, location, r.At("uri"))
			case oneviewsim.Absolute:
				require.True(t, strings.HasPrefix(location, s.URL+"/rest/tasks/"), location)
				location = strings.TrimPrefix(location, s.URL)
			default:
				require.Empty(t, r.Body)
			}
			task := c.get(location)
			require.Equal(t, "Starting", task.At("taskState"))
			require.Nil(t, task.At("associatedResource", "resourceUri"))
			s.Hurry()
			task = c.get(location)
			require.Equal(t, "Running", task.At("taskState"))
			profile, _ := task.At("associatedResource", "resourceUri").(string)
			require.Equal(t, "Creating", c.get(profile).At("state"))
			require.Equal(t, "ApplyingProfile", c.get(server).At("state"))
			require.Equal(t, profile, c.get(server).At("serverProfileUri"))
			require.Equal(t, 409, c.do("DELETE", profile, nil).Status, "it is being applied")
			require.Equal(t, 409, c.do("PUT", server+"/powerState", switchOn).Status)
			s.Hurry()
			task = c.get(location)
			require.Equal(t, "Completed", task.At("taskState"))
			require.Equal(t, 100.0, task.At("percentComplete"))
			require.Equal(t, "ProfileApplied", c.get(server).At("state"))

			require.Equal(t, "Completed", c.power(server, "On", "MomentaryPress").At("taskState"))
			require.Equal(t, "On", c.get(server).At("powerState"))
			refused := c.do("DELETE", profile, nil)
			s.Hurry()
			require.Equal(t, "ServerNotOff", c.get(taskOf(refused, s)).code())
			off := c.do("PUT", server+"/powerState", map[string]any{"powerState": "Off", "powerControl": "PressAndHold"})
			require.Equal(t, "PoweringOff", c.get(server).At("powerState"))
			require.Equal(t, 409, c.do("PUT", server+"/powerState", switchOn).Status, "one at a time")
			s.Hurry()
			require.Equal(t, "Completed", c.get(taskOf(off, s)).At("taskState"))
			deleted := c.do("DELETE", profile, nil)
			s.Hurry()
			require.Equal(t, "Deleting", c.get(profile).At("state"))
			require.Equal(t, "RemovingProfile", c.get(server).At("state"))
			s.Hurry()
			require.Equal(t, "Completed", c.get(taskOf(deleted, s)).At("taskState"))
			require.Equal(t, 404, c.get(profile).Status)
			require.Nil(t, c.get(server).At("serverProfileUri"))
			require.Equal(t, "NoProfileApplied", c.get(server).At("state"))
		})
	}
}

// taskOf is the URI of an answer's task.
func taskOf(r reply, s *oneviewsim.Server) string {
	if location := r.Header.Get("Location"); location != "" {
		return strings.TrimPrefix(location, s.URL)
	}
	uri, _ := r.At("uri").(string)
	return uri
}

// A profile that cannot be applied is accepted, and its task ends in Error.
func TestAProfileThatCannotBeApplied(t *testing.T) {
	s := oneviewsim.Start(t)
	c := login(t, s)
	one, two, three := c.hardware("server-1"), c.hardware("server-2"), c.hardware("server-3")
	require.NoError(t, s.Take("server-2"))
	require.NoError(t, s.SetPower("server-3", oneviewsim.On))
	require.Equal(t, "Completed", c.apply("uuid-1", one).At("taskState"))
	for code, body := range map[string]map[string]any{
		"ProfileNameAlreadyExists":     c.profile("UUID-1", three),
		"ProfileAlreadyExistsInServer": c.profile("uuid-2", two),
		"ServerNotOff":                 c.profile("uuid-3", three),
	} {
		task := c.ended(c.do("POST", "/rest/server-profiles", body))
		require.Equal(t, "Error", task.At("taskState"))
		require.Equal(t, code, task.code())
		require.Nil(t, task.At("associatedResource", "resourceUri"))
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
		require.Equal(t, "Completed", c.power(server, one[0], one[1]).At("taskState"), one)
		require.Equal(t, one[0], c.get(server).At("powerState"))
	}
	c.power(server, "On", "MomentaryPress")
	s.Configure(func(c *oneviewsim.Config) { c.IgnoreShutdown = true })
	require.Equal(t, "PowerOperationFailed", c.power(server, "Off", "MomentaryPress").code())
	require.Equal(t, "On", c.get(server).At("powerState"))
	s.Change(func(s *oneviewsim.State) { s.Hardware[0].PowerLock = true })
	require.Equal(t, "POWER_LOCKED",
		c.do("PUT", server+"/powerState", map[string]any{"powerState": "Off", "powerControl": "PressAndHold"}).
			At("errorCode"))
}
