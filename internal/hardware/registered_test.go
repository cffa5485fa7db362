package hardware

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Older kernels show the names of registered files, newer ones their paths. A ring that works shows none.
//
// F40
func TestRegisteredFilesOfEachKernel(t *testing.T) {
	const end = "UserBufs:\t1\n    0: 0x7f00/4096\nPollList:\n"
	for text, want := range map[string]struct {
		paths []string
		shown bool
	}{
		"": {},
		"pos:\t0\nSqMask:\t0x3\nUserFiles:\t0\n" + end:                         {nil, true},
		"UserFiles:\t3\n    0: <none>\n    1: loop7\n    2: [eventfd]\n" + end: {[]string{"/dev/loop7"}, true},
		"UserFiles:\t2\n    0: /mnt/a: b (deleted)\n    1: socket:[7]\n" + end: {[]string{"/mnt/a: b (deleted)"}, true},
		"UserFiles:\t2\n" + end:                  {nil, false},
		"UserFiles:\t2\n" + end + "NAPI:\tdis\n": {nil, true},
	} {
		paths, shown := registeredFiles(text)
		require.Equal(t, want.paths, paths, text)
		require.Equal(t, want.shown, shown, text)
	}
}
