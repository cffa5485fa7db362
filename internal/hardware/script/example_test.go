package script

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

// cardtool acts as the vendor's tool in the page's example. A file acts as the memory.
const cardtool = `#!/bin/sh
set -eu
cd "$(dirname "$0")"
case "$3 ${4:-}" in
"get serial") echo S1 ;;
"get firmware") echo 92.00 ;;
"get users") cat users ;;
"memory scrub") echo scrubbing; : >memory ;;
"memory nonzero") wc -c <memory ;;
*) exit 9 ;;
esac
`

// The example in docs/script.md works as the page says.
func TestExampleInDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/script.md")
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "```sh\n")
	require.True(t, found)
	example, _, found := strings.Cut(after, "\n```\n")
	require.True(t, found)

	r := newFakeHost(t)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "cardtool"), []byte(cardtool), 0o755))
	r.write(t, "users", "0\n")
	example = strings.ReplaceAll(example, "/usr/local/bin/cardtool", filepath.Join(r.dir, "cardtool"))
	r.setProgram(t, strings.ReplaceAll(example, "/sys/bus/pci", filepath.Join(r.sys, "bus/pci")))

	who := r.discover(t)
	require.Equal(t, device.Script, who.Operation)
	require.Equal(t, "0x10de:0x20b5", who.Identity.Model)
	h := r.open(t, true)
	perform := func(step string) error {
		_, err := perform(t, h, step)
		return err
	}
	requireFault(t, perform("verify"), device.CodeStepFailed, "10 bytes of the memory are not zero")
	r.write(t, "users", "2\n")
	requireFault(t, perform("erase_device"), device.CodeTargetBusy, "a process still uses "+address)
	r.write(t, "users", "0\n")
	for _, step := range who.SupportedSteps {
		require.NoError(t, perform(step), step)
	}
	text, err := os.ReadFile(filepath.Join(r.deviceDir(), "reset"))
	require.NoError(t, err)
	require.Equal(t, "1\n", string(text))
	requireFault(t, perform("firmware_reflash"), device.CodeNoSuchStep, "does not offer")
}
