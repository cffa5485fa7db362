package redfish

import (
	"net/http"
	"testing"
	"time"

	"github.com/stmcginnis/gofish/redfish"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/testkit/redfishsim"
)

func redfishPower(state string) redfish.PowerState { return redfish.PowerState(state) }

// F22: a failed job of an iDRAC is Completed, at 100 %.
func TestATaskSucceedsOnlyByAllThatItSays(t *testing.T) {
	critical := message{Text: "it failed", Severity: "Critical"}
	newer := message{Text: "it failed", Newer: "Critical"}
	fine := message{Text: "fine", Severity: "OK"}
	for name, tt := range map[string]struct {
		state    redfish.TaskState
		status   string
		messages []message
		want     outcome
		fails    bool
	}{
		"succeeded":                 {redfish.CompletedTaskState, "OK", []message{fine}, succeeded, false},
		"completed, critical":       {redfish.CompletedTaskState, "Critical", nil, "", true},
		"completed, warning":        {redfish.CompletedTaskState, "Warning", nil, "", true},
		"completed, no status":      {redfish.CompletedTaskState, "", nil, unsettled, false},
		"critical message":          {redfish.CompletedTaskState, "OK", []message{fine, critical}, "", true},
		"critical message severity": {redfish.CompletedTaskState, "OK", []message{newer}, "", true},
		"exception":                 {redfish.ExceptionTaskState, "OK", nil, "", true},
		"killed":                    {redfish.KilledTaskState, "OK", nil, "", true},
		"canceled":                  {redfish.CancelledTaskState, "OK", nil, "", true},
		"pending":                   {redfish.PendingTaskState, "OK", nil, scheduled, false},
		"running":                   {redfish.RunningTaskState, "OK", nil, "", false},
		"starting":                  {redfish.StartingTaskState, "OK", nil, "", false},
		"interrupted":               {redfish.InterruptedTaskState, "OK", nil, "", false},
		"unknown":                   {"Odd", "OK", nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			one := &task{TaskState: tt.state, TaskStatus: tt.status, Messages: tt.messages, PercentComplete: 100}
			got, err := one.result(action{Doing: "it"})
			require.Equal(t, tt.want, got)
			if !tt.fails {
				require.NoError(t, err)
				return
			}
			require.Equal(t, device.CodeStepFailed, code(err), "%v", err)
			for _, m := range tt.messages {
				require.Contains(t, err.Error(), m.Text)
			}
		})
	}
}

// Numbers begin again when a BMC restarts.
func TestATaskIsOursOnlyIfItSaysSo(t *testing.T) {
	sent := time.Date(2026, 11, 23, 1, 0, 0, 0, time.UTC)
	const target = "/redfish/v1/Systems/1/Bios/Actions/Bios.ResetBios"
	for name, tt := range map[string]struct {
		work          work
		target, start string
		ours          bool
	}{
		"target":                        {work{}, target, "", true},
		"target, slash and case":        {work{}, "/redfish/V1/systems/1/bios/actions/bios.resetbios/", "", true},
		"another target":                {work{Sent: sent}, "/redfish/v1/other", "2026-11-23T01:00:01Z", false},
		"nothing":                       {work{Sent: sent}, "", "", false},
		"started after":                 {work{Sent: sent}, "", "2026-11-23T01:00:05Z", true},
		"started within the second":     {work{Sent: sent}, target, "2026-11-23T00:59:59Z", true},
		"target, started before":        {work{Sent: sent}, target, "2026-11-22T01:00:00Z", false},
		"started before":                {work{Sent: sent}, "", "2026-11-22T01:00:00Z", false},
		"in another zone":               {work{Sent: sent}, "", "2026-11-23T03:00:01+02:00", true},
		"no clock":                      {work{}, "", "2026-11-23T01:00:05Z", false},
		"unreadable start":              {work{Sent: sent}, "", "TIME_NOW", false},
		"unreadable start, target":      {work{Sent: sent}, target, "TIME_NOW", true},
		"the known start":               {work{Sent: sent, Start: "2020"}, "", "2020", true},
		"known start, now another":      {work{Start: "2020"}, target, "2021", false},
		"known start, another's target": {work{Sent: sent, Start: "2026-11-23T01:00:01Z"}, "/redfish/v1/other", "2026-11-23T02:00:00Z", false},
	} {
		t.Run(name, func(t *testing.T) {
			one := &task{StartTime: tt.start}
			one.Payload.TargetURI = tt.target
			tt.work.Target = target
			require.Equal(t, tt.ours, tt.work.isOurs(one))
		})
	}
}

func TestEveryFormOfAnAcceptedRequestNamesItsTask(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	base := h.c.bmc.base.String()[:len("https://")+len(h.c.bmc.base.Host)]
	const uri = tasksPath + "/5"
	body := []byte(`{"@odata.id": "` + uri + `", "TaskState": "New"}`)
	for name, tt := range map[string]struct {
		status   int
		location string
		body     []byte
		want     string
	}{
		"Location":                   {202, uri, nil, uri},
		"body":                       {202, "", body, uri},
		"both":                       {202, uri, body, uri},
		"monitor and body":           {202, "/redfish/v1/TaskService/TaskMonitors/5", body, uri},
		"monitor":                    {202, "/redfish/v1/TaskService/TaskMonitors/5", nil, "/redfish/v1/TaskService/TaskMonitors/5"},
		"absolute":                   {202, base + uri, nil, uri},
		"another host":               {202, "https://other.example" + uri, nil, ""},
		"another host, and the body": {202, "https://other.example" + uri, body, uri},
		"Dell's job":                 {202, "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs/JID_1234", nil, tasksPath + "/JID_1234"},
		"Dell's job, 200":            {200, "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs/JID_1234", nil, tasksPath + "/JID_1234"},
		"no task":                    {204, "", nil, ""},
		"a message":                  {200, "", []byte(`{"error": {}}`), ""},
		"something created":          {201, "/redfish/v1/Systems/1/Storage/1/Volumes/2", nil, ""},
		"no JSON":                    {202, "", []byte("<html>"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			if tt.location != "" {
				header.Set("Location", tt.location)
			}
			require.Equal(t, tt.want, h.c.taskOf(answer{Status: tt.status, Header: header, Body: tt.body}))
		})
	}
	require.NoError(t, h.Close())
}

// followed is a task that runs on the BMC, and the work that knows it.
func (s *stepper) followed(h *handle, change func(*redfishsim.Task)) *work {
	s.t.Helper()
	const target = "/redfish/v1/Systems/1/Actions/Odd"
	one := &redfishsim.Task{ID: "31", Name: "Odd", Kind: redfishsim.KindErase, State: "Running", Status: "OK",
		Start: time.Now(), Percent: 10, TargetURI: target}
	if change != nil {
		change(one)
	}
	s.bmc.Change(func(state *redfishsim.State) { state.Tasks = append(state.Tasks, one) })
	return &work{action: action{Name: "odd", Doing: "does something odd"}, Target: target, Sent: h.c.bmc.clock(),
		Began: time.Now(), Answered: true, Task: tasksPath + "/31"}
}

func TestATaskIsFollowedToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		h := s.open()
		w := s.followed(h, nil)
		var seen []int
		run := hardware.StepRun{Step: "x", Save: s.save, Load: s.load, Progress: func(percent int, _ string) error {
			seen = append(seen, percent)
			s.bmc.Change(func(state *redfishsim.State) {
				task := state.Tasks[len(state.Tasks)-1]
				if task.Percent += 30; task.Percent >= 100 {
					task.State, task.Percent = "Completed", 100
				}
			})
			return nil
		}}
		got, err := h.followTask(t.Context(), run, w)
		require.NoError(t, err)
		require.Equal(t, succeeded, got)
		require.Equal(t, []int{10, 40, 70}, seen)
		var saved work
		found, err := s.load("odd", &saved)
		require.NoError(t, err)
		require.True(t, found)
		require.NotEmpty(t, saved.Start)
		require.NoError(t, h.Close())
	})
}

func TestATaskThatStallsOrTakesTooLongIsTheOperators(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	run := hardware.StepRun{Step: "x", Save: s.save, Load: s.load, Progress: func(int, string) error { return nil }}
	w := s.followed(h, nil)
	w.action.Stall = 20 * time.Millisecond
	_, err := h.followTask(t.Context(), run, w)
	require.Equal(t, device.CodeNoProgress, code(err), "%v", err)
	w.action.Stall, w.action.Budget, w.Began = 0, time.Minute, time.Now().Add(-time.Hour)
	_, err = h.followTask(t.Context(), run, w)
	require.Equal(t, device.CodeTimeout, code(err), "%v", err)
	require.NoError(t, h.Close())
}

// A task that is gone, or another's, is not success.
func TestATaskThatIsGoneOrAnothersSettlesNothing(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	run := hardware.StepRun{Step: "x", Save: s.save, Load: s.load, Progress: func(int, string) error { return nil }}
	w := s.followed(h, func(task *redfishsim.Task) { task.State, task.TargetURI = "Completed", "/redfish/v1/other" })
	got, err := h.followTask(t.Context(), run, w)
	require.NoError(t, err)
	require.Equal(t, unsettled, got)
	w.Task = tasksPath + "/99"
	got, err = h.followTask(t.Context(), run, w)
	require.NoError(t, err)
	require.Equal(t, unsettled, got)
	require.NoError(t, h.Close())
}
