package e2e

import "testing"

// The HTTP API with real clients, a real Keystone and a real browser. The parts share one
// site and go one after the other.
func TestTheAPIWithRealClients(t *testing.T) {
	t.Parallel()
	a := newAPI(t, "BURNISH_API_RATE=100")
	uuids := a.enrollSeven(t)
	for _, part := range []struct {
		what string
		test func(t *testing.T)
	}{
		{"a viewer changes nothing", a.viewerChangesNothing},
		{"openstacksdk", func(t *testing.T) { a.openstackSDK(t, uuids) }},
		{"cyborgclient", func(t *testing.T) { a.cyborgClient(t, uuids) }},
		{"curl", a.curlScripts},
		{"burnish", a.commandsWithKeystone},
		{"a page in a browser", a.browserPage},
		{"a revoked token", a.revokedToken},
	} {
		t.Run(part.what, part.test)
	}
}
