package hardwaretest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/testkit/suites/hardwaretest"
)

func TestCountDistinguishesStampedZeroAndOther(t *testing.T) {
	const size, nonce = 10*hardwaretest.Block + 1, 7
	for name, tc := range map[string]struct {
		damage               func(t *testing.T, f *os.File)
		stamped, zero, other int
	}{
		"as stamped": {damage: func(*testing.T, *os.File) {}, stamped: 11},
		"one block zeroed": {
			damage:  func(t *testing.T, f *os.File) { write(t, f, 512, make([]byte, 512)) },
			stamped: 10, zero: 1,
		},
		"the single last byte zeroed": {
			damage:  func(t *testing.T, f *os.File) { write(t, f, size-1, []byte{0}) },
			stamped: 10, zero: 1,
		},
		"half a block zeroed": {
			damage:  func(t *testing.T, f *os.File) { write(t, f, 512, make([]byte, 256)) },
			stamped: 10, other: 1,
		},
		"one bit changed": {
			damage:  func(t *testing.T, f *os.File) { write(t, f, 2047, []byte{1}) },
			stamped: 10, other: 1,
		},
		"a block that belongs elsewhere": {
			damage: func(t *testing.T, f *os.File) {
				p := make([]byte, 512)
				_, err := f.ReadAt(p, 512)
				require.NoError(t, err)
				write(t, f, 1024, p)
			},
			stamped: 10, other: 1,
		},
		"of another nonce": {
			damage:  func(t *testing.T, f *os.File) { require.NoError(t, hardwaretest.Stamp(f, 1024, nonce+1)) },
			stamped: 9, other: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "contents"))
			require.NoError(t, err)
			defer f.Close()
			require.NoError(t, hardwaretest.Stamp(f, size, nonce))
			info, err := f.Stat()
			require.NoError(t, err)
			require.EqualValues(t, size, info.Size(), "the stamps end at the given size")
			tc.damage(t, f)

			stamped, zero, other, err := hardwaretest.Count(f, size, nonce)
			require.NoError(t, err)
			require.Equal(t, [3]int{tc.stamped, tc.zero, tc.other}, [3]int{stamped, zero, other})
		})
	}
}

func TestCountOfTooLittleIsAnError(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "contents"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, hardwaretest.Stamp(f, 1024, 1))
	_, _, _, err = hardwaretest.Count(f, 2048, 1)
	require.Error(t, err)
}

func write(t *testing.T, f *os.File, offset int64, p []byte) {
	t.Helper()
	_, err := f.WriteAt(p, offset)
	require.NoError(t, err)
}
