package e2e

import "testing"

// The HTTP API with real clients, a real Keystone and a real browser. The parts share one
// site and go one after the other.
func TestTheAPIWithRealClients(t *testing.T) {
	t.Parallel()
	a := newAPI(t, "BURNISH_API_RATE=100")
	uuids := a.enrollSeven(t)
	slow := a.slowClients(t) // all the others go on beside them
	for _, part := range []struct {
		what string
		test func(t *testing.T)
	}{
		{"a viewer changes nothing", a.viewerChangesNothing},
		{"openstacksdk", func(t *testing.T) { a.openstackSDK(t, uuids) }},
		{"cyborgclient", func(t *testing.T) { a.cyborgClient(t, uuids) }},
		{"curl", a.curlScripts},
		{"burnish", a.commandsWithKeystone},
		{"rough requests", a.roughRequests},
		{"a page in a browser", a.browserPage},
		{"override", func(t *testing.T) { a.override(t, "no-path") }},
		{"a revoked token", a.revokedToken},
		{"slow clients", func(t *testing.T) { a.requireCutOff(t, slow) }},
		{"concurrent requests", a.concurrentRequests},
	} {
		t.Run(part.what, part.test)
	}
}
