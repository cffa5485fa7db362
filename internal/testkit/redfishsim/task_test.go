package redfishsim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// A task monitor answers 202, then that it has ended, and later 404.
func TestATaskMonitorForgets(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.OpenBMC, hours)
	c := login(t, bmc)
	monitor := c.post(c.system(eraseNVMe), map[string]any{}).Header.Get("Location")
	require.Equal(t, 202, c.get(monitor).Status)
	bmc.Hurry()
	require.Equal(t, 204, c.get(monitor).Status)
	bmc.Configure(func(c *redfishsim.Config) { c.Delays.Forget = 0 })
	require.Equal(t, 404, c.get(monitor).Status)
	require.Equal(t, "Completed", c.get("/redfish/v1/TaskService/Tasks/0").At("TaskState"))
}
