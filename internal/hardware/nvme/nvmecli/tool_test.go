package nvmecli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware/nvme/nvmecli"
)

// sample is real output.
func sample(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return text
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]nvmecli.Version{
		string(sample(t, "version-2.3.txt")):                               {Major: 2, Minor: 3, Text: "2.3"},
		"nvme version 1.12\n":                                              {Major: 1, Minor: 12, Text: "1.12"},
		"nvme version 2.10.2 (git 2.10.2)":                                 {Major: 2, Minor: 10, Text: "2.10.2"},
		"nvme version 3.0-rc.1 (git v3.0-rc.1-5-gab)":                      {Major: 3, Minor: 0, Text: "3.0-rc.1"},
		"WARNING: x\nnvme version 2.11\nlibnvme version 1.11 (git 1.11)\n": {Major: 2, Minor: 11, Text: "2.11"},
	} {
		got, err := nvmecli.ParseVersion([]byte(text))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, got.Check())
		require.Equal(t, got.Text != "2.3" && got.Text != "1.12", got.Untried())
	}
	for _, old := range []string{"1.11", "1.9", "0.99", "1.2"} {
		got, err := nvmecli.ParseVersion([]byte("nvme version " + old))
		require.NoError(t, err)
		fault, ok := device.AsFault(got.Check())
		require.True(t, ok)
		require.Equal(t, device.CodeToolTooOld, fault.Code)
		require.Equal(t, "nvme-cli is version "+old+", and 1.12 or later is needed", fault.Message)
	}
	for _, text := range []string{"", "libnvme version 1.3 (git 1.3)", "nvme version", "nvme version two",
		"my nvme version 2.3", strings.Repeat("x", 2<<20)} {
		got, err := nvmecli.ParseVersion([]byte(text))
		refused(t, "nvme version: ", got, err)
	}
}

func TestStatusByItsNumberAlone(t *testing.T) {
	for text, want := range map[string]nvmecli.Status{
		`{"status: 29":[{"error":"a sanitize is under way"}]}`:                                                                      nvmecli.StatusSanitizeInProgress,
		"NVMe status: Sanitize In Progress: The requested function is prohibited while a sanitize operation is in progress(0x401d)": nvmecli.StatusSanitizeInProgress,
		"NVMe status: Sanitize Failed: The most recent(0x1c)\n":                                                                     nvmecli.StatusSanitizeFailed,
		"NVMe status: INVALID_OPCODE: The associated command opcode field is not valid(0x2001)":                                     nvmecli.StatusInvalidOpcode,
		"NVMe status: Firmware Activation: needs a reset(0x10b)\nMultiple Update Detected (MUD) Value: 0\n":                         nvmecli.StatusNeedsReset,
		"warning\nNVMe status: Something (0x2) of another kind(0x4118)":                                                             0x118,
		"NVMe status: in words that say Sanitize In Progress(0x6)":                                                                  6,
	} {
		got, ok := nvmecli.ParseStatus([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "/dev/nvme9: No such file or directory", "Invalid size:3 for f/w image",
		"NVMe status: no hex", "sanitize: Permission denied(0x1d)",
		`{"error":"Permission denied","type":"nvme"}`, `{"status: x":[]}`, `{"status: 99999999999":[]}`} {
		_, ok := nvmecli.ParseStatus([]byte(text))
		require.False(t, ok, text)
	}
}

// The bytes that a drive returned are the last that nvme prints; fewer are none.
func TestReceivedBytes(t *testing.T) {
	c := nvmecli.Command{Opcode: 6, Receives: 4}
	for _, text := range []string{"abcd", "IO success\nabcd"} {
		got, err := c.Received([]byte(text))
		require.NoError(t, err)
		require.Equal(t, "abcd", string(got))
	}
	for text, want := range map[string]string{
		"": "0 bytes of output instead of 4", "\x00\x1b": `"??"`, strings.Repeat("x", nvmecli.MaxOutput+1): "65537 bytes",
	} {
		got, err := c.Received([]byte(text))
		refused(t, want, got, err)
	}
}

// Each version's words around dword 0 of a completion.
func TestResult(t *testing.T) {
	for text, want := range map[string]uint32{
		"NVMe command result:00000003\n":                                    3, // 1.12
		"Admin Command Get Features is Success and result: 0x0000000a\n":    10,
		"warning\nAdmin Command X is Success and result: 0xffffffff\r\nend": 0xffffffff,
	} {
		got, err := nvmecli.ParseResult([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "result:", "result: none", "result: 0x1 of 2", "result: 0x123456789"} {
		got, err := nvmecli.ParseResult([]byte(text))
		refused(t, "no result in", got, err)
	}
}

// What an operator saved is read with what stands around it, and no register is guessed.
func TestSavedOutput(t *testing.T) {
	for file, want := range map[string]nvmecli.Controller{
		"id-ctrl-qemu-2.3.json":              {Serial: "HWTEST0001", OACS: 266, ONCS: 349},
		"id-ctrl-samsung-980pro.json":        {Serial: "S5P2NG0R824326R", OACS: 23, ONCS: 87},
		"id-ctrl-solidigm-sbfpf2bu153t.json": {OACS: 94, ONCS: 94, SANICAP: 0x60000003},
	} {
		text := string(sample(t, file))
		for around, output := range map[string]string{
			"nothing":                    text,
			"a warning":                  "WARNING: {this} alias is deprecated\n" + text,
			"lines":                      "a\n{oops\n\n" + text + "\n{}",
			"the lines' ends of Windows": strings.ReplaceAll("warning\n"+text, "\n", "\r\n"),
		} {
			got, err := nvmecli.ParseSaved([]byte(output))
			require.NoError(t, err, around)
			require.Equal(t, want, got, around)
		}
	}
	signed, err := nvmecli.ParseSaved([]byte(`{"sanicap":-1610612733,"oncs":0,"oacs":0,"sn":" A\n"}`))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Controller{Serial: "A", SANICAP: 0xa0000003}, signed, "versions 2.1 to 2.3")
	whole := string(sample(t, "id-ctrl-qemu-2.3.json"))
	for text, want := range map[string]string{
		"":                         "no whole JSON object",
		"/dev/nvme9: No such file": "no whole JSON object",
		`[1]`:                      "no whole JSON object",
		whole[:len(whole)-20]:      "no whole JSON object",
		strings.Repeat(" ", nvmecli.MaxOutput) + whole: "more than 65536 bytes",
		`{"error":"Permission\ndenied"}`:               `missing; its error is "Permission denied"`,
		`{"oncs":8,"oacs":8}`:                          "sanicap is missing",
		`{"sanicap":3,"oncs":null,"oacs":8}`:           "oncs is missing",
		`{"sanicap":{"value":3},"oncs":8,"oacs":8}`:    "sanicap is not a whole number",
		`{"sanicap":4294967296,"oncs":8,"oacs":8}`:     "sanicap is not a whole number of 32 bits",
		`{"sanicap":3.5,"oncs":8,"oacs":8}`:            "not a whole",
		`{"sanicap":3,"oncs":-8,"oacs":8}`:             "oncs is not a whole number of 16 bits",
		`{"sanicap":3,"oncs":65544,"oacs":8}`:          "oncs is not a whole",
		`{"sanicap":"both","oncs":8,"oacs":8}`:         "sanicap is not a whole number",
		`{"nvme0":{"sanicap":3,"oncs":8,"oacs":8}}`:    "is missing",
	} {
		got, err := nvmecli.ParseSaved([]byte(text))
		refused(t, want, got, err)
	}
}
