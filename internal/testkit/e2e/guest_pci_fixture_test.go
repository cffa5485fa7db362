package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/guest"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

// pciMemory is the size of the memory of an accelerator and of the GPU.
const pciMemory = 16 * MiB

// pciFirmware is an image that netdevsim takes, as each other.
var pciFirmware = []byte("firmware")

// pciPolicy is what an operator writes about these models. netdevsim's version is always
// 10.20.30.
var pciPolicy = fmt.Sprintf(`
models:
  - {model: "1af4:1110", memory: "bar 2 size 16MiB"}
  - {model: "1234:1111", memory: "bar 0 size 16MiB"}
  - {model: "1af4:1041", memory: none}
  - {model: "8086:10d3", memory: none, reset: "require bus"}
  - {model: "1af4:1044", memory: none}
  - {model: "1af4:1000", memory: none}
firmware:
  - {model: "1af4:1041", from: ["10.20.30"], to: "10.20.30", image: /srv/firmware, sha256: "%[1]x", rewrite: always}
  - {model: "1af4:1044", from: ["10.20.30"], to: "10.20.31", image: /srv/firmware, sha256: "%[1]x"}
`, sha256.Sum256(pciFirmware))

// devlinkOf gives two cards a devlink: the kernel has none without hardware but netdevsim's,
// whose devices have no PCI address.
const devlinkOf = `#!/bin/sh
to='s,pci/0000:01:00.0,netdevsim/netdevsim7,g;s,pci/0000:02:00.0,netdevsim/netdevsim8,g'
from='s,netdevsim/netdevsim7,pci/0000:01:00.0,g;s,netdevsim/netdevsim8,pci/0000:02:00.0,g'
echo "$*" >>/tmp/devlink.log
case "$*" in
*flash*) exec /usr/sbin/devlink.real $(echo "$*" | sed "$to") ;;
esac
set -o pipefail
/usr/sbin/devlink.real $(echo "$*" | sed "$to") | sed "$from"
`

// pciGuest is a guest whose tenants are given its cards. Everything that it has is allowed in
// host.yaml, also what is the host's own.
type pciGuest struct{ *guestSite }

func newPCIGuest(t *testing.T, config guest.Config) pciGuest {
	t.Helper()
	requireGuest(t)
	s := newSite(t)
	s.Host = "guest1"
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(pciPolicy), 0o600))
	s.Run(t, "control", "BURNISH_POLICY="+policy)
	driver := guestDriver{
		name: "pci", method: "pci",
		env: map[string]string{"BURNISH_DRIVERS": "block,pci", "BURNISH_POLICY": "/etc/burnish/policy.yaml"},
		rules: `
allow:
  device_spec:
    - {vendor_id: "1af4", one_time_use: "yes"}
    - {vendor_id: "1234", one_time_use: "yes"}
    - {vendor_id: "8086", one_time_use: "yes"}
    - {vendor_id: "1b36", one_time_use: "yes"}
`,
	}
	config.Files = append(config.Files, barTool(t),
		guest.File{Path: "/etc/burnish/policy.yaml", Mode: 0o600, Text: []byte(pciPolicy)},
		guest.File{Path: "/srv/firmware", Mode: 0o600, Text: pciFirmware})
	g := pciGuest{bootGuest(t, s, driver, config)}
	g.awaitReady(t)
	return g
}

// provide has each of the first cards cleaned, which the worker finds by itself.
func (g pciGuest) provide(t *testing.T, cards int) {
	t.Helper()
	for i := range cards {
		g.AwaitState(t, g.card(i).Name, guestWithin, device.Manageable)
		g.Must(t, "provide", g.card(i).Name)
	}
}

// withDevlink is the configuration of a guest with netdevsim, and with the programs that know
// settings of cards.
func withDevlink(t *testing.T, cards ...guest.Card) guest.Config {
	t.Helper()
	netdevsim, err := guest.Netdevsim()
	if err != nil {
		t.Skipf("no netdevsim: run deploy/setup-test.sh: %v", err)
	}
	var tools []string
	for _, name := range []string{"devlink", "ip", "ethtool"} {
		path, err := proc.Look(name)
		if err != nil {
			t.Skipf("no %s: run deploy/setup-test.sh", name)
		}
		tools = append(tools, path)
	}
	devlink, err := os.ReadFile(tools[0])
	require.NoError(t, err)
	return guest.Config{
		Cards: cards, Modules: []string{"psample", netdevsim}, Programs: tools,
		Before: "for one in 7 8; do echo $one 1 >/sys/bus/netdevsim/new_device; done",
		Files: []guest.File{
			{Path: "/usr/sbin/devlink.real", Mode: 0o755, Text: devlink},
			{Path: tools[0], Mode: 0o755, Text: []byte(devlinkOf)},
		},
	}
}

// card is a device by its place in the configuration.
func (g pciGuest) card(i int) Device {
	card := g.Config.Cards[i]
	return Device{Name: g.Site.Host + "_" + card.Address, Driver: g.driver.name, Path: card.Memory, Size: card.Size}
}

// of runs a script in the guest in which $card is the card's folder.
func (g pciGuest) of(t testing.TB, i int, script string, args ...any) string {
	t.Helper()
	return g.shell(t, "card=/sys/bus/pci/devices/"+g.Config.Cards[i].Address+"\n"+script, args...)
}

// watch asserts until the test's end that no byte of a tenant's is in the memory of a card while
// the inventory offers it. No code of the product takes part.
func (g pciGuest) watch(t *testing.T, d Device) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done, seen := make(chan struct{}), 0
	offered := func() bool {
		p, err := g.Site.Site.Provider(d.Name)
		return err == nil && p.Reserved == 0
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if offered() {
				stamped, _, other, err := site.Device(d).Count(2)
				if err != nil || stamped+other > 0 && offered() {
					t.Errorf("%s is offered with %d blocks of a tenant's and %d others: %v", d.Name, stamped, other, err)
					return
				}
				seen++
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		t.Logf("%s was offered at %d looks", d.Name, seen)
	})
}

// returned waits until a card is offered again, and asserts what its last clean did.
func (g pciGuest) returned(t testing.TB, i int, steps ...string) contract.DeviceStatus {
	t.Helper()
	d := g.card(i)
	v := g.awaitCleanEnd(t, d)
	require.Equal(t, device.Available, v.DeviceState, "%s: %s", d.Name, v.LastError)
	if d.Path != "" {
		v = g.AwaitReturned(t, d, guestWithin)
	}
	last := v.Cleans[len(v.Cleans)-1]
	require.Equal(t, "cleaned", last.Outcome)
	require.Equal(t, steps, stepNames(last))
	g.AwaitReserved(t, d.Name, 0)
	return v
}

// withheld waits until the clean of a card has failed, and asserts that it is kept for its
// operator.
func (g pciGuest) withheld(t testing.TB, i int, code device.Code) contract.DeviceStatus {
	t.Helper()
	d := g.card(i)
	v := g.awaitCleanEnd(t, d)
	require.Equal(t, device.Error, v.DeviceState)
	require.Equal(t, string(code), v.Fault, v.LastError)
	require.NotEmpty(t, v.Remedy)
	require.True(t, v.Dirty)
	require.True(t, v.NeedsOperator)
	g.RequireReserved(t, d.Name, 1)
	return v
}

// killAt kills the worker as soon as its journal shows that this step of a card works. verify may
// follow zero without an entry of its own. The loop starts no process, so that it is quick.
func (g pciGuest) killAt(t testing.TB, i int, step string) {
	t.Helper()
	shows := `'"step":"` + step + `"'*'"working":true'`
	if step == "verify" {
		shows += `*|*'"step":"zero"'*'"done":true'`
	}
	g.shell(t, `journal=%s
at() { read -r entry <$journal; case $entry in *%s*) ;; *) return 1 ;; esac }
up() { read -r up rest </proc/uptime; up=${up%%.*}; }
up
end=$((up + 240))
until at; do
	up
	[ $up -lt $end ] || { cat $journal; exit 1; }
done
kill -9 $(pidof burnish-worker)`, path.Join(guest.State, "journal", g.card(i).Name+".json"), shows)
}
