package nvmecli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware/nvme/nvmecli"
)

// For any output of a tool: no parser panics or takes long; an error is a fault of one line
// with an empty result; a second parse gives the same result; and the result is as the doc
// comment promises. A normal run tries only the seeds; `make soak` continues from them.

// patience is how long the parse of a few KiB may take on a busy machine. It detects a parse
// that never ends.
const patience = 10 * time.Second

// parsed parses output twice and returns the result, false if it was refused.
func parsed[T any](t *testing.T, parse func([]byte) (T, error), output []byte) (T, bool) {
	t.Helper()
	began := time.Now()
	got, err := parse(slices.Clone(output))
	again, errAgain := parse(output)
	require.Less(t, time.Since(began), patience)
	require.Equal(t, got, again)
	require.Equal(t, err == nil, errAgain == nil)
	oneFault(t, err)
	if err != nil {
		require.Empty(t, got, "a fault comes with an empty result")
	}
	return got, err == nil
}

func oneFault(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	fault, ok := device.AsFault(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, device.CodeToolOutputInvalid, fault.Code)
	require.Equal(t, device.Permanent, fault.Class)
	require.NotEmpty(t, fault.Remedy)
	line(t, err.Error(), fault.Message, fault.Remedy)
	require.Less(t, len(err.Error()), 1000)
}

// line requires text that fits in one line of a terminal or a table.
func line(t *testing.T, all ...string) {
	t.Helper()
	for _, text := range all {
		require.Equal(t, -1, strings.IndexFunc(text, unicode.IsControl), "%q", text)
	}
}

// FuzzParsers gives the same bytes to every parser: samples, pages of each byte, and texts.
func FuzzParsers(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(text)
	}
	for _, size := range []int{0, 1, nvmecli.LogSize, nvmecli.IdentifySize} {
		for _, b := range []byte{0, 1, 0x21, 0xff} {
			f.Add(bytes.Repeat([]byte{b}, size))
		}
	}
	level0 := func(length byte, features ...byte) string {
		return string(append(append([]byte{0, 0, 0, length}, make([]byte, 44)...), features...))
	}
	for _, text := range []string{
		"{", "{}", "{\n{", `{"error":"a\nb"}`,
		`{"sanicap":-1,"oncs":1,"oacs":1e9}`, `{"sanicap":0,"oncs":8,"oacs":15,"sn":" a\u0000"}`,
		string(namespace(1, 9, 12)), string(namespace(0, 30)), string(list(2, 1)), string(list(1, 1)),
		"NVMe command result:00000003\n", "Success and result: 0xffffffff\n", "result: 0x",
		"nvme version 9999.9999", "nvme version 1.16\x1b[2J", "nvme version 99999.1",
		"a\nnvme version 3.0-rc.1\nlibnvme version 1.2",
		"NVMe status: x(0xffffffff)", "NVMe status: Sanitize In Progress: (0x1) really(0x401d)\n", "NVMe status: (0x)",
		level0(0), level0(44), level0(60, 0, 2, 0x10, 12, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
		level0(48, 0, 2, 0x10, 0), level0(48, 0, 1, 0x10, 255),
		"\x00\x00", "\x02\x00\x01\x00\x02\x00ab\x3f\x00\x00\x00", "\x01\x00\x01\x00\xff\xff", "\xff\x00",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		saved, ok := parsed(t, nvmecli.ParseSaved, data)
		line(t, saved.Serial)
		require.Equal(t, ok && saved.SANICAP&1 != 0, saved.Capabilities().CryptoErase)

		c, _ := parsed(t, nvmecli.ParseController, data)
		line(t, c.Serial, c.Model, c.Firmware, c.Subsystem)
		require.Equal(t, strings.TrimSpace(c.Serial), c.Serial)

		if n, ok := parsed(t, nvmecli.ParseNamespace, data); ok {
			size, err := n.Bytes()
			oneFault(t, err)
			require.Equal(t, err == nil && n.Blocks > 0, size > 0)
			require.True(t, size == 0 || n.Blocks == uint64(size/n.Formats[n.Format].BlockSize))
			for _, one := range n.Formats {
				require.True(t, one.BlockSize == 0 || one.BlockSize >= 512 && one.BlockSize&(one.BlockSize-1) == 0)
			}
		}
		if ids, ok := parsed(t, nvmecli.ParseNamespaceList, data); ok {
			require.NotNil(t, ids)
			require.Less(t, len(ids), 1024)
			for i, id := range ids {
				require.True(t, id != 0 && id != 0xffffffff && (i == 0 || id > ids[i-1]), "%v", ids)
			}
		}
		if ids, ok := parsed(t, nvmecli.ParseControllerList, data); ok {
			require.NotNil(t, ids)
			require.Less(t, len(ids), 2047)
		}
		l, ok := parsed(t, nvmecli.ParseSanitizeLog, data)
		require.True(t, ok || l.Status == nvmecli.NeverSanitized && !l.GlobalErased)
		require.LessOrEqual(t, l.Status, nvmecli.SanitizeDoneNoDealloc)
		for _, estimate := range []time.Duration{l.BlockErase, l.CryptoErase} {
			require.True(t, estimate == nvmecli.NoEstimate || estimate >= 0 && estimate < 1<<32*time.Second)
		}
		parsed(t, nvmecli.ParseHealth, data)
		parsed(t, nvmecli.ParseResult, data)
		parsed(t, nvmecli.ParseCommandSet, data)

		firmware, ok := parsed(t, nvmecli.ParseFirmware, data)
		require.True(t, firmware.Active >= 0 && firmware.Active <= 7 && firmware.Next >= 0 && firmware.Next <= 7)
		require.Equal(t, ok, firmware.Revisions != nil)
		for number, revision := range firmware.Revisions {
			require.True(t, number >= 1 && number <= 7 && revision != "")
			line(t, revision)
		}
		v, ok := parsed(t, nvmecli.ParseVersion, data)
		line(t, v.Text)
		if err := v.Check(); ok && err != nil {
			fault, _ := device.AsFault(err)
			require.Equal(t, device.CodeToolTooOld, fault.Code)
			line(t, err.Error())
		}
		status, ok := nvmecli.ParseStatus(data)
		require.True(t, ok || status == 0)
		require.LessOrEqual(t, status, nvmecli.Status(0x7ff))

		if _, ok := parsed(t, nvmecli.ParseLevel0, data); ok {
			require.GreaterOrEqual(t, len(data), 48)
			noLength := data[0]|data[1]|data[2]|data[3] == 0
			require.False(t, noLength && strings.Trim(string(data), "\x00") != "", "a length of zero, and bytes after it")
		}
		if types, ok := parsed(t, nvmecli.ParseHostMetadata, data); ok {
			require.True(t, slices.IsSorted(types))
			require.LessOrEqual(t, len(types), min(int(data[0]), 64))
			require.GreaterOrEqual(t, len(data), 2+4*int(data[0]))
		}
	})
}
