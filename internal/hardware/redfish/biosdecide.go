package redfish

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// move is what a step does next, decided from what the BMC shows now. Nothing that was sent
// before counts: it may not have arrived, or somebody may have taken it back.
type move struct {
	// doing is for the operator.
	doing string
	// send is the request to send; nil: wait and look again, unless asked or already is set.
	send *request
	// last: once send is answered, everything is wanted.
	last bool
	// asked: everything is wanted already, and only the restart is missing.
	asked bool
	// already: everything is in force, and nothing is wanted.
	already bool
	// stale: something that somebody wanted may come into force with the restart.
	stale bool
}

// removal is how a BIOS job of somebody else is taken back, or what clears settings that are
// pending without one. false: there is nothing to take back, or the BMC has refused to.
func (s *biosState) removal(refused map[string]bool) (move, bool) {
	for _, job := range s.jobs {
		if job.waits && !refused[job.path] {
			return move{doing: "removes the BIOS job " + job.name, send: &request{Method: http.MethodDelete, Path: job.path}},
				true
		}
	}
	target := string(s.settingsBIOS.Actions.Oem.ClearPending.Target)
	if target != "" && len(s.jobs) == 0 && len(s.pending()) > 0 && !refused[target] {
		return move{doing: "clears pending BIOS settings", send: &request{Method: http.MethodPost, Path: target}}, true
	}
	return move{}, false
}

// running: a BIOS job is at work. What it leaves is not known before it has ended.
func (s *biosState) running() bool {
	return slices.ContainsFunc(s.jobs, func(j biosJob) bool { return !j.waits })
}

// nextOfReset decides how the defaults become wanted. What others want is taken back first; what
// cannot be is stale, because it may come into force together with the defaults.
func (s *biosState) nextOfReset(refused map[string]bool) (move, error) {
	if s.running() {
		return move{doing: "waits for a BIOS job"}, nil
	}
	if m, ok := s.removal(refused); ok {
		return m, nil
	}
	target := string(cmp.Or(s.bios.Actions.Reset.Target, s.settingsBIOS.Actions.Reset.Target))
	if target == "" {
		return move{},
			hardware.Refused(device.CodeCommandRefused, "update the BMC's firmware, see its license, or disable the step",
				"the BMC cannot reset the BIOS: %s has no such action", s.path)
	}
	stale := len(s.jobs) > 0 || len(s.pending()) > 0
	return move{doing: "asks for the BIOS defaults", send: &request{Method: http.MethodPost, Path: target}, last: true,
		stale: stale}, nil
}

// nextOfApply decides how the attributes become wanted. It always sends all of them: those that
// the BIOS shows already may be what something pending changes.
func (s *biosState) nextOfApply(wanted attributes, refused map[string]bool) (move, error) {
	if s.running() {
		return move{doing: "waits for a BIOS job"}, nil
	}
	if len(s.jobs) > 0 {
		if s.jobsAreOurs(wanted) {
			return move{asked: true}, nil
		}
		if m, ok := s.removal(refused); ok {
			return m, nil
		}
		return move{}, hardware.Refused(device.CodeBIOSJobWaiting, "remove the job on the BMC, or let it end, then try again",
			"a BIOS job that Burnish has not made waits for a reset: %s", s.jobs[0].name)
	}
	pending := s.pending()
	if len(pending) == 0 && len(notInForce(s.bios.Attributes, wanted)) == 0 {
		return move{already: true}, nil
	}
	// What is pending without a job is taken back first. What others want would come into force with
	// ours; and what is pending already, an iDRAC does not make a job of, so that no restart brings it
	// into force.
	if m, ok := s.removal(refused); ok {
		return m, nil
	}
	if s.settingsBIOS.Actions.Oem.ClearPending.Target != "" && len(pending) > 0 {
		return move{},
			hardware.Refused(device.CodeBIOSJobWaiting, "clear the pending BIOS settings on the BMC, then try again",
				"the BMC refuses to clear BIOS settings that are pending without a job: %s", listed(pending.names()))
	}
	all := maps.Clone(wanted)
	for name := range pending {
		_, ours := wanted[name]
		if v, ok := s.bios.Attributes[name]; ok && !ours {
			all[name] = v
		}
	}
	return move{doing: "asks for the BIOS settings", send: s.patch(all), last: true}, nil
}

// jobsAreOurs: the job that waits brings the wanted attributes into force and nothing else. It
// is ours, whose answer was lost, or as good.
func (s *biosState) jobsAreOurs(wanted attributes) bool {
	byJob := s.wantedByJob()
	for name, v := range byJob {
		if want, ok := wanted[name]; !ok || !sameValue(v, want) {
			return false
		}
	}
	for name, v := range wanted {
		_, pending := byJob[name]
		if !pending && !sameValue(s.bios.Attributes[name], v) {
			return false
		}
	}
	return len(byJob) > 0
}

// patch is the request for these attributes at the next reset. Without the apply time an iDRAC
// keeps them pending through every reset.
func (s *biosState) patch(all attributes) *request {
	target := s.settings
	if target == "" {
		target = s.path
	}
	return &request{Method: http.MethodPatch, Path: target, Body: map[string]any{
		"Attributes":                 all,
		"@Redfish.SettingsApplyTime": map[string]any{"@odata.type": "#Settings.v1_3_0.PreferredApplyTime", "ApplyTime": "OnReset"},
	}}
}

// mayBeAskedAgain: the BMC refuses a change for now only: during POST, or while a job waits that
// was not seen yet.
func mayBeAskedAgain(err error) bool {
	r, ok := asRefusal(err)
	return ok && (inPOST(err) || r.says("SYS011") || r.says("RAC0679") || mayPass(err))
}

// inPOST: an iLO refuses changes of the BIOS while POST runs.
func inPOST(err error) bool {
	r, ok := asRefusal(err)
	return ok && (r.says("DuringSystemPOST") || r.says("DuringPOST"))
}

// listed is a few of many differences, for a message.
func listed(differ []string) string {
	const most = 8
	if len(differ) > most {
		return strings.Join(differ[:most], "; ") + "; and more"
	}
	return strings.Join(differ, "; ")
}
