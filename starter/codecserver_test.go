package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The server says where it listens, and ends in order when it is interrupted.
func TestCodecServerServesUntilItIsInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(path, []byte("a "+base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n"), 0o600))
	read, write := io.Pipe()
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		a := &app{stdin: strings.NewReader(""), stdout: write, stderr: io.Discard,
			getenv: func(name string) string { return map[string]string{"BURNISH_CODEC_KEYS": path}[name] }}
		ended <- a.run(ctx, []string{"codec-server", "--address", "127.0.0.1:0", "--web-ui", "https://ui.example/temporal"})
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	address := strings.TrimSpace(strings.TrimPrefix(line, "codec server at "))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/decode", strings.NewReader("{}"))
	require.NoError(t, err)
	r.Header.Set("Origin", "https://ui.example")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	interrupt()
	require.Equal(t, exitOK, <-ended)
}
