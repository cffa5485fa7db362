package configdrive

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/nova/metadata"
)

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("here", 3600))

const someDocument = `{"uuid":"3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90","devices":[{"type":"disk","bus":"none","serial":"S1","tags":["data \"base\"\nd"]}]}` + "\n"

// imageFile writes the image of a document into a file.
func imageFile(t *testing.T, text string) string {
	t.Helper()
	image, err := Image([]byte(text), someTime)
	require.NoError(t, err)
	require.Zero(t, len(image)%blockSize)
	path := filepath.Join(t.TempDir(), "config.iso")
	require.NoError(t, os.WriteFile(path, image, 0o600))
	return path
}

// run runs a program that setup-test.sh installs, and gives its standard output.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = "/usr/sbin/" + program
		if _, err := os.Stat(path); err != nil {
			t.Skip(program + " is missing: run deploy/setup-test.sh")
		}
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %s: %s", program, args, stderr.String())
	return string(out)
}

// files are those that isoinfo finds in the image by Rock Ridge (-R) or Joliet (-J).
func files(t *testing.T, image, names string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for path := range strings.Lines(run(t, "isoinfo", names, "-f", "-i", image)) {
		path = strings.TrimSuffix(path, "\n")
		found[path] = ""
		if strings.HasSuffix(path, ".json") {
			found[path] = run(t, "isoinfo", names, "-x", path, "-i", image)
		}
	}
	return found
}

// Both trees have the folders of the versions, each with its document, and nothing else.
func TestOtherProgramsReadTheImage(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"small": someDocument, "several blocks": `{"uuid":"` +
		strings.Repeat("x", 3*blockSize) + `"}`, "whole blocks": strings.Repeat(" ", 2*blockSize)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := imageFile(t, text)
			about := run(t, "blkid", "-p", "-o", "export", image)
			require.Contains(t, about, "\nLABEL=config-2\n")
			require.Contains(t, about, "\nTYPE=iso9660\n")
			if len(text)%blockSize == 0 {
				text += "\n"
			}
			want := map[string]string{"/openstack": ""}
			for _, version := range metadata.Versions() {
				want["/openstack/"+version] = ""
				want["/openstack/"+version+"/meta_data.json"] = text
			}
			for _, names := range []string{"-R", "-J"} {
				require.Equal(t, want, files(t, image, names), names)
			}
			// Root's, and readable for everyone, whoever made it.
			require.Regexp(t, `-r--r--r-- +1 +0 +0 +\d+ Jan  2 2026 .* meta_data\.json`,
				run(t, "isoinfo", "-R", "-l", "-i", image))
		})
	}
}

// Neither the user, nor the time, zone or file system of the machine changes a byte.
func TestTheImageDependsOnTheDocumentAlone(t *testing.T) {
	t.Parallel()
	image, err := Image([]byte(someDocument), someTime)
	require.NoError(t, err)
	require.Equal(t, "1586ee2791be2f31b26bf1e04c32af693a020e0529ee0a80ce797ba28eeb9fda",
		fmt.Sprintf("%x", sha256.Sum256(image)))
}

// readDrive is cloud-init's own reader of config drives.
const readDrive = `
import json, sys
from cloudinit.sources.helpers.openstack import ConfigDriveReader
print(json.dumps(ConfigDriveReader(sys.argv[1]).read_v2()["metadata"]))
`

// extract writes the files of an image into a new folder, as a guest that mounts it sees them.
func extract(t *testing.T, image string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range files(t, image, "-R") {
		if strings.HasSuffix(path, ".json") {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644))
		}
	}
	return dir
}

// S1.23
func TestCloudInitReadsTheDrive(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/lib/python3/dist-packages/cloudinit/sources/helpers/openstack.py"); err != nil {
		t.Skip("cloud-init is missing: run deploy/setup-test.sh")
	}
	var read struct {
		Instance string          `json:"instance-id"`
		UUID     string          `json:"uuid"`
		Devices  json.RawMessage `json:"devices"`
	}
	require.NoError(t,
		json.Unmarshal([]byte(run(t, "/usr/bin/python3", "-c", readDrive, extract(t, imageFile(t, someDocument)))), &read))
	require.Equal(t, "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90", read.Instance)
	require.Equal(t, "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90", read.UUID)
	var want struct{ Devices json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(someDocument), &want))
	require.JSONEq(t, string(want.Devices), string(read.Devices))
}
