package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/testkit/browser"
	"burnish/internal/testkit/proc"
	"burnish/internal/testkit/site"
	"burnish/workflows/contract"
)

var updatePictures = flag.Bool("update-pictures", false, "write the pictures of docs/web-ui.md again")

const webUIPage = "../../../docs/web-ui.md"

// maxPicture bounds a picture of the documentation, in bytes.
const maxPicture = 120 << 10

// reader does with a page of the Web UI what a reader of docs/web-ui.md does.
type reader struct {
	*browser.Page
	t    *testing.T
	seen map[string]bool // labels that were used or read
}

// onPage are functions that each expression may use. A label is the text of an element, or
// what it tells a screen reader; the frames of a page count as part of it.
const onPage = `
const shown = e => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
const kinds = ["button", "a", "[role=option]", "[role=menuitem]"];
const named = (label, within = "") => [...document.querySelectorAll(kinds.map(k => within + " " + k).join(","))]
  .filter(e => shown(e) && !e.disabled && [e.innerText.trim().split("\n")[0].trim(), e.ariaLabel].includes(label));
const frames = () => [...document.querySelectorAll("iframe")].map(f => f.contentDocument?.body);
const all = () => [document.body, ...frames()].map(b => b?.innerText ?? "").join("\n");
const labels = () => [...document.querySelectorAll("[aria-label]")].filter(shown).map(e => e.ariaLabel).join("\n");
`

func (r *reader) run(expression string, out any) error {
	return r.Run(r.t.Context(), "(() => {"+onPage+expression+"})()", out)
}

// await evaluates an expression until it is true.
func (r *reader) await(what, expression string) {
	r.t.Helper()
	Await(r.t, 20*time.Second, what, func() (bool, string) {
		var ok bool
		err := r.run(expression, &ok)
		var text string
		if !ok {
			_ = r.run("return all()", &text) // for the message of a failure only
		}
		return err == nil && ok, fmt.Sprintln(err, text)
	})
}

// reads waits until the page shows these texts.
func (r *reader) reads(texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		r.await(fmt.Sprintf("the page to show %q", text),
			fmt.Sprintf("return all().includes(%s) || labels().includes(%[1]s)", quote(r.t, text)))
		r.seen[text] = true
	}
}

// clicks presses what has this label, the last one where there are several: a menu or dialog
// stands behind the page it belongs to.
func (r *reader) clicks(label string) {
	r.t.Helper()
	r.await(fmt.Sprintf("%q to be there", label),
		fmt.Sprintf("const e = named(%s).at(-1); e?.click(); return !!e", quote(r.t, label)))
	r.seen[label] = true
}

// opens presses the list that stands under a label.
func (r *reader) opens(label, id string) {
	r.t.Helper()
	r.reads(label)
	r.await("the list "+label,
		fmt.Sprintf("const e = [...document.querySelectorAll(%s)].find(shown); e?.click(); return !!e",
			quote(r.t, "[data-testid="+id+"]")))
}

// writes puts text into the field that a selector finds.
func (r *reader) writes(selector, text string) {
	r.t.Helper()
	r.await("the field "+selector,
		fmt.Sprintf("const e = [...document.querySelectorAll(%s)].find(shown); e?.focus(); return !!e && "+
			"(document.activeElement === e)", quote(r.t, selector)))
	require.NoError(r.t, r.Type(r.t.Context(), text))
}

// picture is docs/NAME: this element as the page shows it now, down to a height.
func (r *reader) picture(name, selector string, height float64) {
	r.t.Helper()
	path := filepath.Join(filepath.Dir(webUIPage), name)
	if *updatePictures {
		var at struct{ X, Y, Width, Height float64 }
		require.NoError(r.t,
			r.run(fmt.Sprintf("return document.querySelector(%s).getBoundingClientRect().toJSON()", quote(r.t, selector)), &at))
		png, err := r.Picture(r.t.Context(), at.X, at.Y, at.Width, min(height, at.Height))
		require.NoError(r.t, err)
		require.NoError(r.t, os.WriteFile(path, png, 0o600))
	}
	kept, err := os.Stat(path)
	require.NoError(r.t, err, "run the test with -update-pictures")
	require.LessOrEqual(r.t, kept.Size(), int64(maxPicture), name)
	r.seen[name] = true
}

func quote(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	require.NoError(t, err)
	return string(quoted)
}

// serverWithUI is a site with the Web UI, which shows its namespace.
func serverWithUI(t *testing.T) (s *Site, address string) {
	t.Helper()
	server := newServer(t.TempDir())
	server.InMemory = true
	ports, err := proc.FreePorts(0)
	require.NoError(t, err)
	server.UIPort = ports[0]
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	own, err := site.New(programs, server, site.DefaultNamespace, "rack1", dir)
	require.NoError(t, err)
	c, err := server.Dial(own.Namespace)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &Site{Site: own, Client: c}, fmt.Sprintf("http://127.0.0.1:%d/namespaces/default/workflows", server.UIPort)
}

// codeBlocks are the blocks of a page that are no console's.
func codeBlocks(page string) []string {
	var all []string
	for _, found := range regexp.MustCompile("(?s)```(?:json)?\n(.*?)```").FindAllStringSubmatch(page, -1) {
		all = append(all, strings.TrimSpace(found[1]))
	}
	return all
}

// A browser goes through docs/web-ui.md: its query, its columns, the page of a device that is
// stuck, its query and its signal. Every label and picture of the page was there.
func TestTheWebUIIsAsDocumented(t *testing.T) {
	onlyOnDevserver(t, "its Web UI is a program of its own")
	t.Parallel()
	text, err := os.ReadFile(webUIPage)
	require.NoError(t, err)
	blocks := codeBlocks(string(text))
	require.Len(t, blocks, 2, "a query and the input of a signal")
	s, address := serverWithUI(t)
	s.Run(t, "all")
	s.Must(t, "enroll", "disk1", "--host", s.Host, "--driver", "fake", "--type", "NVME", "--one-time-use", "--provide",
		"--set", "size=1MiB,serial=S64FNX0T1,fault=fail:zero@50%")
	s.Must(t, "enroll", "disk2", "--host", s.Host, "--driver", "fake", "--type", "NVME", "--provide", "--set", "size=1MiB")
	s.AwaitState(t, "disk1", 30*time.Second, device.Error)
	s.AwaitState(t, "disk2", 30*time.Second, device.Available)
	began := time.Now()
	page, err := openBrowser(t).Open(t.Context(), address)
	require.NoError(t, err)
	r := &reader{Page: page, t: t, seen: map[string]bool{}}

	r.list(blocks[0])
	r.stuckDevice(s)
	r.signal(s, blocks[1])
	r.continued(s, address)

	for _, found := range regexp.MustCompile(`\*\*([^*]+)\*\*`).FindAllStringSubmatch(string(text), -1) {
		require.True(t, r.seen[found[1]], "the page says %s, and the test has not seen it", found[1])
	}
	for _, found := range regexp.MustCompile(`\]\(([^)]+\.png)\)`).FindAllStringSubmatch(string(text), -1) {
		require.True(t, r.seen[found[1]], "%s is none of the test's pictures", found[1])
	}
	t.Logf("the browser took %s", time.Since(began).Round(time.Second))
}

// list finds the stuck device by the query, adds the columns and keeps the view.
func (r *reader) list(query string) {
	r.reads("device/disk1", "device/disk2", "Workflows")
	r.await("the button of the query",
		`const e = document.querySelector("[data-testid=toggle-manual-query]"); e?.click(); return !!e`)
	r.writes("[data-testid=workflow-manual-search-input]", query)
	r.await("the query to be sent", `const form = document.activeElement.form; form?.requestSubmit(); return !!form`)
	r.await("only the stuck device to be listed",
		`return all().includes("device/disk1") && !all().includes("device/disk2")`)
	var at string
	require.NoError(r.t, r.run("return location.search", &at))
	asked, err := url.ParseQuery(strings.TrimPrefix(at, "?"))
	require.NoError(r.t, err)
	require.Equal(r.t, query, asked.Get("query"), "the page's address has the query")
	r.clicks("Configure Columns")
	for _, column := range []string{"DeviceState", "DeviceFault", "DeviceHost"} {
		r.clicks("Add " + column + " column")
		r.seen[column] = true
	}
	for _, column := range []string{"Run ID", "Type", "End"} {
		r.clicks("Remove " + column + " column")
		r.seen[column] = true
	}
	r.clicks("Close Workflows Table configuration")
	r.clicks("Save as New")
	r.writes("[data-testid=workflow-save-view-modal-input]", "stuck devices")
	r.clicks("Save")
	r.reads("Saved Views", "stuck devices", "error", "step_failed", "rack1")
	require.NoError(r.t, r.run("document.activeElement?.blur()", nil))
	r.picture("web-ui-list.png", "main", 360)
}

// stuckDevice reads the page of a device in error.
func (r *reader) stuckDevice(s *Site) {
	r.clicks("device/disk1")
	r.clicks("User Metadata")
	r.reads("Summary", "Details", "Current Details", "NVME, serial S64FNX0T1, host rack1, driver fake",
		"serial: S64FNX0T1", "host: rack1", "driver: fake", "last error: injected fault fail:zero@50%x1",
		"fault: step_failed",
		"remedy: clean disk1 to try again", "allowed actions: clean, manage, retire")
	r.picture("stuck-device.png", "main", 1000)
	r.clicks("Queries")
	r.opens("Query Type", "query-select-button")
	r.reads("device", "discovery", "validate")
	r.clicks("device")
	r.clicks("Run Query")
	r.reads(`"device_state": "error"`, `"last_error": "injected fault fail:zero@50%x1, occurrence 1"`, `"uuid": "`+
		s.Show(r.t, "disk1").UUID+`"`)
}

// signal sends clean from the page.
func (r *reader) signal(s *Site, input string) {
	r.clicks("More Actions")
	r.clicks("Send a Signal")
	r.opens("Signal name", "signal-select-button")
	r.clicks("clean")
	r.writes("dialog[open] .cm-content", input)
	r.seen["Data"] = true
	r.picture("web-ui-signal.png", "dialog[open]", 600)
	r.clicks("Submit")
	r.reads("Workflow signaled.")
	s.AwaitState(r.t, "disk1", 30*time.Second, device.Available)
	require.Contains(r.t, s.Must(r.t, "history", "disk1"), "cable replaced")
	require.NoError(r.t, s.Workflows().RequestClean(r.t.Context(), "disk1", contract.CleanInput{}),
		"a signal that the state refuses")
}

// continued cancels on the page. The run that follows has no summary, but current details.
func (r *reader) continued(s *Site, address string) {
	before, err := s.Client.DescribeWorkflowExecution(r.t.Context(), "device/disk1", "")
	require.NoError(r.t, err)
	r.clicks("Request Cancellation")
	r.clicks("Confirm")
	var run string
	Await(r.t, 20*time.Second, "another run", func() (bool, string) {
		now, err := s.Client.DescribeWorkflowExecution(r.t.Context(), "device/disk1", "")
		run = now.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		return err == nil && run != before.GetWorkflowExecutionInfo().GetExecution().GetRunId(), fmt.Sprint(err)
	})
	require.NoError(r.t, r.Go(r.t.Context(), address+"/device%2Fdisk1/"+run+"/user-metadata"))
	r.reads("serial: S64FNX0T1", "disk1 on rack1: available", "last refusal: ")
	var text string
	require.NoError(r.t, r.run("return all()", &text))
	require.NotContains(r.t, text, "driver fake", "this run has no summary")
}
