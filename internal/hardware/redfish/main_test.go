// The key exchange that no quantum computer breaks is most of a handshake's work, and a test needs
// no secrecy.
//
//go:debug tlsmlkem=0
package redfish

import (
	"os"
	"runtime/debug"
	"testing"
)

// The tests make much garbage and keep little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
