package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
	"burnish/internal/testkit/site"
)

// pciPolicy is what an operator writes about the card.
const pciPolicy = `models: [{model: "1af4:1110", memory: bar 2 size 16MiB}]`

// A card that the worker finds by itself is cleaned and offered. Its memory is a file of this machine,
// the witness, which no code of the product touches: it holds no byte of a tenant's at any look while
// the inventory offers the card.
//
// F2, F11
func TestGuestPCIMemory(t *testing.T) {
	t.Parallel()
	requireGuest(t)
	const size = 16 * MiB
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(pciPolicy), 0o600))
	s := newSite(t)
	s.Host = "guest1"
	s.Run(t, "control", "BURNISH_POLICY="+policy)
	d := Device{Name: s.Host + "_0000:01:00.0", Path: filepath.Join(dir, "memory"), Size: size}
	d.Stamp(t, 2)
	g := bootGuest(t, s, guestDriver{
		name: "pci", method: "pci",
		env:   map[string]string{"BURNISH_DRIVERS": "block,pci", "BURNISH_POLICY": "/etc/burnish/policy.yaml"},
		rules: `allow: {device_spec: [{vendor_id: "1af4", product_id: "1110", one_time_use: "yes"}]}`,
	}, guest.Config{
		Cards: []guest.Card{{Port: true, Memory: d.Path, Size: size}},
		Files: []guest.File{{Path: "/etc/burnish/policy.yaml", Mode: 0o600, Text: []byte(pciPolicy)}},
	})
	g.awaitReady(t)
	g.AwaitState(t, d.Name, guestWithin, device.Manageable)
	d.RequireStamps(t, 2)
	g.Must(t, "provide", d.Name)
	v := g.awaitReturned(t, d)
	last := v.Cleans[0]
	require.Equal(t, "cleaned", last.Outcome)
	require.Equal(t, []string{"security_check", "zero", "verify", "pci_reset", "verify_properties"}, stepNames(last))
	zero, verify := last.Steps[1], last.Steps[2]
	require.Equal(t, [2]any{d.Size, g.driver.method}, [2]any{zero.Bytes, zero.Method})
	require.Equal(t, d.Size, verify.Bytes)
	RequireThroughout(t, 2*time.Second, "the witness sees zeroes", func() (bool, string) {
		p, err := g.Site.Site.Provider(d.Name)
		require.NoError(t, err)
		_, clean, _, err := site.Device(d).Count(2)
		require.NoError(t, err)
		return p.Reserved == 0 && clean == d.Blocks(), fmt.Sprint(p)
	})
}
