package block

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/suites/hardwaretest"
)

// put is bytes at an offset, from the end if negative.
type put struct {
	at   int64
	text string
}

const gptEntry = "\x00\x00\x02\x00\xee\xff\xff\xff\x01\x00\x00\x00\xff\xff\x00\x00"

// le is a number of 4 bytes in little endian.
func le(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }

var foreign = map[string]struct {
	name string
	puts []put
}{
	"ext":                {"ext", []put{{0x400, le(64) + le(256)}, {0x418, le(2)}, {0x438, "\x53\xef"}}},
	"xfs":                {"xfs", []put{{0, "XFSB"}}},
	"btrfs":              {"btrfs", []put{{0x10040, "_BHRfS_M"}}},
	"bcachefs":           {"bcachefs", []put{{0x1018, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"}}},
	"f2fs":               {"f2fs", []put{{0x400, "\x10\x20\xf5\xf2"}}},
	"fat32":              {"vfat", []put{{0x52, "FAT32   "}, {510, "\x55\xaa"}}},
	"fat16":              {"vfat", []put{{0x36, "FAT16   "}}},
	"fat12":              {"vfat", []put{{0x36, "FAT12   "}}},
	"exfat":              {"exfat", []put{{3, "EXFAT   "}}},
	"ntfs":               {"ntfs", []put{{3, "NTFS    "}}},
	"iso9660":            {"iso9660", []put{{0x8001, "CD001"}}},
	"md 0.90":            {"md", []put{{-0x10000, "\xfc\x4e\x2b\xa9"}}},
	"md 0.90 big endian": {"md", []put{{-0x10000, "\xa9\x2b\x4e\xfc"}}},
	"md 1.0":             {"md", []put{{-0x2000, "\xfc\x4e\x2b\xa9"}}},
	"md 1.1":             {"md", []put{{0, "\xfc\x4e\x2b\xa9"}}},
	"md 1.2":             {"md", []put{{0x1000, "\xfc\x4e\x2b\xa9"}}},
	"md imsm":            {"md", []put{{-0x400, "Intel Raid ISM Cfg Sig. 1.3.00"}}},
	"md ddf":             {"md", []put{{-0x200, "\xde\x11\xde\x11"}}},
	"lvm2":               {"lvm2", []put{{512, "LABELONE"}, {512 + 24, "LVM2 001"}}},
	"lvm2 in sector 3":   {"lvm2", []put{{1536, "LABELONE"}, {1536 + 24, "LVM2 001"}}},
	"zfs":                {"zfs", []put{{128*kib + 4*kib, "\x0c\xb1\xba\x00\x00\x00\x00\x00"}}},
	"zfs big endian":     {"zfs", []put{{256*kib + 128*kib, "\x00\x00\x00\x00\x00\xba\xb1\x0c"}}},
	"zfs third label":    {"zfs", []put{{-512*kib + 255*kib, "\x0c\xb1\xba\x00\x00\x00\x00\x00"}}},
	"zfs last label":     {"zfs", []put{{-128 * kib, "\x0c\xb1\xba\x00\x00\x00\x00\x00"}}},
	"bcache":             {"bcache", []put{{0x1018, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"}}},
	"swap":               {"swap", []put{{4086, "SWAPSPACE2"}}},
	"swap of old":        {"swap", []put{{4086, "SWAP-SPACE"}}},
	"swap of 64k pages":  {"swap", []put{{64*kib - 10, "SWAPSPACE2"}}},
	"hibernated":         {"swap", []put{{4086, "S1SUSPEND\x00"}}},
	"luks":               {"luks", []put{{0, "LUKS\xba\xbe\x00\x02"}}},
	"luks second header": {"luks", []put{{0x4000, "SKUL\xba\xbe\x00\x02"}}},
	"gpt":                {"gpt", []put{{446, gptEntry}, {510, "\x55\xaa"}, {512, "EFI PART"}}},
	"gpt of 4k sectors":  {"gpt", []put{{4096, "EFI PART"}}},
	"gpt second copy":    {"gpt", []put{{-512, "EFI PART"}}},
	"dos":                {"dos", []put{{446, "\x80\x01\x01\x00\x83\xfe\xff\xff" + le(2048) + le(4096)}, {510, "\x55\xaa"}}},
	"dos fourth entry":   {"dos", []put{{446 + 48, "\x00\x01\x01\x00\x07\xfe\xff\xff" + le(2048) + le(4096)}, {510, "\x55\xaa"}}},
}

// holding makes a file of one MiB with these bytes in it.
func holding(t *testing.T, dir string, puts []put) string {
	t.Helper()
	path := filepath.Join(dir, "target")
	p := make([]byte, mib)
	for _, put := range puts {
		at := put.at
		if at < 0 {
			at += mib
		}
		copy(p[at:], put.text)
	}
	require.NoError(t, os.WriteFile(path, p, 0o600))
	return path
}

// The signatures of a device are those of a file, also behind a loop's end.
//
// F15
func TestASignatureIsRefusedUnlessNamed(t *testing.T) {
	for name, tc := range foreign {
		t.Run(name, func(t *testing.T) {
			refusesUnlessNamed(t, holding(t, workDir(t), tc.puts), tc.name, "")
		})
	}
	for _, name := range []string{"gpt second copy", "ext", "zfs last label"} {
		t.Run("loop, "+name, func(t *testing.T) {
			path := holding(t, workDir(t), foreign[name].puts)
			refusesUnlessNamed(t, path, foreign[name].name, attach(t, path))
		})
	}
}

// refusesUnlessNamed enrolls a file, or the loop device over it, that has this content.
func refusesUnlessNamed(t *testing.T, path, name, loop string) {
	before := checksums(t, []string{path})
	d, target := newDriver(t), targetAt(cmp.Or(loop, path))
	_, err := d.Discover(t.Context(), target, device.Identity{})
	fault := hardwaretest.RequireFault(t, err, device.CodeFilesystemSignature)
	require.Contains(t, fault.Message, "holds "+name)
	require.Contains(t, fault.Remedy, "--accept-signature "+name)
	require.Equal(t, device.NeedsOperator, fault.Class)

	target.AcceptSignature = "something"
	_, err = d.Discover(t.Context(), target, device.Identity{})
	hardwaretest.RequireFault(t, err, device.CodeFilesystemSignature)
	require.Equal(t, before, checksums(t, []string{path}))

	moved := target
	moved.MovedFrom = "d0"
	_, err = d.Discover(t.Context(), moved, device.Identity{})
	require.NoError(t, err, "signatures of its own tenants are accepted")
	target.AcceptSignature = name
	found, err := d.Discover(t.Context(), target, device.Identity{})
	require.NoError(t, err)

	// A tenant's data on an enrolled device is not refused.
	target.AcceptSignature = ""
	_, err = d.Discover(t.Context(), target, found.Identity)
	require.NoError(t, err)
}

// F15
func TestEverySignatureNeedsItsName(t *testing.T) {
	path := holding(t, workDir(t), append(foreign["iso9660"].puts, foreign["gpt"].puts...))
	d, target := newDriver(t), targetAt(path)
	for _, accepted := range []string{"", "gpt", "iso9660", "iso", "iso9660gpt"} {
		target.AcceptSignature = accepted
		_, err := d.Discover(t.Context(), target, device.Identity{})
		require.Contains(t, hardwaretest.RequireFault(t, err, device.CodeFilesystemSignature).Remedy,
			"--accept-signature iso9660,gpt")
	}
	for _, accepted := range []string{"iso9660,gpt", "gpt, iso9660", "gpt,xfs,iso9660"} {
		target.AcceptSignature = accepted
		_, err := d.Discover(t.Context(), target, device.Identity{})
		require.NoError(t, err)
	}
}

// F15
func TestOtherDataIsNoSignature(t *testing.T) {
	random := make([]byte, mib)
	source := rand.NewChaCha8([32]byte{1})
	_, err := source.Read(random)
	require.NoError(t, err)
	with := func(puts ...put) []byte {
		p := bytes.Clone(random)
		for _, put := range puts {
			copy(p[put.at:], put.text)
		}
		return p
	}
	noTable := put{446, strings.Repeat("\x00", 64)}
	for name, p := range map[string][]byte{
		"zeroes":                        make([]byte, mib),
		"random":                        random,
		"ext magic by chance":           with(put{0x400, le(0)}, put{0x438, "\x53\xef"}),
		"ext with an odd block size":    with(put{0x400, le(1) + le(1)}, put{0x418, le(7)}, put{0x438, "\x53\xef"}),
		"boot sector without a table":   with(put{446, "\x01"}, put{510, "\x55\xaa"}),
		"empty table":                   with(noTable, put{510, "\x55\xaa"}),
		"only what protects a lost gpt": with(noTable, put{446, gptEntry}, put{510, "\x55\xaa"}),
		"entry without a length":        with(noTable, put{446, "\x00\x00\x00\x00\x83\x00\x00\x00" + le(63) + le(0)}, put{510, "\x55\xaa"}),
		"lvm2 without its label":        with(put{512 + 24, "LVM2 001"}),
		"one byte":                      {1},
		"a sector":                      make([]byte, 512),
		"shorter than the ext magic":    make([]byte, 0x439),
	} {
		t.Run(name, func(t *testing.T) {
			found, err := findSignatures(bytes.NewReader(p), int64(len(p)))
			require.NoError(t, err)
			require.Empty(t, found)
		})
	}
}

// The table is compared with real tools, except those that would give the loop device to the
// kernel (md, bcache, zfs).
//
// F15
func TestSignaturesOfRealToolsAreFound(t *testing.T) {
	for _, tc := range []struct {
		name string
		// script makes it on $F, a file, or on $L, if it needs a loop device.
		script string
	}{
		{"ext", "mkfs.ext2 -q -F $F"},
		{"ext", "mkfs.ext4 -q -F $F"},
		{"xfs", "mkfs.xfs -q $F"},
		{"btrfs", "mkfs.btrfs -q $F"},
		{"vfat", "mkfs.vfat -F 32 $F"},
		{"vfat", "mkfs.vfat -F 16 $F"},
		{"ntfs", "mkfs.ntfs -F -Q -q $F"},
		{"swap", "mkswap $F"},
		{"swap", "mkswap -p 65536 $F"},
		{"gpt", "echo 'label: gpt\n,,' | sfdisk -q $F"},
		{"dos", "echo 'label: dos\n,,' | sfdisk -q $F"},
		{"luks", "echo secret | cryptsetup -q luksFormat --type luks1 --pbkdf-force-iterations 1000 $F"},
		{"luks", "echo secret | cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $F"},
		{"lvm2", "pvcreate -q -y --config 'devices { scan = \"/dev\" filter = [ \"a|.*|\" ] }' $L"},
	} {
		t.Run(strings.Fields(strings.TrimPrefix(strings.TrimPrefix(tc.script, "echo secret | "), "echo "))[0]+"_"+tc.name,
			func(t *testing.T) {
				tools := strings.Fields(tc.script[strings.LastIndex(tc.script, "| ")+1:])
				requireTools(t, strings.TrimPrefix(tools[0], "| "), "sh")
				dir := workDir(t)
				path := image(t, dir, 400*mib+777)
				cmd := exec.Command("sh", "-c", tc.script)
				cmd.Env = append(os.Environ(), "F="+path)
				if strings.Contains(tc.script, "$L") {
					cmd.Env = append(cmd.Env, "L="+attach(t, path))
				}
				out, runErr := cmd.CombinedOutput()
				file, err := os.Open(path)
				require.NoError(t, err)
				defer file.Close()
				found, err := findSignatures(file, 400*mib+777)
				require.NoError(t, err)
				if runErr != nil && len(found) == 0 {
					t.Skipf("this environment refuses it: %v: %s", runErr, out)
				}
				require.Equal(t, []string{tc.name}, found, "%s", out)
			})
	}
}
