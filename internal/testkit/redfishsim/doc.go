// Package redfishsim simulates a server's BMC that speaks Redfish, with the server behind
// it: power, POST, BIOS, drives, firmware. It has five personalities, each with the ways
// in which real BMCs differ from the standard and from each other, and it fails on demand.
//
//	bmc := redfishsim.Start(t, redfishsim.IDRAC, func(c *redfishsim.Config, s *redfishsim.State) {
//		c.MaxSessions = 2
//		s.Storages[0].Drives[0].Lies = true
//	})
//	bmc.Inject(redfishsim.Fault{Method: "POST", Path: "*/Drive.SecureErase", Kind: redfishsim.CutAfter})
//	// … bmc.URL, bmc.CA, bmc.Username, bmc.Password …
//	bmc.Requests(); bmc.OpenSessions(); bmc.TenantData(); bmc.State().Bricked
//
// Time passes in milliseconds, see Delays; a test that must see a state gives it an hour,
// and ends it with Machine.Hurry. Nothing happens by itself, what is due is done
// before the next request is answered or the next question of a test. The command
// internal/testkit/cmd/redfishsim serves the same machine as a process of its own, which
// can be killed and come back.
package redfishsim
