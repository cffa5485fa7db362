// Package docs holds the pages for operators. Its tests require the sentences that a
// requirement demands.
package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words gives a page as one line, with single spaces.
func words(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return strings.Join(strings.Fields(string(text)), " ")
}

// Each guarantee is documented, and so are the limits.
//
// S0.36, S0.23, S0.38
func TestTheGuaranteesAreDocumented(t *testing.T) {
	page := words(t, "openstack.md")
	for _, sentence := range []string{
		"after its instance is deleted, a device is not allocated again until a full clean is complete",
		"**Burned** means `reserved` = `total` on the device's resource provider",
		"a device is burned after the claim",
		"release does not lower",
		"(total 1, reserved 1, used 0) is one that may need cleaning",
		"it does not say that a device is dirty",
		"Burnish never changes devices that are not enrolled, or their `reserved`",
		"not cleaned and not burned",
		"neither Nova nor Burnish copies data from one device to another",
		"only devices marked `live_migratable` in Nova",
		"**2025.2 or later to move instances**",
		"one more write to Placement for each claim",
		"[sample listener](sample-listener.md)",
		"VFs would need one provider each, with total 1, and a clean that affects only the function",
	} {
		require.Contains(t, page, sentence)
	}
}

// What a move and a bind leave behind is documented.
//
// S0.23
func TestWhatInstancesLeaveBehindIsDocumented(t *testing.T) {
	page := words(t, "instances.md")
	for _, sentence := range []string{
		"**Data is never copied between devices**",
		"| `confirm` | unbound; they stay reserved, and are cleaned | the instance's |",
		"| unbound; they stay reserved, and are cleaned |",
		"unless every device on both hosts is marked live-migratable",
		"the other claims are given back, nothing was written, nothing is cleaned",
		"Tenants choose tags, never addresses",
		"it is never the host's address",
	} {
		require.Contains(t, page, sentence)
	}
}

// The pages say what an erase guarantees, and that encryption keys survive it.
//
// S2.61, S2.104
func TestTheLimitsOfAnEraseAreDocumented(t *testing.T) {
	page := words(t, "nvme.md")
	require.Contains(t, page, "every block that a host can address")
	require.Contains(t, page, "None is a claim against forensics")
	require.Contains(t, page, "encryption keys stay as they are")
}

// What cleaning does not protect against, and what the steps of each interface do.
//
// S3.44, S3.45
func TestWhatCleaningDoesNotCoverIsDocumented(t *testing.T) {
	for page, sentences := range map[string][]string{
		"redfish.md": {
			"A whole server in the hands of an untrusted tenant can be changed below what any BMC shows.",
			"**areas that the erase of a controller leaves out**: reallocated blocks, boot partitions",
			"**firmware that the tenant has replaced by one that shows the right version**",
			"| drives that a tenant locked (TCG Opal, ATA passwords) | the erase fails, and the server needs the operator |",
		},
		"nvme.md": {
			"| TCG Opal ownership and locks | found and refused; only the PSID reverts them.",
			"firmware that reports a false revision is not detected",
			"| boot partitions, RPMB, persistent memory region | not checked; each record says so |",
		},
		"operating.md": {
			"`management` asks a controller about itself, and has a server's controllers erase their drives;",
			"`deploy` erases a drive, and proves each erase; `vendor` is your own program's erase;",
			"`firmware` and `bios` set back and compare what a tenant may have changed; `power` resets the device.",
		},
	} {
		for _, sentence := range sentences {
			require.Contains(t, words(t, page), sentence)
		}
	}
}

// The page says what the other users of a pool must do while cleaning is off, how
// pre-allocation is given up, and how long a profile may take.
//
// S4.38, S4.39, S4.30
func TestTheDutiesInASharedPoolAreDocumented(t *testing.T) {
	page := words(t, "oneview.md")
	for _, sentence := range []string{
		"they must erase the disks of a server before they remove their profile",
		"waits in `pending_cleaning`, reserved, with the fault [`automated_clean_off`](faults.md#automated_clean_off), " +
			"until `burnish clean NAME`",
		"under 2 minutes; up to an hour if the template brings firmware",
		"| `apply_timeout` | `1h` | how long a profile may take to be applied or removed |",
		"It is deprecated: enroll with `dynamic_allocation=true`, migrate what is there",
		"Both models work side by side until then, by the flag of each device",
	} {
		require.Contains(t, page, sentence)
	}
}

// pages are all pages of the project, by their path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../*.md", "*.md", "../.github/*.md", "../.github/*/*.md"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			path, err := filepath.Rel("..", filepath.Join("../docs", name))
			require.NoError(t, err)
			texts[path] = string(text)
		}
	}
	require.Contains(t, texts, "README.md")
	require.Contains(t, texts, "docs/safety.md")
	return texts
}

// anchors are the headings of a page as links name them.
func anchors(text string) []string {
	var all []string
	other := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, line := range strings.Split(text, "\n") {
		if _, heading, found := strings.Cut(line, "# "); found && strings.HasPrefix(line, "#") {
			all = append(all, strings.ReplaceAll(strings.ToLower(other.ReplaceAllString(heading, "")), " ", "-"))
		}
	}
	return all
}

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all := pages(t)
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for page, text := range all {
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(found[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			_, err := os.Stat(filepath.Join("..", path))
			require.NoError(t, err, "%s links to %s", page, found[1])
			if anchor != "" {
				require.True(t, slices.Contains(anchors(all[path]), anchor), "%s links to %s, which has no such heading",
					page, found[1])
			}
		}
	}
}

// The pages for developers name files, folders and tests that are there.
func TestEveryPathAndTestIsThere(t *testing.T) {
	all := pages(t)
	const folders = "(?:workflows|activities|worker|starter|internal|deploy|docs)"
	test := regexp.MustCompile("`(" + folders + `(?:/[a-z0-9_]+)*)\.((?:Test|Fuzz)\w+)` + "`")
	tests := map[string]string{} // of a folder
	for page, text := range all {
		for _, found := range test.FindAllStringSubmatch(text, -1) {
			folder, name := found[1], found[2]
			if tests[folder] == "" {
				files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
				require.NoError(t, err)
				for _, file := range files {
					tests[folder] += read(t, file)
				}
			}
			require.True(t, strings.Contains(tests[folder], "\nfunc "+name+"("), "%s names %s, which is not there", page,
				found[0])
		}
	}
	require.Greater(t, len(tests), 40)
	path := regexp.MustCompile("`(" + folders + "/[a-z0-9_./-]*)`")
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/safety.md",
		"docs/states.md"} {
		for _, found := range path.FindAllStringSubmatch(all[page], -1) {
			_, err := os.Stat(filepath.Join("..", found[1]))
			require.NoError(t, err, "%s names %s", page, found[1])
		}
	}
}

// A newcomer reads the README in a minute.
func TestTheReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, strings.Count(pages(t)["README.md"], "\n"), 100)
}

// What a guest's programs may rely on, and who says what.
//
// S1.21
func TestTheGuestsDocumentIsDocumented(t *testing.T) {
	page := words(t, "role-tagging.md")
	for _, sentence := range []string{
		"**Users never choose bus addresses**",
		"**The host's address is never shown**",
		"**The schema only grows.**",
		"No tag is ever invented.",
		"A NIC whose MAC is not known is left out of the document",
	} {
		require.Contains(t, page, sentence)
	}
}

// Who upgrades, or comes from other cleaning, reads in which order, what becomes of the servers that
// exist and of drives of Cyborg's older drivers, what encryption adds, and what takes longer.
//
// S2.103, S2.107, S3.49
func TestUpgradeAndMoveAreDocumented(t *testing.T) {
	page := words(t, "install.md")
	for _, sentence := range []string{
		"**control workers first, then hosts**",
		"recreate such servers with a new flavor that requests it",
		"To take over an Inspur drive: ",
		"**Encryption at rest** by the tenant (LUKS in the guest) adds what no erase here promises",
		"Raise the time-outs of whatever waits for a released device",
	} {
		require.Contains(t, page, sentence)
	}
}
