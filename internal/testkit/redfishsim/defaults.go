package redfishsim

import (
	"slices"
	"time"
)

// The kinds of a reset of the BMC to its defaults, beside ResetAll.
const (
	keepsUsers   = "PreserveNetworkAndUsers"
	keepsNetwork = "PreserveNetwork"
)

// addDefaults adds to a manager its reset to the defaults.
func (t *tree) addDefaults(r *resource, path string) {
	target := path + "/Actions/Manager.ResetToDefaults"
	parameter := map[bool]string{true: "ResetToDefaultsType", false: "ResetType"}[t.Conf.OlderDefaults]
	r.doc["Actions"] = doc{"#Manager.ResetToDefaults": t.action(target, parameter, t.Conf.Defaults)}
	t.post(target, t.changing("defaults", func(c *call) answer {
		kind := c.Text(parameter)
		if !slices.Contains(t.Conf.Defaults, kind) {
			return notInList("the values of ResetType", kind)
		}
		t.Data.DefaultsKind, t.Data.DefaultsDue = kind, c.At.Add(t.Conf.Delays.Defaults)
		if t.Conf.Delays.Defaults == 0 {
			t.toDefaults(c.At)
		}
		return answer{Status: 204}
	}))
}

// toDefaults sets the BMC back to its defaults, and restarts it.
func (m *Machine) toDefaults(at time.Time) {
	s := &m.Data
	kind, one := s.DefaultsKind, &s.Setup
	s.DefaultsKind, s.Sessions = "", nil
	s.Defaults++
	one.Subscriptions, one.Lockdown = nil, false
	for _, media := range one.Media {
		media.Image = ""
	}
	one.Protocols["SSH"], one.Protocols["IPMI"] = &Protocol{true, 22}, &Protocol{true, 623}
	for id := range one.Interfaces {
		one.Interfaces[id] = true
	}
	if kind != keepsUsers {
		one.Accounts = slices.DeleteFunc(one.Accounts, func(a *Account) bool { return a.User != m.Conf.Username })
		s.FirstPassword, s.WrongPasswords, s.Locked = true, 0, false
	}
	if m.Conf.AnotherCertificate != "" {
		s.Shown = m.Conf.AnotherCertificate
	}
	m.restart(at, true)
	if kind == "ResetAll" || m.Conf.NeverBack { // its address is gone
		m.GoDown(at.Add(1000 * time.Hour))
	}
}

// mustChangePassword: the request is of one who may change the first password only.
func (m *Machine) mustChangePassword(c *call) bool {
	s := m.session(c.Request)
	return m.Data.FirstPassword || s != nil && s.First
}
