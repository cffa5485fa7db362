package nvmecli_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware/nvme/nvmecli"
)

// field is a number, of its own size, or a text, at an offset of a data structure.
type field struct {
	at    int
	value any
}

// page is a data structure of this size with these fields.
func page(size int, fields ...field) []byte {
	p := make([]byte, size)
	for _, f := range fields {
		switch v := f.value.(type) {
		case uint8:
			p[f.at] = v
		case uint16:
			binary.LittleEndian.PutUint16(p[f.at:], v)
		case uint32:
			binary.LittleEndian.PutUint32(p[f.at:], v)
		case uint64:
			binary.LittleEndian.PutUint64(p[f.at:], v)
		case string:
			copy(p[f.at:], v)
		default:
			panic("a field has another type")
		}
	}
	return p
}

func identified(fields ...field) []byte { return page(nvmecli.IdentifySize, fields...) }

func logged(fields ...field) []byte { return page(nvmecli.LogSize, fields...) }

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

// refusesOtherSizes requires a fault for a structure that is not whole.
func refusesOtherSizes[T any](t *testing.T, parse func([]byte) (T, error), size int) {
	t.Helper()
	for _, wrong := range []int{0, 1, size - 1, size + 1} {
		got, err := parse(make([]byte, wrong))
		refused(t, "bytes instead of", got, err)
	}
}

// S2.10
func TestController(t *testing.T) {
	// The registers of a Solidigm SBFPF2BU153T, with other names.
	got, err := nvmecli.ParseController(identified(
		field{4, "SERIAL \x1bNUMBER       "}, field{24, "SOLIDIGM SBFPF2BU153T" + "                    "},
		field{64, "6CV10100"}, field{76, uint8(2)}, field{78, uint16(513)}, field{256, uint16(94)}, field{260, uint8(24)},
		field{280, uint64(15362991415296)}, field{296, uint64(4096)}, field{319, uint8(1)}, field{328, uint32(0x60000003)},
		field{520, uint16(95)}, field{768, "nqn.2023-01.com.example:drive"},
	))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Controller{
		Serial: "SERIAL ?NUMBER", Model: "SOLIDIGM SBFPF2BU153T", Firmware: "6CV10100", CMIC: 2, ID: 513,
		OACS: 94, FirmwareSlots: 24, Capacity: 15362991415296, Unallocated: 4096, FirmwareUnit: 1, SANICAP: 0x60000003,
		ONCS: 95, Subsystem: "nqn.2023-01.com.example:drive",
	}, got)
	huge, err := nvmecli.ParseController(identified(field{288, uint8(1)}, field{304, uint8(1)}))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Controller{Capacity: math.MaxUint64, Unallocated: math.MaxUint64}, huge)
	refusesOtherSizes(t, nvmecli.ParseController, nvmecli.IdentifySize)
}

// S2.11, S2.12, S2.13, S2.14
func TestCapabilities(t *testing.T) {
	for name, tt := range map[string]struct {
		registers nvmecli.Controller
		want      device.Capabilities
	}{
		"none":                       {nvmecli.Controller{}, device.Capabilities{}},
		"SANICAP bit 0":              {nvmecli.Controller{SANICAP: 1}, device.Capabilities{CryptoErase: true}},
		"SANICAP bit 1":              {nvmecli.Controller{SANICAP: 2}, device.Capabilities{BlockErase: true}},
		"SANICAP bit 2 is overwrite": {nvmecli.Controller{SANICAP: 4}, device.Capabilities{}},
		"high bits of SANICAP":       {nvmecli.Controller{SANICAP: 0xa0000003}, device.Capabilities{CryptoErase: true, BlockErase: true}},
		"ONCS bit 3":                 {nvmecli.Controller{ONCS: 8}, device.Capabilities{WriteZeroes: true}},
		"ONCS without bit 3":         {nvmecli.Controller{ONCS: 0xfff7}, device.Capabilities{}},
		"OACS bit 3":                 {nvmecli.Controller{OACS: 8}, device.Capabilities{ManageNamespaces: true}},
		"OACS without bit 3":         {nvmecli.Controller{OACS: 0xfff7}, device.Capabilities{}},
	} {
		require.Equal(t, tt.want, tt.registers.Capabilities(), name)
	}
}

func TestHealth(t *testing.T) {
	got, err := nvmecli.ParseHealth(logged(
		field{0, uint8(0x24)}, field{3, uint8(99)}, field{4, uint8(10)}, field{5, uint8(255)}, field{128, uint64(12993)}))
	require.NoError(t, err)
	want := nvmecli.Health{CriticalWarning: 0x24, AvailableSpare: 99, SpareThreshold: 10, PercentUsed: 255,
		PowerOnHours: 12993}
	require.Equal(t, want, got)
	got, err = nvmecli.ParseHealth(logged(field{136, uint8(1)}))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Health{PowerOnHours: math.MaxUint64}, got, "a counter has 128 bits")
	refusesOtherSizes(t, nvmecli.ParseHealth, nvmecli.LogSize)
}

// F20
func TestFirmwareSlots(t *testing.T) {
	for name, tt := range map[string]struct {
		log  []byte
		want nvmecli.Firmware
	}{
		"one":     {logged(field{0, uint8(1)}, field{8, "1.0     "}), nvmecli.Firmware{Active: 1, Revisions: map[int]string{1: "1.0"}}},
		"staged":  {logged(field{0, uint8(0x21)}), nvmecli.Firmware{Active: 1, Next: 2, Revisions: map[int]string{}}},
		"spare":   {logged(field{0, uint8(0x8a)}), nvmecli.Firmware{Active: 2, Revisions: map[int]string{}}},
		"seventh": {logged(field{0, uint8(7)}, field{56, "3B2Q\x1bXA7"}), nvmecli.Firmware{Active: 7, Revisions: map[int]string{7: "3B2Q?XA7"}}},
	} {
		got, err := nvmecli.ParseFirmware(tt.log)
		require.NoError(t, err, name)
		require.Equal(t, tt.want, got, name)
	}
	refusesOtherSizes(t, nvmecli.ParseFirmware, nvmecli.LogSize)
}

// F18
func TestSanitizeLog(t *testing.T) {
	estimates := []field{{12, uint32(90)}, {16, uint32(0xffffffff)}}
	for name, tt := range map[string]struct {
		status uint16
		want   nvmecli.SanitizeStatus
		erased bool
	}{
		"never":                                  {0, nvmecli.NeverSanitized, false},
		"done":                                   {1, nvmecli.SanitizeDone, false},
		"done, and nothing was written since":    {0x101, nvmecli.SanitizeDone, true},
		"runs":                                   {2, nvmecli.SanitizeInProgress, false},
		"runs, with a high bit":                  {0x102, nvmecli.SanitizeInProgress, true},
		"failed":                                 {3, nvmecli.SanitizeFailed, false},
		"done, and deallocated":                  {4, nvmecli.SanitizeDoneNoDealloc, false},
		"the passes of an overwrite are no part": {25, nvmecli.SanitizeDone, false},
		"failed after passes":                    {0xfb, nvmecli.SanitizeFailed, false},
		"bit 9, the verification was canceled, is no": {0x301, nvmecli.SanitizeDone, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nvmecli.ParseSanitizeLog(logged(append(estimates,
				field{0, uint16(22214)}, field{2, tt.status}, field{4, uint32(0x40c)}, field{36, uint8(0xd)})...))
			require.NoError(t, err)
			require.Equal(t, nvmecli.SanitizeLog{
				Progress: 22214, Status: tt.want, GlobalErased: tt.erased, CDW10: 0x40c,
				BlockErase: 90 * time.Second, CryptoErase: nvmecli.NoEstimate, State: 5,
			}, got)
		})
	}
	for _, undefined := range []uint16{5, 6, 7, 0x105} {
		got, err := nvmecli.ParseSanitizeLog(logged(field{2, undefined}))
		refused(t, "is not defined", got, err)
	}
	refusesOtherSizes(t, nvmecli.ParseSanitizeLog, nvmecli.LogSize)
}

// namespace is one of ten blocks with these formats, as powers of two, and this FLBAS.
func namespace(flbas uint8, shifts ...uint8) []byte {
	p := identified(field{0, uint64(10)}, field{8, uint64(10)}, field{25, uint8(len(shifts) - 1)}, field{26, flbas})
	for i, shift := range shifts {
		p[128+4*i+2] = shift
	}
	return p
}

// F17
func TestNamespace(t *testing.T) {
	got, err := nvmecli.ParseNamespace(identified(
		field{0, uint64(131072)}, field{25, uint8(1)}, field{26, uint8(1)},
		field{48, uint64(1 << 40)}, field{99, uint8(1)}, field{130, uint8(9)}, field{132, uint16(64)}, field{134, uint8(12)}))
	require.NoError(t, err)
	require.Equal(t, nvmecli.Namespace{
		Blocks: 131072, Allocated: 1 << 40, Format: 1, WriteProtected: true,
		Formats: []nvmecli.Format{{BlockSize: 512}, {BlockSize: 4096, Metadata: 64}},
	}, got)

	sixteen := bytes.Repeat([]byte{9}, 16)
	for name, tt := range map[string]struct {
		data   []byte
		bytes  int64
		format int
		want   string
	}{
		"4 KiB blocks":            {namespace(1, 9, 12), 40960, 1, ""},
		"bits 6:5 of the index":   {namespace(32, append(bytes.Clone(sixteen), 12)...), 40960, 16, ""},
		"6:5 with 16 formats":     {namespace(32, sixteen...), 5120, 0, ""},
		"bit 4 is not part of it": {namespace(17, 9, 12), 40960, 1, ""},
		"not active":              {identified(), 0, 0, ""},
		"the largest block":       {namespace(0, 30), 10 << 30, 0, ""},
		"blocks without a size":   {namespace(0, 0), 0, 0, "10 blocks without a size"},
		"less than 512 bytes":     {namespace(0, 8), 0, 0, "10 blocks without a size"},
		"more than can be":        {page(4096, field{0, uint64(math.MaxUint64)}, field{130, uint8(9)}), 0, 0, "more than any device"},
		"one block too many":      {page(4096, field{0, uint64(1) << 54}, field{130, uint8(9)}), 0, 0, "more than any device"},
		"the largest":             {page(4096, field{0, uint64(1)<<54 - 1}, field{130, uint8(9)}), 1<<63 - 512, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := nvmecli.ParseNamespace(tt.data)
			require.NoError(t, err)
			require.Equal(t, tt.format, n.Format)
			size, err := n.Bytes()
			if tt.want != "" {
				refused(t, tt.want, size, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.bytes, size)
		})
	}
	for want, data := range map[string][]byte{
		"it has format 2 of 1":  namespace(2, 9),
		"blocks of 2^31 bytes":  namespace(0, 31),
		"blocks of 2^255 bytes": namespace(0, 255),
		"it has 256 formats":    page(4096, field{25, uint8(255)}),
		"it has 65 formats":     page(4096, field{25, uint8(64)}),
	} {
		got, err := nvmecli.ParseNamespace(data)
		refused(t, want, got, err)
	}
	refusesOtherSizes(t, nvmecli.ParseNamespace, nvmecli.IdentifySize)
}

// list is a list of these namespaces.
func list(ids ...uint32) []byte {
	p := identified()
	for i, id := range ids {
		binary.LittleEndian.PutUint32(p[4*i:], id)
	}
	return p
}

// F17
func TestNamespaceList(t *testing.T) {
	for _, tt := range []struct{ given, want []uint32 }{
		{nil, []uint32{}}, {[]uint32{1, 2}, []uint32{1, 2}}, {[]uint32{7, 2}, []uint32{2, 7}}, {[]uint32{0xfffffffe}, []uint32{0xfffffffe}},
	} {
		got, err := nvmecli.ParseNamespaceList(list(tt.given...))
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
	full := make([]uint32, 1024)
	for i := range full {
		full[i] = uint32(i + 1)
	}
	for want, ids := range map[string][]uint32{
		"0xffffffff": {1, 0xffffffff}, "one twice": {3, 1, 3}, "it has 1024 namespaces, and there may be more": full,
	} {
		got, err := nvmecli.ParseNamespaceList(list(ids...))
		refused(t, want, got, err)
	}
	got, err := nvmecli.ParseNamespaceList(list(full[:1023]...))
	require.NoError(t, err)
	require.Len(t, got, 1023)
	refusesOtherSizes(t, nvmecli.ParseNamespaceList, nvmecli.IdentifySize)
}

func TestControllerList(t *testing.T) {
	got, err := nvmecli.ParseControllerList(identified(field{0, uint16(2)}, field{2, uint16(1)}, field{4, uint16(513)},
		field{6, uint16(9)}))
	require.NoError(t, err)
	require.Equal(t, []uint16{1, 513}, got)
	for _, count := range []uint16{2047, 2048, 0xffff} {
		got, err := nvmecli.ParseControllerList(identified(field{0, count}))
		refused(t, "and there may be more", got, err)
	}
	refusesOtherSizes(t, nvmecli.ParseControllerList, nvmecli.IdentifySize)
}
