package redfishsim_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/redfishsim"
)

// done is true once nothing is written, or waits only for a reset.
func done(s redfishsim.State) bool {
	for _, w := range s.Work {
		if !w.Waits {
			return false
		}
	}
	return true
}

func TestAPowerChangeWhileFirmwareIsWrittenBricks(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.IDRAC, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.Delays.Write = time.Hour
	})
	c := login(t, bmc)
	c.upload(map[string]any{"Targets": []string{c.system("Bios")}}, redfishsim.Image("BIOS", "9.9.9"))
	c.await(done, "staged")
	c.reset("ForceRestart")
	c.await(func(s redfishsim.State) bool { return s.InPOST }, "POST")
	c.reset("ForceOff")
	require.Contains(t, bmc.State().Bricked, "ForceOff while BIOS was written")
}

// After a restart an OpenBMC numbers from 0 again: the old URI is another task, which has
// completed.
func TestOpenBMCRenumbersItsTasks(t *testing.T) {
	bmc := redfishsim.Start(t, redfishsim.OpenBMC, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.Delays.Write = time.Hour
	}, hours)
	c := login(t, bmc)
	r := c.upload(map[string]any{"Targets": []string{c.system("Bios")}}, redfishsim.Image("BIOS", "9.9.9"))
	task, _ := r.At("@odata.id").(string)
	require.Equal(t, "/redfish/v1/TaskService/TaskMonitors/0", r.Header.Get("Location"))
	require.Equal(t, "/redfish/v1/UpdateService/update-multipart", c.get(task).At("Payload", "TargetUri"))
	bmc.RestartBMC()
	require.Error(t, c.get("/redfish/v1").Err)
	bmc.Hurry()
	c.awaitBMC()
	c = login(t, bmc)
	r = c.get(task)
	require.Equal(t, []any{"Completed", "OK"}, []any{r.At("TaskState"), r.At("TaskStatus")})
	require.NotContains(t, r.At("Payload", "TargetUri"), "UpdateService")
	require.NotEqual(t, "9.9.9", c.get(c.system("")).At("BiosVersion"))
}

// With SimpleUpdate the BMC fetches: what it gets is what it writes. Without Targets it
// writes to every system that the image fits.
func TestSimpleUpdateWritesWhatIsServed(t *testing.T) {
	image := redfishsim.Image("BIOS", "6.6.6")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(image) }))
	defer web.Close()
	bmc := redfishsim.Start(t, redfishsim.Supermicro, func(c *redfishsim.Config, _ *redfishsim.State) {
		c.SecondSystem = true
	})
	c := login(t, bmc)
	r := c.post("/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate",
		map[string]any{"ImageURI": web.URL + "/bios.bin"})
	require.Equal(t, 202, r.Status)
	c.await(done, "the update")
	commits := bmc.State().Commits
	require.Len(t, commits, 2, "the neighbor's too")
	require.Equal(t, redfishsim.Digest(image), commits[0].Digest)
}
