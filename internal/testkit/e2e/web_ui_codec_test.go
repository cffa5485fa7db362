package e2e

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/config"
	"burnish/internal/testkit/proc"
)

// A browser goes through the Web UI's part of docs/encryption.md: what is encrypted is shown as such, and in clear once
// the page knows the codec server's address.
func TestTheWebUIShowsWhatIsEncrypted(t *testing.T) {
	onlyOnDevserver(t, "its Web UI is a program of its own")
	t.Parallel()
	text, err := os.ReadFile("../../../docs/encryption.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## The Web UI\n")
	section, _, found := strings.Cut(section, "\n## ")
	require.True(t, found)
	s, address := serverWithUI(t)
	keys := filepath.Join(s.Dir, "codec.keys")
	require.NoError(t, os.WriteFile(keys, []byte(newKey("k")), 0o600))
	s.Env = append(s.Env, config.VarCodecKeys+"="+keys)
	s.Run(t, "all")
	s.Must(t, "enroll", "disk1", "--host", s.Host, "--driver", "fake", "--type", "NVME", "--provide",
		"--set", "size=1MiB,serial=S64FNX0T1", "--label", "note=in-the-label")
	s.AwaitDevice(t, "disk1", 30*time.Second, "to be available", isAvailable)

	ports, err := proc.FreePorts(0)
	require.NoError(t, err)
	codec := fmt.Sprintf("127.0.0.1:%d", ports[0])
	ui, err := url.Parse(address)
	require.NoError(t, err)
	cmd := exec.Command(programs.Burnish, "codec-server", "--address", codec, "--web-ui", ui.Scheme+"://"+ui.Host)
	cmd.Env = []string{config.VarCodecKeys + "=" + keys}
	server, err := proc.Start("codec-server", filepath.Join(s.Dir, "codec.log"), cmd)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Kill()) })

	page, err := openBrowser(t).Open(t.Context(), address)
	require.NoError(t, err)
	r := &reader{Page: page, t: t, seen: map[string]bool{}}
	r.clicks("device/disk1")
	r.await("the workflow's input", `return /\nInput\s+"[\w+/]+=*"/.test(all())`) // ciphertext
	r.clicks("Configure Codec Server")
	r.reads("Use my browser setting and ignore Cluster-level setting.")
	r.clicksOn("[data-testid=use-local-endpoint-input]")
	r.reads("Codec Server browser endpoint")
	r.writes("dialog[open] textarea", "http://"+codec)
	r.clicks("Apply")
	var at string
	require.NoError(t, r.run("return location.href", &at))
	require.NoError(t, r.Go(t.Context(), at))
	r.reads(`"name": "disk1"`)
	r.clicks("Queries")
	r.opens("Query Type", "query-select-button")
	r.clicks("device")
	r.clicks("Run Query")
	r.reads(`"note": "in-the-label"`)
	for _, found := range regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(section, -1) {
		require.True(t, r.seen[found[1]], "the page says %s, and the test has not seen it", found[1])
	}
}

// clicksOn presses what a selector finds.
func (r *reader) clicksOn(selector string) {
	r.t.Helper()
	r.await(selector, fmt.Sprintf("const e = document.querySelector(%s); e?.click(); return !!e", quote(r.t, selector)))
}
