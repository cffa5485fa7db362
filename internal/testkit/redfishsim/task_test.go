package redfishsim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// A task monitor answers 202, then that it has ended, and later 404.
func TestATaskMonitorForgets(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.OpenBMC, hours)
	c := login(t, bmc)
	monitor := c.post(c.system(eraseNVMe), map[string]any{}).header.Get("Location")
	require.Equal(t, 202, c.get(monitor).status)
	bmc.Hurry()
	require.Equal(t, 204, c.get(monitor).status)
	bmc.Configure(func(c *redfishsim.Config) { c.Delays.Forget = 0 })
	require.Equal(t, 404, c.get(monitor).status)
	require.Equal(t, "Completed", c.get("/redfish/v1/TaskService/Tasks/0").at("TaskState"))
}

// A failed job of an iDRAC is Completed, with 100 %, and Failed among its jobs.
func TestEndingsOfATask(t *testing.T) {
	for ending, want := range map[redfishsim.Ending][]any{
		redfishsim.Succeeds:          {"Completed", "OK", 100.0, "OK", "Completed"},
		redfishsim.Lies:              {"Completed", "OK", 100.0, "OK", "Completed"},
		redfishsim.CompletedCritical: {"Completed", "Critical", 100.0, "Critical", "Failed"},
		redfishsim.CompletedMessage:  {"Completed", "OK", 100.0, "Critical", "Failed"},
		redfishsim.Exception:         {"Exception", "Critical", 100.0, "Critical", "Failed"},
		//nolint:misspell // Redfish's own spelling
		redfishsim.Canceled: {"Cancelled", "Warning", 100.0, "Warning", "Failed"},
		redfishsim.Stalls:   {"Running", "OK", 50.0, nil, "Running"},
	} {
		t.Run(string(ending), func(t *testing.T) {
			bmc := redfishsim.Start(t, redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) {
				c.Endings[redfishsim.KindErase], c.Delays.Erase = ending, time.Millisecond
			})
			c := login(t, bmc)
			task := c.post(c.system(eraseNVMe), map[string]any{}).header.Get("Location")
			if ending != redfishsim.Stalls {
				c.await(done, "its end")
			}
			r := c.get(task)
			var severity any
			if list, _ := r.at("Messages").([]any); len(list) > 0 {
				severity = list[0].(map[string]any)["Severity"]
			}
			id := task[strings.LastIndex(task, "/")+1:]
			job := c.get("/redfish/v1/Managers/iDRAC.Embedded.1/Jobs/" + id)
			require.Equal(t, want, []any{r.at("TaskState"), r.at("TaskStatus"), r.at("PercentComplete"), severity,
				job.at("JobState")})
			erased := 0
			if ending == redfishsim.Succeeds {
				erased = 1
			}
			require.Len(t, bmc.TenantData(), 5-erased)
		})
	}
}
