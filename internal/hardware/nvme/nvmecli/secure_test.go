package nvmecli_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/nvmecli"
)

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
		"nothing":                {"", nil, "it has 0 bytes"},
		"one byte":               {"\x00", nil, "it has 1 bytes"},
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
	refused(t, "it says that it has 4 bytes, and has 512", got, err)
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
