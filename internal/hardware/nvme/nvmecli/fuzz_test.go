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

// FuzzParse feeds any output to every parser: none may panic, an error is a fault of
// one line, and what is read keeps what its doc comment promises. A normal run tries
// the samples alone.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	require.NoError(f, err)
	require.Greater(f, len(files), 10)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
	for _, text := range []string{
		"", "{", "{}", "null", `{"sanicap":-1,"oncs":"0x","oacs":1e9}`, `{"nvme0":{"sprog":1,"sstat":{"a":"(9) "},"cdw10_info":-1}}`,
		`{"nsid_list":[{}]}`, `{"nsze":1,"ncap":1,"flbas":255,"lbafs":[{"ms":0,"ds":9}]}`, "NVMe status: x(0xffffffff)", "nvme version 9999.9999",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		checked := func(err error) bool {
			if err == nil {
				return true
			}
			fault, ok := device.AsFault(err)
			require.True(t, ok)
			require.Equal(t, device.CodeToolOutput, fault.Code)
			require.False(t, strings.ContainsAny(err.Error(), "\n\r"), "%q", err.Error())
			require.Less(t, len(err.Error()), 1000)
			return false
		}
		c, err := nvmecli.ParseController(output)
		if !checked(err) {
			require.Empty(t, c)
		}
		n, err := nvmecli.ParseNamespace(output)
		if checked(err) {
			size, err := n.Bytes()
			require.True(t, checked(err) && size >= 0 || err != nil)
		}
		ids, err := nvmecli.ParseNamespaceList(output)
		if checked(err) {
			require.NotNil(t, ids)
			for i, id := range ids {
				require.True(t, id != 0 && (i == 0 || id > ids[i-1]))
			}
		}
		l, err := nvmecli.ParseSanitizeLog(output)
		if !checked(err) {
			require.False(t, l.Done() || l.Running() || l.GlobalErased)
		}
		require.LessOrEqual(t, l.Status, nvmecli.SanitizeDoneNoFree)
		_, err = nvmecli.ParseHealth(output)
		checked(err)
		_, err = nvmecli.ParseFirmware(output)
		checked(err)
		_, err = nvmecli.ParseVersion(output)
		checked(err)
		status, ok := nvmecli.ParseStatus(output)
		require.True(t, ok || status == 0)
		require.LessOrEqual(t, status, nvmecli.Status(0x7ff))
	})
}
