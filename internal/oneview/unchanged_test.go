package oneview

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/oneviewsim"
)

// use has another user take the server and leave it, at once.
func (r *rig) use() {
	r.Helper()
	require.NoError(r, r.sim.Take("server-1"))
	require.NoError(r, r.sim.Free("server-1"))
}

// during does something while a call waits for the answer to a request with this fault.
func (r *rig) during(f oneviewsim.Fault, do func(), call func() (Found, error)) (found Found, err error) {
	r.Helper()
	f.For = device.Blink + 2*time.Second
	faulted := func() (n int) {
		for _, one := range r.sim.Requests() {
			n += min(len(one.Faults), 1)
		}
		return n
	}
	before := faulted()
	r.sim.Inject(f)
	over := make(chan struct{})
	go func() {
		defer close(over)
		found, err = call()
	}()
	require.Eventually(r, func() bool { return faulted() > before }, time.Minute, time.Millisecond)
	do()
	if f.Kind == oneviewsim.HoldAfter {
		r.sim.ClearFaults()
	}
	<-over
	return found, err
}

// Others take and leave a server in any moment of the removal of Burnish's profile: what is
// returned then is either known to be changed or a gap. Without others it is neither.
//
// F34
func TestAServerThatOthersUseWhileItIsReleasedIsNotTakenForUnused(t *testing.T) {
	newRemoval := func(t *testing.T) *rig {
		r := newRig(t, oneviewsim.Servers(1), func(c *oneviewsim.Config, _ *oneviewsim.State) {
			c.Delays.Accept, c.Delays.Remove = 0, 0 // so that each call sends the same requests
		})
		_, err := r.apply()
		require.NoError(t, err)
		return r
	}
	r := newRemoval(t)
	before := r.sim.Count()
	found, err := r.remove()
	require.NoError(t, err)
	require.False(t, found.Gap)
	require.Equal(t, r.tag(), found.Tag)
	used := 0
	for n := range r.sim.Count() - before {
		for _, when := range [][2]oneviewsim.FaultKind{
			{oneviewsim.TakeBefore, oneviewsim.FreeBefore}, {oneviewsim.TakeAfter, oneviewsim.FreeAfter},
		} {
			r := newRemoval(t)
			for _, kind := range when {
				r.sim.Inject(oneviewsim.Fault{Number: r.sim.Count() + n + 1, Kind: kind, Server: "server-1"})
			}
			found, err := r.remove()
			require.NoError(t, err)
			require.True(t, found.Gap || found.Tag != r.tag(), "%s request %d", when[0], n+1)
			if len(r.sim.Missed()) == 0 { // otherwise they freed it from Burnish's own profile
				used++
			}
		}
	}
	require.GreaterOrEqual(t, used, 3)

	r = newRemoval(t)
	held := oneviewsim.Fault{Method: http.MethodDelete, Path: profilesPath + "/*", Kind: oneviewsim.HoldAfter}
	found, err = r.during(held, func() {
		require.Eventually(t, func() bool { return r.hardware().Profile == "" }, time.Minute, time.Millisecond)
		r.use()
	}, r.remove)
	require.NoError(t, err)
	require.True(t, found.Gap)

	// A slow answer alone is no gap.
	r = newRemoval(t)
	found, err = r.during(held, func() {}, r.remove)
	require.NoError(t, err)
	require.False(t, found.Gap)
}

// A call that finds the server free, without having removed the profile itself, says so: unless
// the server is as it was after Burnish's own last act.
//
// F34
func TestAServerThatIsMerelyFreeIsAGap(t *testing.T) {
	r := newRig(t, oneviewsim.Servers(1))
	_, err := r.apply()
	require.NoError(t, err)
	kept := r.server
	found, err := r.remove()
	require.NoError(t, err)
	tag := found.Tag

	r.server = kept // the worker was killed before it said so
	found, err = r.remove()
	require.NoError(t, err)
	require.Equal(t, device.PoolFree, found.Ownership)
	require.True(t, found.Gap)

	r.server.Tag = tag // the return was repeated
	found, err = r.remove()
	require.NoError(t, err)
	require.False(t, found.Gap)
	r.use()
	found, err = r.remove()
	require.NoError(t, err)
	require.True(t, found.Gap)

	// Its profile was put aside, and removed later: others had the server in between.
	r.server.Tag = ""
	_, err = r.apply()
	require.NoError(t, err)
	r.sim.Change(func(s *oneviewsim.State) {
		s.Profiles[0].Hardware, s.Hardware[0].Profile, s.Hardware[0].State = "", "", oneviewsim.NoProfileApplied
	})
	r.use()
	found, err = r.remove()
	require.NoError(t, err)
	require.Empty(t, r.sim.Profiles(r.sim.Username))
	require.True(t, found.Gap)

	// Where tags are not compared there is none.
	r.rewrite(fileOf(r.sim, "    ignore_etags: true\n"))
	found, err = r.remove()
	require.NoError(t, err)
	require.False(t, found.Gap)
}

// A tenant gets no server that others have used since Burnish's own last act, whichever answer of
// the appliance is slow. Slowness alone costs the tenant nothing where the appliance's own times
// show that nobody did.
//
// F34
func TestATenantGetsNoServerThatOthersHaveLeft(t *testing.T) {
	newTenant := func(t *testing.T) *rig {
		r := newRig(t, oneviewsim.Servers(1))
		_, err := r.read()
		require.NoError(t, err)
		r.server.Tag = r.tag()
		return r
	}
	t.Run("unused", func(t *testing.T) {
		r := newTenant(t)
		found, err := r.apply()
		require.NoError(t, err)
		require.Equal(t, device.PoolOurs, found.Ownership)
		require.False(t, found.Gap)
		again, err := r.pools.Apply(t.Context(), "rack1", r.server, nil)
		require.NoError(t, err)
		require.Equal(t, found, again, "found again after a crash")
	})
	t.Run("used before", func(t *testing.T) {
		r := newTenant(t)
		r.use()
		found, err := r.apply()
		require.NoError(t, err)
		require.Equal(t, device.PoolFree, found.Ownership)
		require.True(t, found.Gap)
		require.Zero(t, r.sim.Counts().Writes)
	})
	look := oneviewsim.Fault{Method: http.MethodGet, Path: hardwarePath + "/*", Kind: oneviewsim.HoldAfter}
	lastLook := oneviewsim.Fault{Method: http.MethodGet, Path: hardwarePath + "/*", Kind: oneviewsim.SlowAfter, Skip: 2}
	template := oneviewsim.Fault{Method: http.MethodGet, Path: "*/new-profile", Kind: oneviewsim.HoldAfter}
	post := func(kind oneviewsim.FaultKind) oneviewsim.Fault {
		return oneviewsim.Fault{Method: http.MethodPost, Path: profilesPath, Kind: kind}
	}
	for name, tt := range map[string]struct {
		fault     oneviewsim.Fault
		used, gap bool
	}{
		"the first look is slow, and it is used": {look, true, true},
		"the first look is slow":                 {look, false, false},
		"the template is slow, and it is used":   {template, true, true},
		"the last look is slow, and it is used":  {lastLook, true, true},
		"the last look is slow":                  {lastLook, false, false},
		"the request comes late, and it is used": {post(oneviewsim.SlowBefore), true, true},
		"the answer to the request comes late":   {post(oneviewsim.SlowAfter), false, false},
		"the answer to the request is lost":      {post(oneviewsim.CutAfter), false, false},
		"the request is lost":                    {post(oneviewsim.CutBefore), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTenant(t)
			do := func() {}
			if tt.used {
				do = r.use
			}
			found, err := r.during(tt.fault, do, r.apply)
			require.NoError(t, err)
			require.Equal(t, tt.gap, found.Gap)
			if !tt.gap {
				require.Equal(t, device.PoolOurs, found.Ownership)
			}
			require.Empty(t, r.sim.Violations())
		})
	}
	t.Run("a worker ends after its request", func(t *testing.T) {
		r := newTenant(t)
		r.server.Applying = true
		require.Error(t, r.killed(false, killer{method: http.MethodPost, after: true}))
		found, err := r.apply()
		require.NoError(t, err)
		require.Equal(t, device.PoolOurs, found.Ownership)
		require.False(t, found.Gap)
	})
}
