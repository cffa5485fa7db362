package metadata_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova/metadata"
	"burnish/internal/tagging"
	"burnish/workflows/contract"
)

type entry = map[string]any

// askNova runs Nova's own code on a domain of libvirt's.
func askNova(t *testing.T, question any) (devices, buses []entry) {
	t.Helper()
	const nova = "/usr/lib/python3/dist-packages/nova/objects/virt_device_metadata.py"
	if _, err := os.Stat(nova); err != nil {
		t.Skip("python3-nova is not installed: deploy/setup-test.sh installs it:", err)
	}
	text, err := json.Marshal(question)
	require.NoError(t, err)
	program := exec.CommandContext(t.Context(), "/usr/bin/python3", "testdata/devices_of_nova.py")
	program.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "PYTHONDONTWRITEBYTECODE=1"}
	program.Stdin = bytes.NewReader(text)
	var problems bytes.Buffer
	program.Stderr = &problems
	out, err := program.Output()
	require.NoError(t, err, problems.String())
	var answer struct{ Devices, Buses []entry }
	require.NoError(t, json.Unmarshal(out, &answer), "%s", out)
	return answer.Devices, answer.Buses
}

// entriesOf gives a document's entries by tag, and those without one.
func entriesOf(t *testing.T, doc metadata.Document) (byTag map[string]entry, untagged []entry) {
	t.Helper()
	text, err := doc.JSON()
	require.NoError(t, err)
	var read struct{ Devices []entry }
	require.NoError(t, json.Unmarshal(text, &read))
	return byTagOf(t, read.Devices)
}

func byTagOf(t *testing.T, all []entry) (byTag map[string]entry, untagged []entry) {
	t.Helper()
	byTag = map[string]entry{}
	for _, e := range all {
		tags, _ := e["tags"].([]any)
		if len(tags) == 0 {
			untagged = append(untagged, e)
			continue
		}
		tag, ok := tags[0].(string)
		require.True(t, ok && len(tags) == 1 && byTag[tag] == nil, e)
		byTag[tag] = e
	}
	return byTag, untagged
}

// For the same devices, as libvirt has them, Nova's own code and this package give the same
// entries, but for the differences named here, each of which occurs.
//
// S1.8, S1.21
func TestNovasOwnCodeGivesTheSameEntries(t *testing.T) {
	t.Parallel()
	domain, err := os.ReadFile("testdata/domain.xml")
	require.NoError(t, err)
	guests, err := metadata.FromDomain(bytes.NewReader(domain))
	require.NoError(t, err)
	held := func(host, deviceType, serial, tag string) contract.HeldDevice {
		return contract.HeldDevice{Name: "h1_" + host, Type: deviceType, Serial: serial, Tag: tag, Guest: guests[host]}
	}
	pf := held("0000:82:00.0", "NIC", "", "pf")
	pf.MAC = "52:54:00:00:00:0A" // as the host discovered it
	ours, untagged := entriesOf(t, metadata.New(contract.InstanceStatus{UUID: uuid, Devices: []contract.HeldDevice{
		held("/dev/sdb", "DISK", "vol-virtio", "virtio"), held("/dev/sdc", "DISK", "vol-scsi", "scsi"),
		held("/dev/sdd", "DISK", "vol-ide", "ide"), held("/dev/sde", "DISK", "vol-usb", "usb"),
		held("/dev/sdf", "DISK", "", "sata"),
		held("0000:81:10.1", "NIC", "", "vf"), pf,
		held("0000:01:00.0", "NVME", "S1", "scratch"), held("0000:02:00.0", "NVME", "S2", ""),
	}}))

	devices, buses := askNova(t, map[string]any{
		"domain": string(domain),
		"nics":   map[string]string{"52:54:00:00:00:01": "vf", "52:54:00:00:00:0a": "pf"},
		"disks": map[string][]any{"vdb": {"virtio", "vol-virtio"}, "sdc": {"scsi", "vol-scsi"}, "hdd": {"ide", "vol-ide"},
			"sde": {"usb", "vol-usb"}, "sdf": {"sata", nil}},
		"host_macs": map[string]string{"0000:82:00.0": "52:54:00:00:00:0a", "0000:01:00.0": "", "0000:02:00.0": "", "0000:03:00.0": ""},
		"buses": [][]string{{"pci", "0000:00:0A.0"}, {"scsi", "1:0:2:0"}, {"ide", "0:1"}, {"usb", "0:1"}, {"xen", "51712"}, {"xen", "000100"},
			{"xen", "0"}, {"xen", "1"}, {"pci", "0000:00:05x0"}, {"usb", "0:1:2"}, {"scsi", "1:0:2:0:0"}, {"ide", "0:0:0"}},
	})
	theirs, others := byTagOf(t, devices)
	require.Empty(t, others, "Nova shows tagged devices only")

	differences := map[string]func(theirs, ours entry) bool{
		"no address known: Nova writes the word none": func(e, our entry) bool {
			if e["address"] != "none" || our["address"] != nil {
				return false
			}
			delete(e, "address")
			return true
		},
		"a disk on scsi, ide or usb: Nova never has its address": func(e, our entry) bool {
			if !slices.Contains([]any{"scsi", "ide", "usb"}, e["bus"]) || e["address"] != "none" || our["address"] == nil {
				return false
			}
			e["address"] = our["address"]
			return true
		},
		"no serial: Nova writes null": func(e, _ entry) bool {
			value, there := e["serial"]
			if !there || value != nil {
				return false
			}
			delete(e, "serial")
			return true
		},
		"vf_trusted on each NIC": func(e, _ entry) bool {
			_, there := e["vf_trusted"]
			delete(e, "vf_trusted")
			return there
		},
		"a passed-through physical NIC: Nova writes the host's address": func(e, our entry) bool {
			if e["address"] != "0000:82:00.0" || our["address"] != "0000:00:06.0" {
				return false
			}
			e["address"] = our["address"]
			return true
		},
	}
	seen := map[string]bool{}
	for tag, their := range theirs {
		for name, apply := range differences {
			seen[name] = apply(their, ours[tag]) || seen[name]
		}
		require.Equal(t, their, ours[tag], tag)
		delete(ours, tag)
	}
	for name := range differences {
		require.True(t, seen[name], "this difference did not occur: %s", name)
	}
	// Nova shows no NVMe drive that is passed through, tagged or not.
	require.Equal(t, map[string]entry{
		"scratch": {"type": "disk", "bus": "pci", "address": "0000:0a:1f.7", "serial": "S1", "tags": []any{"scratch"}},
	}, ours)
	require.Equal(t, []entry{{"type": "disk", "bus": "pci", "serial": "S2"}}, untagged)

	checkBuses(t, buses)
}

// checkBuses compares addresses that Nova's objects take, and refuse, with CheckGuest. Nova
// checks a beginning, and refuses some of Xen's integers.
func checkBuses(t *testing.T, buses []entry) {
	t.Helper()
	for i, c := range []struct {
		bus, address string
		nova, ours   bool
	}{
		{"pci", "0000:00:0A.0", true, true}, {"scsi", "1:0:2:0", true, true}, {"ide", "0:1", true, true}, {"usb", "0:1", true, true},
		{"xen", "51712", true, true}, {"xen", "000100", true, true}, {"xen", "0", false, true}, {"xen", "1", false, true},
		{"pci", "0000:00:05x0", true, false}, {"usb", "0:1:2", true, false}, {"scsi", "1:0:2:0:0", true, false}, {"ide", "0:0:0", true, false},
	} {
		guest := []contract.GuestAddress{{Bus: c.bus, Address: c.address}}
		require.Equal(t, c.ours, tagging.CheckGuest(guest) == nil, c)
		require.Equal(t, c.nova, buses[i]["refused"] == nil, "%v: %v", c, buses[i])
		if c.nova && c.ours {
			ours, _ :=
				entriesOf(t,
					metadata.New(
						contract.InstanceStatus{UUID: uuid, Devices: []contract.HeldDevice{{Type: "DISK", Tag: "t", Guest: guest}}}))
			require.Equal(t, buses[i], ours["t"])
		}
	}
}

// FromDomain reads the same domain as Nova does.
func TestWhereADomainsGuestFindsItsDevices(t *testing.T) {
	t.Parallel()
	domain, err := os.ReadFile("testdata/domain.xml")
	require.NoError(t, err)
	guests, err := metadata.FromDomain(bytes.NewReader(domain))
	require.NoError(t, err)
	require.Equal(t, map[string][]contract.GuestAddress{
		"0000:81:10.1": {{Bus: "pci", Address: "0000:00:05.0", MAC: "52:54:00:00:00:01"}},
		"0000:82:00.0": {{Bus: "pci", Address: "0000:00:06.0"}},
		"0000:01:00.0": {{Bus: "pci", Address: "0000:0a:1f.7"}},
		"0000:02:00.0": {{Bus: "pci"}}, // libvirt has not chosen an address yet
		"/dev/sdb":     {{Bus: "pci", Address: "0000:00:07.0"}},
		"/dev/sdc":     {{Bus: "scsi", Address: "1:0:2:0"}},
		"/dev/sdd":     {{Bus: "ide", Address: "1:1"}},
		"/dev/sde":     {{Bus: "usb", Address: "0:4"}},
		"/dev/sdf":     {{Bus: "none"}}, // the document has no word for SATA
	}, guests, "%v", slices.Sorted(maps.Keys(guests)))
}
