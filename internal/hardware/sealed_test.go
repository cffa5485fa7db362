package hardware

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// intruder is a file at whose end another process writes into the copy, which it has open through /proc.
type intruder struct {
	io.Reader
	t *testing.T
}

func (i intruder) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err == io.EOF {
		open, globErr := filepath.Glob("/proc/self/fd/*")
		require.NoError(i.t, globErr)
		for _, fd := range open {
			if name, linkErr := os.Readlink(fd); linkErr == nil && strings.HasPrefix(name, "/memfd:burnish") {
				require.NoError(i.t, os.WriteFile(fd, []byte("evil"), 0))
			}
		}
	}
	return n, err
}

// What is used are the bytes that were checked.
func TestTheDigestIsThatOfTheSealedCopy(t *testing.T) {
	copied, size, digest, err := Sealed(intruder{strings.NewReader("good bytes"), t}, 1<<10, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, copied.Close()) }()
	var used bytes.Buffer
	_, err = io.Copy(&used, io.NewSectionReader(copied, 0, size))
	require.NoError(t, err)
	require.NotEqual(t, "good bytes", used.String())
	require.Equal(t, sha256.Sum256(used.Bytes()), digest)
	_, err = copied.WriteAt([]byte("x"), 0)
	require.ErrorContains(t, err, "not permitted")
}
