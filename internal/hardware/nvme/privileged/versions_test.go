package privileged

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/testkit/nvmesim"
)

// Each version of nvme-cli that is a real program here, this machine's own and those of other releases
// of Debian, sends the same command for each verb, and its answer is read as the same, also where the
// drive refuses it.
func TestEveryVersionOfTheToolAnswersEveryVerb(t *testing.T) {
	roots, err := filepath.Glob("/usr/local/lib/burnish-test/nvme-cli/*/root")
	require.NoError(t, err)
	if len(roots) == 0 {
		t.Skip("no other version is unpacked: deploy/setup-test.sh does that")
	}
	require.Len(t, roots, 3, "of bullseye, trixie and sid")
	own := answers(t)
	for _, root := range roots {
		t.Run(filepath.Base(filepath.Dir(root)), func(t *testing.T) {
			t.Setenv(nvmesim.Unpacked, root)
			require.Equal(t, own, answers(t))
		})
	}
}

// answers are those to each verb, as it is and refused, with the commands that the drive got.
func answers(t *testing.T) map[string]string {
	output, err := (&Local{Tool: nvmesim.New(t).Tool()}).Version(t.Context())
	require.NoError(t, err)
	version, err := nvmecli.ParseVersion(output)
	require.NoError(t, err)
	require.False(t, version.Untried(), "nvmecli.Tried does not name %s", version.Text)
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, nvmesim.Image("2.0.0", 8<<10), 0o600))
	image, digest, err := LoadImage(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, image.Close()) }()

	drive := nvmesim.Drive("S1")
	drive.Namespaces = []nvmesim.Namespace{{NSID: 1, Blocks: 1 << 13, Attached: true}, {NSID: 2, Blocks: 1 << 12}}
	drive.HostMetadata, drive.Metadata = true, []nvmesim.Element{{Feature: ControllerMetadata, Type: 1}}
	drive.Opal.Supported = true
	site := nvmesim.New(t, drive)
	drive = site.State(0)
	l := &Local{Tool: site.Tool(), Sys: site.Sys, Dev: site.Dev, Timeout: time.Minute}
	d, err := l.Open(t.Context(), drive.Address)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	all := map[string]string{}
	ask := func(verb Verb, inject ...nvmesim.Injection) nvmesim.Status {
		site.Change(0, func(c *nvmesim.Controller) {
			*c = drive
			c.Features, c.Metadata = maps.Clone(drive.Features), slices.Clone(drive.Metadata)
			c.Inject = inject
		})
		site.ClearLog()
		r := Request{Verb: verb, NSID: 1, Feature: 6, Value: 1, Element: 1, Action: CryptoErase, Blocks: 1 << 12,
			Controller: drive.CNTLID, Digest: digest, Transfer: MinTransfer, Slot: 2}
		switch verb {
		case AttachNamespace:
			r.NSID = 2
		case HostMetadata, DeleteMetadata:
			r.Feature, r.NSID = ControllerMetadata, 0
		}
		var held HeldFiles
		if verbSpecs[verb].image {
			held.Image = image
		}
		var data []byte
		var err error
		if verbSpecs[verb].changes {
			err = d.Change(t.Context(), r, "S1", held)
		} else {
			data, err = d.Read(t.Context(), r)
		}
		var f *Failure
		require.True(t, err == nil || errors.As(err, &f) && f.Answered, "%s: %v", verb, err)
		status, _ := StatusOf(err)
		said := fmt.Sprintf("%x %x", data, status)
		for _, sent := range site.Log() {
			said += fmt.Sprintf("; %x %x %x %x", sent.Opcode, sent.NSID, sent.CDW, sent.Status)
		}
		all[fmt.Sprint(verb, len(inject))] = said
		return nvmesim.Status(status)
	}
	for verb := range verbSpecs {
		ask(verb)
	}
	// One of each kind: data that is read, a result, no data, data that is sent.
	for verb, opcode := range map[Verb]uint8{IdentifyController: nvmesim.Identify, SavedFeature: nvmesim.GetFeatures,
		Sanitize: nvmesim.SanitizeDrive, CreateNamespace: nvmesim.ManageNamespace,
		DownloadFirmware: nvmesim.DownloadFirmware} {
		status := ask(verb, nvmesim.Injection{Opcode: opcode, Status: nvmesim.InvalidFirmwareImage})
		require.EqualValues(t, 0x107, status, verb)
	}
	return all
}
