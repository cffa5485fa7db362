// Package oneviewsim simulates an appliance of HPE OneView: sessions, server hardware,
// server profiles, their templates, and the tasks in which it applies and removes profiles and
// switches servers on and off. Other users take and free servers, and it fails on demand.
//
//	appliance := oneviewsim.Start(t, oneviewsim.Servers(3), func(c *oneviewsim.Config, s *oneviewsim.State) {
//		c.TaskForm = oneviewsim.BodyOnly
//		s.Hardware[0].Power = oneviewsim.On
//	})
//	appliance.Inject(oneviewsim.Fault{Method: "POST", Path: "/rest/server-profiles",
//		Kind: oneviewsim.TakeAfter, Server: "server-1"})
//	// … appliance.URL, appliance.CA, appliance.Username, appliance.Password, appliance.Domain …
//	err := appliance.Take("server-1")
//	appliance.Profiles(appliance.Username); appliance.OpenSessions(appliance.Username)
//	appliance.Violations(appliance.Username)
//
// A server is named by its name, serial number, UUID or URI. Users are the appliance's: the
// first is Burnish's, and what the others do is foreign to it.
//
// Time passes in milliseconds, see Delays; a test that must see a state gives it an hour, and
// ends it with Appliance.Hurry. Nothing happens by itself: what is due is done before the next
// request is answered or the next question of a test. The command
// internal/testkit/cmd/oneviewsim serves the same appliance as a process of its own, which can
// be killed and come back: its tasks go on meanwhile, see StartProcess.
//
// What the appliance answers follows HPE's REST API reference and the error reports of its
// users: a request whose API version is unknown is 412; a profile is checked in its task, which
// ends in Error with ProfileAlreadyExistsInServer where the server has one already; profile
// names are unique.
package oneviewsim
