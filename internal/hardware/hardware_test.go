package hardware_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"1":      1,
		"512B":   512,
		"64KiB":  64 << 10,
		"64MiB":  64 << 20,
		"3 GiB":  3 << 30,
		"2TiB":   2 << 40,
		"004KiB": 4 << 10,
	} {
		t.Run(text, func(t *testing.T) {
			got, err := hardware.ParseSize(text)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
	for _, text := range []string{"", "0", "-1", "+1", "MiB", "64MB", "64mib", "1.5GiB", "64M",
		"9223372036854775807KiB", "0x10"} {
		t.Run("refuses "+text, func(t *testing.T) {
			_, err := hardware.ParseSize(text)
			require.ErrorContains(t, err, text)
		})
	}
}

func TestFormatSizeIsReadBack(t *testing.T) {
	for size, want := range map[int64]string{
		1: "1B", 1000: "1000B", 1024: "1KiB", 64 << 20: "64MiB", 1536 << 20: "1536MiB", 1 << 40: "1TiB", 64<<20 +
			777: "67109641B",
	} {
		require.Equal(t, want, hardware.FormatSize(size))
		back, err := hardware.ParseSize(want)
		require.NoError(t, err)
		require.Equal(t, size, back)
	}
}

func TestZeroesIsOneAlignedBufferOfZeroes(t *testing.T) {
	first, err := hardware.Zeroes()
	require.NoError(t, err)
	second, err := hardware.Zeroes()
	require.NoError(t, err)
	require.Len(t, first, hardware.ZeroesLen)
	require.Same(t, unsafe.SliceData(first), unsafe.SliceData(second), "every wipe shares one buffer")
	require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(first)))%hardware.Align)
	for i, b := range first {
		if b != 0 {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
}

func TestAlignedBuffer(t *testing.T) {
	for _, n := range []int{1, 511, 4096, 1 << 20} {
		p := hardware.AlignedBuffer(n)
		require.Len(t, p, n)
		require.Equal(t, n, cap(p), "an append must not reach what lies behind")
		require.Zero(t, uintptr(unsafe.Pointer(unsafe.SliceData(p)))%hardware.Align)
	}
}
