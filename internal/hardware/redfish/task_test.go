package redfish

import (
	"net/http"
	"testing"
	"time"

	"github.com/stmcginnis/gofish/redfish"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
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
		"pending":                   {redfish.PendingTaskState, "OK", nil, taskRuns, false},
		"running":                   {redfish.RunningTaskState, "OK", nil, taskRuns, false},
		"starting":                  {redfish.StartingTaskState, "OK", nil, taskRuns, false},
		"interrupted":               {redfish.InterruptedTaskState, "OK", nil, taskRuns, false},
		"unknown":                   {"Odd", "OK", nil, taskRuns, false},
	} {
		t.Run(name, func(t *testing.T) {
			one := &task{TaskState: tt.state, TaskStatus: tt.status, Messages: tt.messages, PercentComplete: 100}
			got, err := one.result("it")
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
	const target, start = "/redfish/v1/Systems/1/Bios/Actions/Bios.ResetBios", "2026-11-23T01:00:00Z"
	for name, tt := range map[string]struct {
		known                string // its StartTime, as it was first read
		path, target, starts string
		ours                 bool
	}{
		"target":                        {"", "/7", target, "", true},
		"target, slash and case":        {"", "/7", "/redfish/V1/systems/1/bios/actions/bios.resetbios/", "", true},
		"another target":                {"", "/7", "/redfish/v1/other", start, false},
		"nothing":                       {"", "/7", "", "", false},
		"no target, first read":         {"", "/7", "", start, true},
		"no target, the known start":    {start, "/7", "", start, true},
		"no target, another start":      {start, "/7", "", "2026-11-23T02:00:00Z", false},
		"target, another start":         {start, "/7", target, "2026-11-23T02:00:00Z", false},
		"the known start, other target": {start, "/7", "/redfish/v1/other", start, false},
		"a Dell's job":                  {"TIME_NOW", "/JID_471269252011", "", start, true},
	} {
		t.Run(name, func(t *testing.T) {
			one := &task{path: tasksPath + tt.path, StartTime: tt.starts}
			one.Payload.TargetURI = tt.target
			w := &work{Target: target, Start: tt.known}
			require.Equal(t, tt.ours, w.isOurs(one))
		})
	}
}

func TestEveryFormOfAnAcceptedRequestNamesItsTask(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	base := h.bmc.base.String()[:len("https://")+len(h.bmc.base.Host)]
	const uri = tasksPath + "/5"
	body := []byte(`{"@odata.id": "` + uri + `", "TaskState": "New"}`)
	for name, tt := range map[string]struct {
		status   int
		location string
		body     []byte
		want     string
	}{
		"Location":         {202, uri, nil, uri},
		"body":             {202, "", body, uri},
		"both":             {202, uri, body, uri},
		"monitor and body": {202, "/redfish/v1/TaskService/TaskMonitors/5", body, uri},
		"monitor": {202, "/redfish/v1/TaskService/TaskMonitors/5", nil,
			"/redfish/v1/TaskService/TaskMonitors/5"},
		"absolute":                   {202, base + uri, nil, uri},
		"another host":               {202, "https://other.example" + uri, nil, ""},
		"another host, and the body": {202, "https://other.example" + uri, body, uri},
		"Dell's job": {202, "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs/JID_1234", nil,
			tasksPath + "/JID_1234"},
		"Dell's job, 200": {200, "/redfish/v1/Managers/iDRAC.Embedded.1/Jobs/JID_1234", nil,
			tasksPath + "/JID_1234"},
		"no task":           {204, "", nil, ""},
		"a message":         {200, "", []byte(`{"error": {}}`), ""},
		"something created": {201, "/redfish/v1/Systems/1/Storage/1/Volumes/2", nil, ""},
		"no JSON":           {202, "", []byte("<html>"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			header := http.Header{}
			if tt.location != "" {
				header.Set("Location", tt.location)
			}
			require.Equal(t, tt.want, h.taskOf(answer{Status: tt.status, Header: header, Body: tt.body}))
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
	return &work{doing: "does something odd", Target: target, Task: tasksPath + "/31"}
}

// look follows the work once.
func (s *stepper) look(h *handle, w *work) (outcome, error) {
	return h.follow(s.t.Context(), w, func() error { return s.save("odd", w) })
}

func TestATaskIsFollowedToItsEnd(t *testing.T) {
	each(t, func(t *testing.T, p redfishsim.Personality) {
		s := newStepper(t, p)
		h := s.open()
		w := s.followed(h, nil)
		for _, percent := range []int{10, 40, 70} {
			got, err := s.look(h, w)
			require.NoError(t, err)
			require.Equal(t, taskRuns, got)
			require.Equal(t, percent, w.percent)
			s.bmc.Change(func(state *redfishsim.State) {
				task := state.Tasks[len(state.Tasks)-1]
				if task.Percent += 30; task.Percent >= 100 {
					task.State, task.Percent = "Completed", 100
				}
			})
		}
		got, err := s.look(h, w)
		require.NoError(t, err)
		require.Equal(t, succeeded, got)
		var saved work
		found, err := s.load("odd", &saved)
		require.NoError(t, err)
		require.True(t, found)
		require.NotEmpty(t, saved.Start)
		require.NoError(t, h.Close())
	})
}

func TestATaskThatStallsIsTheOperators(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	w := s.followed(h, nil)
	w.stall = 20 * time.Millisecond
	got, err := s.look(h, w)
	require.NoError(t, err)
	require.Equal(t, taskRuns, got)
	w.moved = w.moved.Add(-time.Second)
	_, err = s.look(h, w)
	require.Equal(t, device.CodeNoProgress, code(err), "%v", err)
	require.NoError(t, h.Close())
}

// A task that is gone, or another's, is not success.
func TestATaskThatIsGoneOrAnothersSettlesNothing(t *testing.T) {
	s := newStepper(t, redfishsim.Supermicro)
	h := s.open()
	w := s.followed(h, func(task *redfishsim.Task) { task.State, task.TargetURI = "Completed", "/redfish/v1/other" })
	for _, task := range []string{w.Task, tasksPath + "/99"} {
		w.Task = task
		got, err := s.look(h, w)
		require.NoError(t, err)
		require.Equal(t, unsettled, got)
		require.Empty(t, w.Task)
	}
	require.NoError(t, h.Close())
}
