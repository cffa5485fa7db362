package oneview

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
)

const deviceUUID = "6d1f2f0c-4b77-4b7e-9a54-0d5f3f0c7a11"

// rig is the client and a simulated appliance, of which the first server is the device's.
type rig struct {
	*testing.T
	sim    *oneviewsim.Server
	pools  *Appliances
	server Server
}

func quickTiming() timing {
	return timing{
		request: 20 * time.Second, poll: time.Millisecond, press: 60 * time.Millisecond, hold: time.Second,
		settle: 150 * time.Millisecond, refusal: time.Hour,
	}
}

func newRig(t *testing.T, options ...oneviewsim.Option) *rig {
	t.Helper()
	sim := oneviewsim.Start(t, options...)
	pools, err := Open(writeFile(t, fileOf(sim, "")))
	require.NoError(t, err)
	pools.timing = quickTiming()
	r := &rig{T: t, sim: sim, pools: pools}
	first := sim.State().Hardware[0]
	r.server = Server{Hardware: first.URI(), Template: oneviewsim.TemplateURI, UUID: deviceUUID, Serial: first.Serial}
	t.Cleanup(func() {
		// What a test has injected ends before the client logs out.
		sim.ClearFaults()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		require.NoError(t, pools.Close(ctx))
	})
	return r
}

// fileOf is the oneview.yaml of a simulated appliance.
func fileOf(sim *oneviewsim.Server, more string) string {
	return "appliances:\n  rack1:\n    url: " + sim.URL + "\n    username: " + sim.Username + "\n    password: " +
		sim.Password +
		"\n    domain: " + sim.Domain + "\n    ca: |\n      " +
		strings.ReplaceAll(strings.TrimSpace(sim.CA), "\n", "\n      ") + "\n" + more
}

// rewrite replaces the appliances' file.
func (r *rig) rewrite(text string) {
	r.Helper()
	require.NoError(r, os.WriteFile(r.pools.file, []byte(text), 0o600))
}

func (r *rig) read() (Found, error) { return r.pools.Read(r.Context(), "rack1", r.server) }

// apply is what the lifecycle does: the request is recorded first, then its profile.
func (r *rig) apply() (Found, error) {
	r.server.Applying = true
	found, err := r.pools.Apply(r.Context(), "rack1", r.server, nil)
	if err == nil {
		r.server.Recorded, r.server.Applying = found.Profile, false
	}
	return found, err
}

func (r *rig) remove() (Found, error) {
	found, err := r.pools.Remove(r.Context(), "rack1", r.server, nil)
	if err == nil {
		r.server.Recorded, r.server.Applying = "", false
	}
	return found, err
}

// hardware is the server as the appliance has it.
func (r *rig) hardware() oneviewsim.Hardware {
	r.Helper()
	h, err := r.sim.Server(r.server.Hardware)
	require.NoError(r, err)
	return h
}

// tag is what changes with each change of the server.
func (r *rig) tag() string { return strconv.Itoa(r.hardware().Version) }
