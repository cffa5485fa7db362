package codec

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

// key is a line of a file of keys.
func key(id string, fill byte) string {
	return id + " " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, keySize)) + "\n"
}

// write replaces the file of keys as an operator does, and gives its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	return path
}

func open(t *testing.T, path string) (*Codec, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	c, err := Open(path, slog.New(slog.NewTextHandler(log, nil)))
	require.NoError(t, err)
	return c, log
}

func payload(t *testing.T, value any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(value)
	require.NoError(t, err)
	return p
}

func one(t *testing.T, do func([]*commonpb.Payload) ([]*commonpb.Payload, error),
	p *commonpb.Payload) *commonpb.Payload {
	t.Helper()
	all, err := do([]*commonpb.Payload{p})
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

func TestWhatIsEncryptedIsReadWithItsKey(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "keys"), "# comment\n\n"+key("new", 1)+key("old", 2))
	c, log := open(t, path)
	for _, value := range []any{"the tenant's name", nil, []byte("bytes"), map[string]int{"a": 1}} {
		p := payload(t, value)
		encrypted := one(t, c.Encode, p)
		require.Equal(t, "new", string(encrypted.Metadata[keyIDKey]))
		require.NotContains(t, string(encrypted.Data), "tenant")
		require.NotEqual(t, encrypted.Data, one(t, c.Encode, p).Data, "two of the same content differ")
		require.True(t, proto.Equal(p, one(t, c.Decode, encrypted)))
	}

	// A key that was the first before still decrypts; one that is gone does not.
	before, _ := open(t, write(t, filepath.Join(t.TempDir(), "keys"), key("old", 2)+key("gone", 3)))
	p := payload(t, "x")
	require.True(t, proto.Equal(p, one(t, c.Decode, one(t, before.Encode, p))))
	gone, _ := open(t, write(t, filepath.Join(t.TempDir(), "keys"), key("gone", 3)))
	of := one(t, gone.Encode, p)
	require.Same(t, of, one(t, c.Decode, of))
	require.Same(t, of, one(t, c.Decode, of))
	require.Equal(t, 1, strings.Count(log.String(), `key \"gone\"`), log.String())

	// What somebody changed is not read, nor what is another key's under the same ID.
	changed := one(t, c.Encode, p)
	changed.Data[len(changed.Data)-1] ^= 1
	require.Same(t, changed, one(t, c.Decode, changed))
	renamed := one(t, c.Encode, p)
	renamed.Metadata[keyIDKey] = []byte("old")
	require.Same(t, renamed, one(t, c.Decode, renamed))
	require.Contains(t, log.String(), "was changed")

	plain := payload(t, "a signal of any client")
	require.Same(t, plain, one(t, c.Decode, plain))
}

func TestTheFileIsReadAgainWhenItHasChanged(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "keys"), key("a", 1))
	c, log := open(t, path)
	p := payload(t, "x")
	first := one(t, c.Encode, p)
	write(t, path, key("b", 2)+key("a", 1))
	second := one(t, c.Encode, p)
	require.Equal(t, "b", string(second.Metadata[keyIDKey]))
	require.True(t, proto.Equal(p, one(t, c.Decode, first)))

	write(t, path, "no key\n")
	require.True(t, proto.Equal(p, one(t, c.Decode, second)), "its last keys are used")
	require.Equal(t, "b", string(one(t, c.Encode, p).Metadata[keyIDKey]))
	require.Contains(t, log.String(), "line 1")
	require.NoError(t, os.Remove(path))
	require.True(t, proto.Equal(p, one(t, c.Decode, second)))
}

func TestWhatIsNoFileOfKeys(t *testing.T) {
	secret := strings.Fields(key("a", 9))[1]
	for text, want := range map[string]string{
		"":                                 "it has no key",
		"# nothing\n":                      "it has no key",
		key("a", 1) + key("a", 2):          "line 2: its ID is listed twice",
		secret + "\n":                      "line 1: it is not an ID and a key",
		"a " + secret + " b\n":             "line 1: it is not an ID and a key",
		"a " + secret[:20] + "\n":          "line 1: its key is not 32 bytes in base64",
		"\na " + secret + secret + "\n":    "line 2: its key is not 32 bytes",
		"a !" + secret[1:] + "\n":          "line 1: its key is not 32 bytes",
		"a " + strings.ToUpper("Zm9v\n\n"): "line 1: its key is not 32 bytes",
	} {
		_, err := Open(write(t, filepath.Join(t.TempDir(), "keys"), text), slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, want, "%q", text)
		require.NotContains(t, err.Error(), secret[:10])
	}
	path := write(t, filepath.Join(t.TempDir(), "keys"), key("a", 1))
	require.NoError(t, os.Chmod(path, 0o640))
	_, err := Open(path, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "may be read by others")
}

func TestTheWebUIIsServedToItsOwnPages(t *testing.T) {
	c, _ := open(t, write(t, filepath.Join(t.TempDir(), "keys"), key("a", 1)))
	server := httptest.NewServer(c.Handler("https://ui.example"))
	defer server.Close()
	for _, x := range []struct {
		method, origin string
		status         int
	}{
		{http.MethodOptions, "https://ui.example", http.StatusNoContent},
		{http.MethodPost, "https://other.example", http.StatusForbidden},
		{http.MethodPost, "null", http.StatusForbidden},
		{http.MethodGet, "https://ui.example", http.StatusNotFound},
	} {
		r, err := http.NewRequestWithContext(t.Context(), x.method, server.URL+"/decode", strings.NewReader("{}"))
		require.NoError(t, err)
		r.Header.Set("Origin", x.origin)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, x.status, answer.StatusCode, "%+v", x)
		if x.status != http.StatusForbidden {
			require.Equal(t, "https://ui.example", answer.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	// As the Web UI asks, by Temporal's own client of such servers.
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: server.URL})
	p := payload(t, "reason")
	for _, way := range [][2]converter.PayloadCodec{{remote, c}, {c, remote}} {
		require.True(t, proto.Equal(p, one(t, way[1].Decode, one(t, way[0].Encode, p))))
	}
}
