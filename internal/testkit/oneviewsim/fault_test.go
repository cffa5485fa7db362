package oneviewsim_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/oneviewsim"
)

const posts = "/rest/server-profiles"

// Each fault has its effect once, before or after the act.
func TestFaultsOfRequests(t *testing.T) {
	for _, one := range []struct {
		fault  oneviewsim.Fault
		status int  // 0: no answer
		acts   bool // the profile is applied nevertheless
	}{
		{oneviewsim.Fault{Kind: oneviewsim.CutBefore}, 0, false},
		{oneviewsim.Fault{Kind: oneviewsim.CutAfter}, 0, true},
		{oneviewsim.Fault{Kind: oneviewsim.ExitBefore}, 0, false},
		{oneviewsim.Fault{Kind: oneviewsim.ExitAfter}, 0, true},
		{oneviewsim.Fault{Kind: oneviewsim.CutWithin}, 0, true},
		{oneviewsim.Fault{Kind: oneviewsim.Garbled}, 0, true},
		{oneviewsim.Fault{Kind: oneviewsim.SlowBefore, For: time.Millisecond}, 202, true},
		{oneviewsim.Fault{Kind: oneviewsim.SlowAfter, For: time.Millisecond}, 202, true},
		{oneviewsim.Unauthorized(oneviewsim.Fault{}), 401, false},
		{oneviewsim.Conflict(oneviewsim.Fault{}), 409, false},
		{oneviewsim.Mismatch(oneviewsim.Fault{}), 412, false},
		{oneviewsim.Unavailable(oneviewsim.Fault{}), 503, false},
		{oneviewsim.Fault{Kind: oneviewsim.RespondAfter, Status: 500, Body: "{}"}, 500, true},
	} {
		t.Run(string(one.fault.Kind), func(t *testing.T) {
			s := oneviewsim.Start(t, func(c *oneviewsim.Config, _ *oneviewsim.State) { c.TaskForm = oneviewsim.Both })
			c := login(t, s)
			body := c.profile("uuid-1", c.hardware("server-1"))
			one.fault.Method, one.fault.Path, one.fault.Skip = "POST", posts, 1
			s.Inject(one.fault)
			c.ended(c.do("POST", posts, c.profile("uuid-2", c.hardware("server-2"))))
			r := c.do("POST", posts, body)
			if one.status == 0 {
				require.Error(t, r.Err)
			} else {
				require.NoError(t, r.Err)
				require.Equal(t, one.status, r.Status)
			}
			s.Hurry()
			s.Hurry()
			require.Len(t, s.Profiles(s.Username), map[bool]int{false: 1, true: 2}[one.acts])
			require.Equal(t, 1, s.Counts().Faulted)
			requests := s.Requests()
			require.Equal(t, []oneviewsim.FaultKind{one.fault.Kind}, requests[len(requests)-1].Faults)
			if !one.acts {
				require.Equal(t, "Completed", c.ended(c.do("POST", posts, body)).At("taskState"), "once only")
			}
		})
	}
}

func TestARequestThatHangsEndsWithItsClient(t *testing.T) {
	s := oneviewsim.Start(t)
	c := login(t, s)
	for _, kind := range []oneviewsim.FaultKind{oneviewsim.HangBefore, oneviewsim.HangAfter} {
		s.Inject(oneviewsim.Fault{Kind: kind, Method: "GET", Path: "/rest/server-hardware"})
		ctx, cancel := context.WithCancel(t.Context())
		before := s.Count()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/rest/server-hardware", nil)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() {
			response, err := c.HTTP.Do(request)
			if err == nil {
				err = response.Body.Close()
			}
			ended <- err
		}()
		require.Eventually(t, func() bool { return s.Count() > before }, time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
	require.Equal(t, 200, c.get("/rest/server-hardware").Status)
	s.Inject(oneviewsim.Fault{Number: s.Count() + 2, Kind: oneviewsim.CutBefore, Times: -1})
	require.NoError(t, c.get("/rest/server-hardware").Err)
	require.Error(t, c.get("/rest/server-hardware").Err)
	s.Inject(oneviewsim.Fault{Kind: oneviewsim.CutBefore, Times: -1})
	require.Error(t, c.get("/rest/server-hardware").Err)
	require.Error(t, c.get("/rest/server-hardware").Err)
	s.ClearFaults()
	require.NoError(t, c.get("/rest/server-hardware").Err)
	s.Down(true)
	require.Error(t, c.get("/rest/version").Err)
	s.Down(false)
	require.NoError(t, c.get("/rest/version").Err)
	s.Inject(oneviewsim.Fault{User: "somebody", Kind: oneviewsim.CutBefore})
	require.NoError(t, c.get("/rest/server-hardware").Err, "a fault of another user")
	s.Inject(oneviewsim.Fault{Path: "*start=5*", Kind: oneviewsim.CutBefore})
	require.NoError(t, c.get("/rest/server-hardware?start=4").Err)
	require.Error(t, c.get("/rest/server-hardware?start=5&count=1").Err, "one page")
}

// A task ends as the fault says, and has had the effect that it says.
func TestFaultsOfTasks(t *testing.T) {
	for _, one := range []struct {
		name     string
		fault    oneviewsim.TaskFault
		state    string // of the task
		profile  string // its state; empty: there is none
		hardware string
	}{
		{"error half way", oneviewsim.TaskFault{Ends: oneviewsim.Error}, "Error", "CreateFailed", "ProfileError"},
		{"error at the beginning", oneviewsim.TaskFault{Ends: oneviewsim.Error, Effect: oneviewsim.NoEffect}, "Error", "", "NoProfileApplied"},
		{"error of what is done", oneviewsim.TaskFault{Ends: oneviewsim.Error, Effect: oneviewsim.Done}, "Error", "Normal", "ProfileApplied"},
		{"warning", oneviewsim.TaskFault{Ends: oneviewsim.Warning}, "Warning", "Normal", "ProfileApplied"},
		{"killed", oneviewsim.TaskFault{Ends: oneviewsim.Killed}, "Killed", "CreateFailed", "ProfileError"},
		{"terminated", oneviewsim.TaskFault{Ends: oneviewsim.Terminated, Effect: oneviewsim.NoEffect}, "Terminated", "", "NoProfileApplied"},
		{"completed, and not done", oneviewsim.TaskFault{Ends: oneviewsim.Completed, Effect: oneviewsim.NoEffect}, "Completed", "", "NoProfileApplied"},
		{"suspended", oneviewsim.TaskFault{Shows: "Suspended", Stalls: true}, "Suspended", "Creating", "ApplyingProfile"},
		{"interrupted", oneviewsim.TaskFault{Shows: "Interrupted", Stalls: true}, "Interrupted", "Creating", "ApplyingProfile"},
		{"never ends", oneviewsim.TaskFault{Stalls: true}, "Running", "Creating", "ApplyingProfile"},
		{"vanishes", oneviewsim.TaskFault{Vanishes: true}, "", "Normal", "ProfileApplied"},
	} {
		t.Run(one.name, func(t *testing.T) {
			s := oneviewsim.Start(t, func(c *oneviewsim.Config, _ *oneviewsim.State) { c.TaskForm = oneviewsim.Both })
			c := login(t, s)
			server := c.hardware("server-1")
			s.Inject(oneviewsim.Fault{Method: "POST", Path: posts, Kind: oneviewsim.ForTask, Task: one.fault})
			r := c.do("POST", posts, c.profile("uuid-1", server))
			require.Equal(t, 202, r.Status)
			s.Hurry()
			s.Hurry()
			task := c.get(taskOf(r, s))
			if one.state == "" {
				require.Equal(t, 404, task.Status)
			} else {
				require.Equal(t, one.state, task.At("taskState"))
			}
			problems, _ := task.At("taskErrors").([]any)
			require.Equal(t, one.fault.Ends != "" && one.fault.Ends != oneviewsim.Completed, len(problems) > 0)
			require.Equal(t, one.hardware, c.get(server).At("state"))
			profiles := s.Profiles(s.Username)
			if one.profile == "" {
				require.Empty(t, profiles)
			} else {
				require.Equal(t, one.profile, profiles[0].State)
			}
			s.Resume()
			s.Hurry()
			require.Equal(t, 100.0, c.get(taskOf(r, s)).At("percentComplete"), "it goes on")
		})
	}
}
