package nvmecli_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware/nvme/nvmecli"
)

// sample is real output, or output written after nvme-cli's source.
func sample(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return text
}

// refused requires a fault of one line, and an empty result.
func refused[T any](t *testing.T, want string, got T, err error) {
	t.Helper()
	fault, ok := device.AsFault(err)
	require.True(t, ok, "%v: want %s", err, want)
	require.Equal(t, device.CodeToolOutputInvalid, fault.Code)
	require.Contains(t, fault.Message, want)
	require.NotContains(t, err.Error(), "\n")
	require.NotEmpty(t, fault.Remedy)
	require.Empty(t, got, "a fault comes with an empty result")
}

// S2.10
func TestController(t *testing.T) {
	for file, want := range map[string]nvmecli.Controller{
		"id-ctrl-qemu-2.3.json": {
			Vendor: 6966, Serial: "HWTEST0001", Model: "QEMU NVMe Ctrl", Firmware: "7.2.22", Subsystem: "nqn.2019-08.org.qemu:subsys0",
			CMIC: 2, OACS: 266, ONCS: 349, FirmwareSlots: 3, Namespaces: 256,
		},
		"id-ctrl-samsung-980pro.json": {
			Vendor: 5197, Serial: "S5P2NG0R824326R", Model: "Samsung SSD 980 PRO 1TB", Firmware: "3B2QGXA7",
			Subsystem: "nqn.1994-11.com.samsung:nvme:980PRO:M.2:S5P2NG0R824326R", ID: 6,
			OACS: 23, ONCS: 87, FNA: 4, FirmwareSlots: 22, Namespaces: 1, Capacity: 1000204886016,
		},
		"id-ctrl-solidigm-sbfpf2bu153t.json": {
			Vendor: 606, Model: "SOLIDIGM SBFPF2BU153T", Firmware: "6CV10100",
			OACS: 94, ONCS: 94, SANICAP: 0x60000003, FNA: 4, FirmwareSlots: 24, FirmwareUnit: 1, Namespaces: 128, Capacity: 15362991415296,
		},
	} {
		t.Run(file, func(t *testing.T) {
			got, err := nvmecli.ParseController(sample(t, file))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// S2.11, S2.12, S2.13, S2.14
func TestCapabilities(t *testing.T) {
	for name, tt := range map[string]struct {
		registers string
		want      device.Capabilities
	}{
		"none":                         {`"sanicap":0,"oncs":0,"oacs":0`, device.Capabilities{}},
		"SANICAP bit 0":                {`"sanicap":1,"oncs":0,"oacs":0`, device.Capabilities{CryptoErase: true}},
		"SANICAP bit 1":                {`"sanicap":2,"oncs":0,"oacs":0`, device.Capabilities{BlockErase: true}},
		"SANICAP bit 2 is overwrite":   {`"sanicap":4,"oncs":0,"oacs":0`, device.Capabilities{}},
		"ONCS bit 3":                   {`"sanicap":0,"oncs":8,"oacs":0`, device.Capabilities{WriteZeroes: true}},
		"ONCS without bit 3":           {`"sanicap":0,"oncs":65527,"oacs":0`, device.Capabilities{}},
		"OACS bit 3":                   {`"sanicap":0,"oncs":0,"oacs":8`, device.Capabilities{ManageNamespaces: true}},
		"OACS without bit 3":           {`"sanicap":0,"oncs":0,"oacs":65527`, device.Capabilities{}},
		"high bits of SANICAP, signed": {`"sanicap":-1610612733,"oncs":0,"oacs":0`, device.Capabilities{CryptoErase: true, BlockErase: true}},
		"the same, unsigned":           {`"sanicap":2684354563,"oncs":0,"oacs":0`, device.Capabilities{CryptoErase: true, BlockErase: true}},
		"SANICAP 0xa0000002":           {`"sanicap":"0xa0000002","oncs":"0x8","oacs":"0x17"`, device.Capabilities{BlockErase: true, WriteZeroes: true}},
		"strings":                      {`"sanicap":"3","oncs":"8","oacs":" 8 "`, device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true, ManageNamespaces: true}},
		"all bits, as a float":         {`"sanicap":4294967295.0,"oncs":0,"oacs":0`, device.Capabilities{CryptoErase: true, BlockErase: true}},
		"floats":                       {`"sanicap":3.0,"oncs":8.000000,"oacs":8e0`, device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true, ManageNamespaces: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := nvmecli.ParseController([]byte("{" + tt.registers + "}"))
			require.NoError(t, err)
			require.Equal(t, tt.want, c.Capabilities())
		})
	}
}

// nvme-cli prints the capacity as a float up to 2.0, a string in 2.3, a number from 2.4 on.
func TestCapacityInEveryForm(t *testing.T) {
	for form, want := range map[string]uint64{
		`1000204886016`: 1000204886016, `"1000204886016"`: 1000204886016, `1000204886016.000000`: 1000204886016,
		`1.000204886016e+12`: 1000204886016, `"0"`: 0, `0.0`: 0, `null`: 0, `"0xE8E0DB6000"`: 1000204886016,
	} {
		t.Run(form, func(t *testing.T) {
			c, err := nvmecli.ParseController([]byte(`{"sanicap":0,"oncs":0,"oacs":0,"tnvmcap":` + form + `}`))
			require.NoError(t, err)
			require.Equal(t, want, c.Capacity)
		})
	}
}

// Text around the JSON does not matter, and JSON in that text is not taken for the output.
func TestTextAroundTheJSON(t *testing.T) {
	whole := string(sample(t, "id-ctrl-qemu-2.3.json"))
	want, err := nvmecli.ParseController([]byte(whole))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"a warning before it":              "WARNING: this alias is deprecated\n" + whole,
		"a warning with braces":            "warning: {sanicap} is {not} known\n" + whole,
		"a warning that opens a brace":     "{oops\n" + whole,
		"lines before it":                  "a\n\nb\n\n" + whole,
		"a line's end of Windows":          "warning\r\n" + strings.ReplaceAll(whole, "\n", "\r\n"),
		"something after it":               whole + "\nNVMe status: garbage }}}",
		"NULs after it":                    whole + "\x00\x00",
		"on the warning's line":            "warning: " + whole,
		"spaces before it":                 "   \n  " + whole,
		"a byte order mark":                "\ufeff" + whole,
		"a second object":                  whole + "\n{\"sanicap\":3}\n",
		"all on one line":                  strings.Join(strings.Fields(whole), " "),
		"indented as a whole":              "  " + strings.ReplaceAll(whole, "\n", "\n  "),
		"many lines that could start JSON": strings.Repeat("{no\n", 15) + whole,
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nvmecli.ParseController([]byte(text))
			require.NoError(t, err)
			want := want
			if name == "all on one line" {
				got.Model, want.Model = "", "" // its spaces are gone
			}
			require.Equal(t, want, got)
		})
	}
}

func TestInvalidControllerOutput(t *testing.T) {
	whole := string(sample(t, "id-ctrl-qemu-2.3.json"))
	good := `"sanicap":3,"oncs":8,"oacs":8`
	for name, tt := range map[string]struct{ text, want string }{
		"nothing":                {"", "no output"},
		"spaces":                 {" \n\t", "no output"},
		"text":                   {"/dev/nvme9: No such file or directory\nUsage", `no JSON object in "/dev/nvme9: No such file or directory Usage"`},
		"a list":                 {`[1,2]`, "no JSON object"},
		"null":                   {`null`, "no JSON object"},
		"cut short":              {whole[:len(whole)-20], "the JSON ends unexpectedly"},
		"cut short early":        {whole[:3], "the JSON ends unexpectedly"},
		"cut within an object":   {whole[:strings.Index(whole, "max_power")+20], "the JSON ends unexpectedly"},
		"broken in the middle":   {strings.Replace(whole, `"sanicap":`, `"sanicap"`, 1), "no JSON object"},
		"an empty object":        {`{}`, "sanicap is missing"},
		"no SANICAP":             {`{"oncs":8,"oacs":8}`, "sanicap is missing"},
		"no ONCS":                {`{"sanicap":3,"oacs":8}`, "oncs is missing"},
		"no OACS":                {`{"sanicap":3,"oncs":8}`, "oacs is missing"},
		"null SANICAP":           {`{"sanicap":null,"oncs":8,"oacs":8}`, "sanicap is missing"},
		"another spelling":       {`{"SANICAP":3,"oncs":8,"oacs":8}`, "sanicap is missing"},
		"another command's":      {string(sample(t, "smart-log-generic-2.8.json")), "sanicap is missing"},
		"an object":              {`{"sanicap":{"value":3},"oncs":8,"oacs":8}`, "sanicap is an object: want a whole number"},
		"a list of bits":         {`{"sanicap":[3],"oncs":8,"oacs":8}`, "sanicap is a list"},
		"true":                   {`{"sanicap":true,"oncs":8,"oacs":8}`, "sanicap is true"},
		"words":                  {`{"sanicap":"both\nof them","oncs":8,"oacs":8}`, `sanicap is "both\nof them": want a whole number`},
		"an empty string":        {`{"sanicap":"","oncs":8,"oacs":8}`, `sanicap is ""`},
		"a fraction":             {`{"sanicap":3.5,"oncs":8,"oacs":8}`, "sanicap is 3.5: want a whole number"},
		"too large":              {`{"sanicap":4294967296,"oncs":8,"oacs":8}`, "sanicap is 4294967296: it is too large"},
		"too large a hex":        {`{"sanicap":"0x100000000","oncs":8,"oacs":8}`, "it is too large"},
		"too large a float":      {`{"sanicap":1e300,"oncs":8,"oacs":8}`, "it is too large"},
		"more than any float":    {`{"sanicap":1e999999999,"oncs":8,"oacs":8}`, "want a whole number"},
		"too negative":           {`{"sanicap":-2147483649,"oncs":8,"oacs":8}`, "want a whole number"},
		"a negative half word":   {`{"sanicap":3,"oncs":-8,"oacs":8}`, "oncs is -8: want a whole number"},
		"oncs of 17 bits":        {`{"sanicap":3,"oncs":65544,"oacs":8}`, "oncs is 65544: it is too large"},
		"a serial of numbers":    {`{` + good + `,"sn":5}`, "sn is 5: want text"},
		"a capacity of words":    {`{` + good + `,"tnvmcap":"1 TB"}`, `tnvmcap is "1 TB"`},
		"a capacity of 65 bits":  {`{` + good + `,"tnvmcap":18446744073709551616}`, "it is too large"},
		"very long":              {`{"sanicap":"` + strings.Repeat("9", 100) + `","oncs":8,"oacs":8}`, "9…\": want a whole number"},
		"an error as JSON":       {`{"error":"Permission denied"}`, `sanicap is missing; its error is "Permission denied"`},
		"more than is read":      {whole + strings.Repeat(" ", nvmecli.MaxOutput), "more than 1048576 bytes"},
		"too many false starts":  {strings.Repeat("{no\n", 16) + whole, "no JSON object"},
		"nested without an end":  {strings.Repeat(`{"a":`, 20000), "no JSON object"},
		"the device's, not ours": {`{"nvme0":{` + good + `}}`, "sanicap is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nvmecli.ParseController([]byte(tt.text))
			refused(t, tt.want, got, err)
			require.True(t, strings.HasPrefix(err.Error(), "nvme id-ctrl: "), err.Error())
		})
	}
}

func TestHealthInEveryForm(t *testing.T) {
	for file, want := range map[string]nvmecli.Health{
		"smart-log-qemu-2.3.json": {Kelvin: 323, DataUnitsRead: 1, ReadCommands: 4},
		"smart-log-2.11-object-critical-warning.json": {
			AvailableSpare: 100, SpareThreshold: 10, PercentUsed: 2, Kelvin: 328, DataUnitsRead: 21331123, DataUnitsWritten: 129415397,
			ReadCommands: 342132364, WriteCommands: 2576184016, BusyMinutes: 7856, PowerCycles: 683, PowerOnHours: 12993,
			UnsafeShutdowns: 97, Errors: 1860,
		},
		"smart-log-generic-2.8.json": {
			AvailableSpare: 100, SpareThreshold: 10, Kelvin: 308, DataUnitsRead: 9486678, DataUnitsWritten: 8437019,
			ReadCommands: 103027886, WriteCommands: 64802657, BusyMinutes: 388, PowerCycles: 22, PowerOnHours: 393, UnsafeShutdowns: 14,
		},
	} {
		t.Run(file, func(t *testing.T) {
			got, err := nvmecli.ParseHealth(sample(t, file))
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	unnamed, err := nvmecli.ParseController([]byte(`{"sanicap":0,"oncs":0,"oacs":0,"sn":null,"mn":"\u0000 A B \u0000"}`))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Controller{Model: "A B"}, unnamed)
	base := `"avail_spare":100,"spare_thresh":10,"percent_used":255,"power_cycles":null`
	for warning, want := range map[string]uint8{
		`0`: 0, `5`: 5, `"0x24"`: 0x24, `"8"`: 8, `{"value":9,"available_spare":1}`: 9, `{"value":"0x10"}`: 16,
	} {
		got, err := nvmecli.ParseHealth([]byte(`{"critical_warning":` + warning + `,` + base + `}`))
		require.NoError(t, err, warning)
		require.Equal(t, want, got.CriticalWarning)
		require.Equal(t, uint8(255), got.PercentUsed)
	}
	huge, err := nvmecli.ParseHealth([]byte(`{"critical_warning":0,` + base + `,"media_errors":"340282366920938463463374607431768211455","power_on_hours":1e30}`))
	require.NoError(t, err)
	require.Equal(t, uint64(math.MaxUint64), huge.MediaErrors, "128 bits become at least the largest number")
	require.Equal(t, uint64(math.MaxUint64), huge.PowerOnHours)
	for text, want := range map[string]string{
		`{` + base + `}`: "critical_warning is missing",
		`{"critical_warning":{"available_spare":1},` + base + `}`:                      "critical_warning has no value",
		`{"critical_warning":256,` + base + `}`:                                        "critical_warning is 256: it is too large",
		`{"critical_warning":[],` + base + `}`:                                         "critical_warning is a list",
		`{"critical_warning":0,"avail_spare":100,"spare_thresh":10}`:                   "percent_used is missing",
		`{"critical_warning":0,"avail_spare":100,"percent_used":0}`:                    "spare_thresh is missing",
		`{"critical_warning":0,"spare_thresh":10,"percent_used":0}`:                    "avail_spare is missing",
		`{"critical_warning":0,` + base + `,"media_errors":"none"}`:                    `media_errors is "none"`,
		`{"critical_warning":0,"avail_spare":300,"spare_thresh":10,"percent_used":-1}`: "avail_spare is 300",
	} {
		got, err := nvmecli.ParseHealth([]byte(text))
		refused(t, want, got, err)
	}
}

// F20
func TestFirmwareSlots(t *testing.T) {
	got, err := nvmecli.ParseFirmware(sample(t, "fw-log-qemu-2.3.json"))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Firmware{Active: 1, Revisions: map[int]string{1: "1.0"}}, got)
	for text, want := range map[string]nvmecli.Firmware{
		`{"nvme0":{"Active Firmware Slot (afi)":33}}`:                                                      {Active: 1, Next: 2, Revisions: map[int]string{}},
		`{"Active Firmware Slot (afi)":"0x79"}`:                                                            {Active: 1, Next: 7, Revisions: map[int]string{}},
		`{"n":{"Active Firmware Slot (afi)":2,"Firmware Rev Slot 2":"3546358361420350003 (3B2QGXA1)"}}`:    {Active: 2, Revisions: map[int]string{2: "3B2QGX71"}},
		`{"n":{"Active Firmware Slot (afi)":2,"Firmware Rev Slot 7":2314885530819505713,"Something":"x"}}`: {Active: 2, Revisions: map[int]string{7: "1.0"}},
	} {
		got, err := nvmecli.ParseFirmware([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want.Active, got.Active)
		require.Equal(t, want.Next, got.Next, "the slot that is staged for the next reset")
		require.Len(t, got.Revisions, len(want.Revisions))
	}
	for text, want := range map[string]string{
		`{"nvme0":{}}`: "Active Firmware Slot (afi) is missing",
		`{"a":{"Active Firmware Slot (afi)":1},"b":{"Active Firmware Slot (afi)":1}}`:   "more than one device",
		`{"nvme0":{"Active Firmware Slot (afi)":1,"Firmware Rev Slot 8":"1 (x)"}}`:      `there is no slot "8"`,
		`{"nvme0":{"Active Firmware Slot (afi)":1,"Firmware Rev Slot 1":"3B2QGXA7"}}`:   `Firmware Rev Slot 1 is "3B2QGXA7"`,
		`{"nvme0":{"Active Firmware Slot (afi)":1,"Firmware Rev Slot 0":"1 (x)"}}`:      `there is no slot "0"`,
		`{"nvme0":{"Active Firmware Slot (afi)":256,"Firmware Rev Slot 1":"1 (x)"}}`:    "it is too large",
		`{"nvme0":{"Active Firmware Slot (afi)":1,"Firmware Rev Slot one":"1 (x)"}}`:    `there is no slot "one"`,
		`{"nvme0":"Active Firmware Slot (afi)"}`:                                        "is missing",
		`{"nvme0":{"Active Firmware Slot (afi)":null,"Firmware Rev Slot 1":"1 (....)"}`: "ends unexpectedly",
	} {
		got, err := nvmecli.ParseFirmware([]byte(text))
		refused(t, want, got, err)
	}
}

// S2.3
func TestVersion(t *testing.T) {
	for text, want := range map[string]nvmecli.Version{
		string(sample(t, "version-2.3.txt")):                               {Major: 2, Minor: 3, Text: "2.3"},
		"nvme version 1.16\n":                                              {Major: 1, Minor: 16, Text: "1.16"},
		"nvme version 2.10.2 (git 2.10.2)":                                 {Major: 2, Minor: 10, Text: "2.10.2"},
		"nvme version 3.0-rc.1 (git v3.0-rc.1-5-gab)":                      {Major: 3, Minor: 0, Text: "3.0-rc.1"},
		"WARNING: x\nnvme version 2.11\nlibnvme version 1.11 (git 1.11)\n": {Major: 2, Minor: 11, Text: "2.11"},
	} {
		got, err := nvmecli.ParseVersion([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, got.Check())
	}
	for _, old := range []string{"1.15", "1.9", "0.99", "1.2"} {
		got, err := nvmecli.ParseVersion([]byte("nvme version " + old))
		require.NoError(t, err)
		fault, ok := device.AsFault(got.Check())
		require.True(t, ok)
		require.Equal(t, device.CodeToolTooOld, fault.Code)
		require.Equal(t, "nvme-cli is version "+old+", and 1.16 or later is needed", fault.Message)
	}
	for _, text := range []string{"", "libnvme version 1.3 (git 1.3)", "nvme version", "nvme version two", "my nvme version 2.3", strings.Repeat("x", 2<<20)} {
		got, err := nvmecli.ParseVersion([]byte(text))
		refused(t, "nvme version: ", got, err)
	}
}

func TestCommittedFirmwareByItsReset(t *testing.T) {
	const text = "Success activating firmware action:1 slot:2, but firmware requires %s reset\n"
	for reset, want := range map[string]nvmecli.Status{
		"conventional": nvmecli.StatusNeedsReset, "subsystem": nvmecli.StatusNeedsSubsystemReset, "any controller": nvmecli.StatusNeedsControllerReset,
	} {
		got, ok := nvmecli.ParseCommitted(fmt.Appendf([]byte("Multiple Update Detected (MUD) Value: 0\n"), text, reset))
		require.True(t, ok, reset)
		require.Equal(t, want, got)
	}
	for _, other := range []string{"", "Success committing firmware action:1 slot:2\n", fmt.Sprintf(text, "another")} {
		_, ok := nvmecli.ParseCommitted([]byte(other))
		require.False(t, ok, other)
	}
}

func TestStatusByItsHexAlone(t *testing.T) {
	for text, want := range map[string]nvmecli.Status{
		"NVMe status: Sanitize In Progress: The requested function is prohibited while a sanitize operation is in progress(0x401d)": nvmecli.StatusSanitizeInProgress,
		"NVMe status: Sanitize Failed: The most recent(0x1c)\n":                                                                     nvmecli.StatusSanitizeFailed,
		"NVMe status: INVALID_OPCODE: The associated command opcode field is not valid(0x2001)":                                     nvmecli.StatusInvalidOpcode,
		"NVMe status: Firmware Activation: needs a reset(0x10b)\nMultiple Update Detected (MUD) Value: 0\n":                         nvmecli.StatusNeedsReset,
		"warning\nNVMe status: Something (0x2) of another kind(0x4118)":                                                             nvmecli.StatusAlreadyAttached,
		"NVMe status: in words that say Sanitize In Progress(0x6)":                                                                  nvmecli.StatusInternal,
	} {
		got, ok := nvmecli.ParseStatus([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "/dev/nvme9: No such file or directory", "Invalid size:3 for f/w image", "NVMe status: no hex", "sanitize: Permission denied(0x1d)"} {
		_, ok := nvmecli.ParseStatus([]byte(text))
		require.False(t, ok, text)
	}
}

// Estimates are in seconds, or unknown.
func TestEstimates(t *testing.T) {
	l, err := nvmecli.ParseSanitizeLog(sample(t, "sanitize-log-2.3-runs.json"))
	require.NoError(t, err)
	require.Equal(t, 3*time.Second, l.BlockErase)
	require.Equal(t, 3*time.Second, l.CryptoErase)
	for _, unknown := range []time.Duration{l.Overwrite, l.OverwriteNoDealloc, l.BlockEraseNoDealloc, l.CryptoEraseNoDealloc} {
		require.Equal(t, nvmecli.NoEstimate, unknown)
	}
}

// A device's text is one line, because it appears in logs and tables.
func TestTextIsOneLine(t *testing.T) {
	c, err := nvmecli.ParseController([]byte(`{"sanicap":0,"oncs":0,"oacs":0,"sn":" A\nB\u001b ","mn":"M\u0085\ufffd\u0000"}`))
	require.NoError(t, err)
	require.Equal(t, "A?B?", c.Serial)
	require.Equal(t, "M??", c.Model)
	f, err := nvmecli.ParseFirmware([]byte(`{"Active Firmware Slot (afi)":1,"Firmware Rev Slot 1":"0x200a41"}`))
	require.NoError(t, err)
	require.Equal(t, "A?", f.Revisions[1])
	v, err := nvmecli.ParseVersion([]byte("nvme version 2.3\x1b[2J"))
	require.NoError(t, err)
	require.Equal(t, "2.3", v.Text)
}

// A slot that appears twice, in two spellings, is refused: the last one read would count.
//
// F20
func TestFirmwareSlotsHaveOneName(t *testing.T) {
	for _, name := range []string{"01", "+1", "8", "0", ""} {
		got, err := nvmecli.ParseFirmware([]byte(`{"Active Firmware Slot (afi)":1,"Firmware Rev Slot ` + name + `":1}`))
		refused(t, "there is no slot", got, err)
	}
}

// F20
func TestHostMetadata(t *testing.T) {
	for name, tt := range map[string]struct {
		output string
		want   []uint8
		bad    string
	}{
		"none":                   {"\x00\x00", nil, ""},
		"two, one of them twice": {"\x03\x00\x09\x01\x02\x00ab\x01\x00\x00\x00\x09\x00\x00\x00rest", []uint8{1, 9}, ""},
		"reserved bits":          {"\x01\x00\xc1\xf0\x00\x00", []uint8{1}, ""},
		"nothing":                {"", nil, "0 bytes are not host metadata"},
		"one byte":               {"\x00", nil, "1 bytes are not host metadata"},
		"no descriptor":          {"\x01\x00\x01\x00\x00", nil, "cut short"},
		"a value cut short":      {"\x01\x00\x01\x00\x03\x00ab", nil, "cut short"},
		"a value of 64 KiB":      {"\x01\x00\x01\x00\xff\xffab", nil, "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nvmecli.ParseHostMetadata([]byte(tt.output))
			if tt.bad != "" {
				refused(t, tt.bad, got, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// A Level 0 Discovery with a length of zero and bytes after it does not prove a drive without
// locks.
func TestLevel0WithoutALength(t *testing.T) {
	answer := make([]byte, 512)
	got, err := nvmecli.ParseLevel0(answer)
	require.NoError(t, err)
	require.Zero(t, got)
	copy(answer[48:], []byte{0, 2, 0x10, 12, 0x07})
	got, err = nvmecli.ParseLevel0(answer)
	refused(t, "a Level 0 Discovery of 4 bytes in 512", got, err)
}

// The command set is found behind other descriptors; a list without one, or with nothing, is of
// the NVM command set, and one that is cut short proves nothing.
//
// F17
func TestCommandSetOfANamespace(t *testing.T) {
	nguid := append([]byte{2, 16, 0, 0}, make([]byte, 16)...)
	for name, tt := range map[string]struct {
		output []byte
		want   uint8
		says   string
	}{
		"zoned":           {append(bytes.Clone(nguid), 4, 1, 0, 0, 2, 0, 0, 0, 0), 2, ""},
		"NVM":             {append(bytes.Clone(nguid), 4, 1, 0, 0, 0), 0, ""},
		"not reported":    {append(bytes.Clone(nguid), make([]byte, 100)...), 0, ""},
		"nothing":         {make([]byte, 4096), 0, ""},
		"cut short":       {nguid[:10], 0, "cut short"},
		"without a value": {[]byte{4, 0, 0, 0, 2}, 0, "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nvmecli.ParseCommandSet(tt.output)
			if tt.says != "" {
				refused(t, tt.says, got, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

// Ownership is known only where the drive reports it.
//
// F20
func TestOpalOwnership(t *testing.T) {
	answer := func(features ...byte) []byte {
		return append(append([]byte{0, 0, 0, byte(44 + len(features))}, make([]byte, 44)...), features...)
	}
	got, err := nvmecli.ParseLevel0(answer(0, 2, 0x10, 1, 0x01, 4, 2, 0x10, 2, 0x01, 0))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Locking{Supported: true, Owned: true, OwnerKnown: true}, got)
	got, err = nvmecli.ParseLevel0(answer(4, 2, 0x10, 2, 0x02, 0, 0, 2, 0x10, 1, 0x01))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Locking{Supported: true, OwnerKnown: true}, got, "the SID is blocked, and has no owner")
	got, err = nvmecli.ParseLevel0(answer(4, 2, 0x10, 0))
	refused(t, "the feature 0x0402 is empty", got, err)
}
