package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova/configdrive"
	"burnish/internal/nova/metadata"
	"burnish/internal/nova/udev"
	"burnish/internal/testkit/guest"
	"burnish/workflows/contract"
)

// The parts of a guest's image that find devices by their tags, on this machine. udev's own
// rules are those that read a disk's label.
const (
	udevd      = "/usr/lib/systemd/systemd-udevd"
	udevRules  = "/usr/lib/udev/rules.d/60-persistent-storage.rules"
	guestHook  = "/usr/local/sbin/burnish-udev-tags"
	hookSource = "../../../deploy/guest/burnish-udev-tags"
)

// guestDocument is the document of an instance with these devices.
func guestDocument(t testing.TB, devices ...contract.HeldDevice) []byte {
	t.Helper()
	text, err := metadata.New(contract.InstanceStatus{UUID: "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90",
		Phase: contract.InstanceActive, Devices: devices}).JSON()
	require.NoError(t, err)
	return text
}

// A guest with real kernel, udev and devices boots with the config drive, runs the hook, and
// finds each device under its tag; what it writes there reaches the right drive. The
// service then gives the tag to the other drive, and the card has none any more.
func TestGuestFindsItsDevicesByTheirTags(t *testing.T) {
	t.Parallel()
	requireGuest(t)
	for _, path := range []string{udevd, udevRules} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("%s is missing: run deploy/setup-test.sh", path)
		}
	}
	const size = MiB
	const tag = "data \"base\"\n$kernel %k\\"
	dir := t.TempDir()
	disk := func(serial, tag string) contract.HeldDevice {
		return contract.HeldDevice{Name: serial, Type: "NVME", Serial: serial, Tag: tag}
	}
	card := contract.HeldDevice{Name: "nic", Type: "NIC", MAC: "52:54:00:12:34:56", Tag: "uplink"} // QEMU's first
	image, err := configdrive.Image(guestDocument(t, disk("FIRST", ""), disk("SECOND", tag), card), time.Now())
	require.NoError(t, err)
	drive := filepath.Join(dir, "config.iso")
	require.NoError(t, configdrive.Write(drive, image))

	file := func(path string, mode os.FileMode, from string) guest.File {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		return guest.File{Path: path, Mode: mode, Text: text}
	}
	config := guest.Config{
		Dir: t.TempDir(), ConfigDrive: drive,
		Controllers: []guest.Controller{
			{Serial: "FIRST", Namespaces: []guest.Namespace{{Image: dir + "/first.img", Size: size}}},
			{Serial: "SECOND", Namespaces: []guest.Namespace{{Image: dir + "/second.img", Size: size}}},
		},
		Programs: []string{udevd, "/usr/bin/udevadm", "/usr/sbin/blkid", "/usr/bin/curl"},
		Files: []guest.File{
			file("/usr/local/bin/burnish", 0o755, programs.Burnish), file(guestHook, 0o755, hookSource),
			file(udevRules, 0o644, udevRules),
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), guestWithin)
	defer cancel()
	g, err := guest.Start(ctx, config)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, g.Kill())
		if t.Failed() {
			t.Logf("the guest's console:\n%s", g.Console())
		}
	})
	booted := g.Age()
	run := func(script string) string {
		t.Helper()
		out, err := g.Run(ctx, script)
		require.NoError(t, err)
		return strings.TrimSpace(out.Stdout)
	}
	run(udevd + " --daemon >/run/udevd.log 2>&1; udevadm trigger --action=add --settle >>/run/udevd.log 2>&1")
	run(guestHook)
	disks, err := g.Disks(ctx, "SECOND")
	require.NoError(t, err)
	require.Len(t, disks, 1)
	link := "/dev/burnish/disk/" + udev.Encode(tag)
	require.Equal(t, disks[0], run("readlink -f "+link))
	require.Equal(t, link, run("echo /dev/burnish/disk/*"), "no other disk has a tag")
	// udev keeps the tags that a device once had: BURNISH_TAGS are those that it has now.
	const cards = "udevadm trigger --dry-run --verbose --subsystem-match=net --property-match=BURNISH_TAGS=uplink"
	require.Regexp(t, `^/sys/devices/pci0000:00/\S+/net/eth0$`, run(cards))
	require.Equal(t, run(cards), run("udevadm trigger --dry-run --verbose --tag-match=burnish-nic-uplink"))
	run("printf DATABASE | dd of=" + link + " conv=fsync 2>/dev/null")

	var broken atomic.Bool
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/openstack/latest/meta_data.json" {
			t.Errorf("the guest asks for %s", r.URL.Path)
		}
		answer := guestDocument(t, disk("FIRST", tag), disk("SECOND", ""))
		if broken.Load() {
			answer = answer[:len(answer)/2]
		}
		if _, err := w.Write(answer); err != nil {
			t.Errorf("the guest did not read the document: %v", err)
		}
	}))
	defer served.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(served.URL, "http://"), ":")
	again := "BURNISH_METADATA_URL=http://" + guest.Host + ":" + port + " " + guestHook + " service"
	run(again)
	broken.Store(true)
	_, err = g.Run(ctx, again)
	require.ErrorContains(t, err, "the metadata document cannot be read", "and the old rules stay")
	disks, err = g.Disks(ctx, "FIRST")
	require.NoError(t, err)
	require.Equal(t, disks[0], run("readlink -f "+link))
	require.Equal(t, link, run("echo /dev/burnish/disk/*"))
	require.Empty(t, run(cards))
	t.Logf("booted in %s, %s in all", booted.Round(time.Second/10), g.Age().Round(time.Second/10))

	require.NoError(t, g.Kill())
	for name, want := range map[string]string{"first.img": "\x00\x00\x00\x00\x00\x00\x00\x00", "second.img": "DATABASE"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(text[:len(want)]), name)
	}
}
