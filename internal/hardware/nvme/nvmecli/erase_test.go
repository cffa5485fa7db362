package nvmecli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/nvmecli"
)

// F18
func TestSanitizeLogInEveryForm(t *testing.T) {
	for file, want := range map[string]nvmecli.SanitizeLog{
		"sanitize-log-2.3-never.json":  {Progress: 65535, Status: nvmecli.NeverSanitized, CDW10: 10, State: -1},
		"sanitize-log-2.3-runs.json":   {Progress: 22214, Status: nvmecli.SanitizeInProgress, CDW10: 12, State: -1},
		"sanitize-log-2.3-done.json":   {Progress: 65535, Status: nvmecli.SanitizeDone, GlobalErased: true, CDW10: 12, State: -1},
		"sanitize-log-2.3-failed.json": {Progress: 65535, Status: nvmecli.SanitizeFailed, CDW10: 2, State: -1},
		"sanitize-log-2.8-key-is-text.json": {
			Progress: 65535, Status: nvmecli.SanitizeDone, GlobalErased: true, CDW10: 4, State: -1,
			Overwrite: nvmecli.NoEstimate, BlockErase: 90 * time.Second, CryptoErase: 13 * time.Second,
		},
		"sanitize-log-3.0-state.txt": {Progress: 65535, Status: nvmecli.SanitizeDone, GlobalErased: true, CDW10: 2, State: 5},
	} {
		t.Run(file, func(t *testing.T) {
			got, err := nvmecli.ParseSanitizeLog(sample(t, file))
			require.NoError(t, err)
			if !strings.Contains(file, "2.8") {
				want.Overwrite, want.OverwriteNoDealloc = got.Overwrite, got.OverwriteNoDealloc
				want.BlockErase, want.BlockEraseNoDealloc = got.BlockErase, got.BlockEraseNoDealloc
				want.CryptoErase, want.CryptoEraseNoDealloc = got.CryptoErase, got.CryptoEraseNoDealloc
			}
			require.Equal(t, want, got)
			require.Equal(t, want.Status == nvmecli.SanitizeInProgress, got.Running())
			require.Equal(t, want.Status == nvmecli.SanitizeDone, got.Done())
		})
	}
}

// log is a sanitize log with this SSTAT.
func log(sstat string) []byte {
	return []byte(`{"nvme0":{"sprog":65535,"cdw10_info":12,"sstat":` + sstat + `}}`)
}

// F18
func TestStatusInEveryForm(t *testing.T) {
	object := func(status string) string {
		return `{"global_erased":1,"no_cmplted_passes":2,` + status + `}`
	}
	for name, tt := range map[string]struct {
		sstat  string
		status nvmecli.SanitizeStatus
		erased bool
		passes uint8
	}{
		"0x101: masked, and bit 8":       {`257`, 1, true, 0},
		"0x102: runs, and bit 8":         {`258`, 2, true, 0},
		"1":                              {`1`, 1, false, 0},
		"as a string":                    {`"0x101"`, 1, true, 0},
		"3":                              {`3`, 3, false, 0},
		"4 is done too":                  {`4`, 4, false, 0},
		"passes":                         {`25`, 1, false, 3},
		"bit 9, a canceled verify":       {`769`, 1, true, 0},
		"an object, never":               {object(`"status":"(0) NVM Subsystem has never been sanitized."`), 0, true, 2},
		"an object, done":                {object(`"status":"(1) Most Recent Sanitize Command Completed Successfully."`), 1, true, 2},
		"an object, without deallocate":  {object(`"status":"(4) Most Recent Sanitize Command (No-Deallocate) Completed Successfully."`), 4, true, 2},
		"2.7: the key is the text":       {object(`"Sanitize in Progress.":"(2) Sanitize in Progress."`), 2, true, 2},
		"bit 3 is of the passes":         {object(`"status":"(9) Most Recent"`), 1, true, 2},
		"bit 3, as a number":             {object(`"status":10`), 2, true, 2},
		"an object with high bits":       {object(`"status":"(257) Most Recent"`), 1, true, 2},
		"an object with a number":        {object(`"status":3`), 3, true, 2},
		"words are not believed":         {object(`"status":"(3) Completed Successfully."`), 3, true, 2},
		"no pass count":                  {`{"global_erased":0,"status":"(2) x"}`, 2, false, 0},
		"another text beside the status": {object(`"note":"said (1) before","status":"(2) Sanitize in Progress."`), 2, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nvmecli.ParseSanitizeLog(log(tt.sstat))
			require.NoError(t, err)
			require.Equal(t, tt.status, got.Status)
			require.Equal(t, tt.erased, got.GlobalErased)
			require.Equal(t, tt.passes, got.Passes)
			require.Equal(t, uint32(12), got.CDW10)
			require.Equal(t, nvmecli.NoEstimate, got.CryptoErase, "missing")
			require.Equal(t, tt.status == 1 || tt.status == 4, got.Done())
		})
	}
	// A log without the device's name around it.
	got, err := nvmecli.ParseSanitizeLog([]byte(`{"sprog":1,"sstat":2,"cdw10info":-1}`))
	require.NoError(t, err)
	require.Equal(t, uint32(0xffffffff), got.CDW10)
	got, err = nvmecli.ParseSanitizeLog([]byte(`{"sprog":1,"sstat":2,"cdw10_info":1,"time_block_erase":null}`))
	require.NoError(t, err)
	require.Equal(t, nvmecli.NoEstimate, got.BlockErase)
	require.Equal(t, uint16(1), got.Progress)
}

// A log with a missing or invalid field never counts as that of a finished sanitize.
//
// F18
func TestSanitizeStatusIsNeverGuessed(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   "no output",
		`{}`:                                 "sstat is missing",
		`{"nvme0":{}}`:                       "sstat is missing",
		`{"nvme0":{"sprog":65535}}`:          "sstat is missing",
		`{"nvme0":{"sstat":257}}`:            "sprog is missing",
		`{"nvme0":{"sstat":null}}`:           "sprog is missing",
		string(log(`null`)):                  "sstat is missing",
		string(log(`5`)):                     "status 5 is not defined",
		string(log(`7`)):                     "status 7 is not defined",
		string(log(`65536`)):                 "sstat is 65536: it is too large",
		string(log(`"done"`)):                `sstat is "done": want a whole number`,
		string(log(`{}`)):                    "sstat has no status",
		string(log(`[1]`)):                   "sstat is a list",
		string(log(`{"status":"ok"}`)):       "sstat has no status",
		string(log(`{"status":"(1) done"}`)): "global_erased is missing",
		string(log(`{"global_erased":1,"status":"(6) x"}`)):                              "status 6 is not defined",
		string(log(`{"global_erased":1,"status":"(1) done","Sanitize":"(2) runs"}`)):     "sstat has two statuses",
		string(log(`{"global_erased":1,"status":"done (1) "}`)):                          "sstat has no status",
		string(log(`{"global_erased":1,"status":true}`)):                                 "status is true",
		`{"nvme0":{"sprog":65535,"sstat":257}}`:                                          "cdw10_info is missing",
		`{"nvme0":{"sprog":65536,"sstat":257,"cdw10_info":4}}`:                           "sprog is 65536: it is too large",
		`{"nvme0":{"sprog":1,"sstat":1,"cdw10_info":4,"time_block_erase":"soon"}}`:       `time_block_erase is "soon"`,
		`{"nvme0":{"sprog":1,"sstat":257,"cdw10_info":4},"nvme1":{"sprog":1,"sstat":2}}`: "more than one device",
		string(log(`257`))[:30]: "ends unexpectedly",
	} {
		t.Run(want+" "+text, func(t *testing.T) {
			got, err := nvmecli.ParseSanitizeLog([]byte(text))
			refused(t, want, got, err)
			require.False(t, got.Done())
		})
	}
}

// F17
func TestNamespace(t *testing.T) {
	got, err := nvmecli.ParseNamespace(sample(t, "id-ns-qemu-2.3.json"))
	require.NoError(t, err)
	require.Equal(t, uint64(131072), got.Blocks)
	require.True(t, got.Shared)
	require.False(t, got.WriteProtected)
	require.Len(t, got.Formats, 8)
	require.Equal(t, nvmecli.Format{BlockSize: 4096, Metadata: 64}, got.Formats[7])
	size, err := got.Bytes()
	require.NoError(t, err)
	require.Equal(t, int64(64<<20), size)

	format := func(ds int) string { return fmt.Sprintf(`{"ms":0,"ds":%d,"rp":0}`, ds) }
	many := strings.Repeat(format(9)+",", 16) + format(12)
	for name, tt := range map[string]struct {
		text   string
		bytes  int64
		format int
		want   string
	}{
		"4 KiB blocks":            {`{"nsze":10,"ncap":10,"flbas":1,"lbafs":[` + format(9) + `,` + format(12) + `]}`, 40960, 1, ""},
		"bits 6:5 of the index":   {`{"nsze":10,"ncap":10,"flbas":32,"lbafs":[` + many + `]}`, 40960, 16, ""},
		"bit 4 is not part of it": {`{"nsze":10,"ncap":10,"flbas":17,"lbafs":[` + format(9) + `,` + format(12) + `]}`, 40960, 1, ""},
		"6:5 with few formats":    {`{"nsze":10,"ncap":10,"flbas":96,"lbafs":[` + format(9) + `]}`, 5120, 0, ""},
		"not active":              {`{"nsze":0,"ncap":0,"flbas":0,"lbafs":[` + format(0) + `]}`, 0, 0, ""},
		"as strings":              {`{"nsze":"0xa","ncap":"10","flbas":"0x0","lbafs":[{"ms":"8","ds":"9"}]}`, 5120, 0, ""},
		"the largest block":       {`{"nsze":1,"ncap":1,"flbas":0,"lbafs":[` + format(30) + `]}`, 1 << 30, 0, ""},
		"6:5 with 16 formats":     {`{"nsze":10,"ncap":10,"flbas":32,"lbafs":[` + strings.Repeat(format(9)+",", 15) + format(9) + `]}`, 5120, 0, ""},
		"blocks without a size":   {`{"nsze":10,"ncap":10,"flbas":0,"lbafs":[` + format(0) + `]}`, 0, 0, "10 blocks without a size"},
		"less than 512 bytes":     {`{"nsze":10,"ncap":10,"flbas":0,"lbafs":[` + format(8) + `]}`, 0, 0, "10 blocks without a size"},
		"more than can be":        {`{"nsze":18446744073709551615,"ncap":1,"flbas":0,"lbafs":[` + format(9) + `]}`, 0, 0, "more than any device"},
		"one block too many":      {`{"nsze":18014398509481984,"ncap":1,"flbas":0,"lbafs":[` + format(9) + `]}`, 0, 0, "more than any device"},
		"the largest":             {`{"nsze":18014398509481983,"ncap":1,"flbas":0,"lbafs":[` + format(9) + `]}`, 1<<63 - 512, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := nvmecli.ParseNamespace([]byte(tt.text))
			require.NoError(t, err)
			require.Equal(t, tt.format, n.Format)
			size, err := n.Bytes()
			if tt.want != "" {
				refused(t, tt.want, size, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.bytes, size)
		})
	}
	for text, want := range map[string]string{
		`{"ncap":1,"flbas":0,"lbafs":[]}`:                            "nsze is missing",
		`{"nsze":1,"flbas":0,"lbafs":[]}`:                            "ncap is missing",
		`{"nsze":1,"ncap":1,"lbafs":[` + format(9) + `]}`:            "flbas is missing",
		`{"nsze":1,"ncap":1,"flbas":0}`:                              "lbafs is missing",
		`{"nsze":1,"ncap":1,"flbas":0,"lbafs":{}}`:                   "lbafs is not a list",
		`{"nsze":1,"ncap":1,"flbas":0,"lbafs":[]}`:                   "flbas selects format 0 of 0",
		`{"nsze":1,"ncap":1,"flbas":0,"lbafs":[9]}`:                  "lbafs has an element that is not a format",
		`{"nsze":1,"ncap":1,"flbas":2,"lbafs":[{"ms":0,"ds":9}]}`:    "flbas selects format 2 of 1",
		`{"nsze":1,"ncap":1,"flbas":0,"lbafs":[{"ds":9}]}`:           "ms is missing",
		`{"nsze":1,"ncap":1,"flbas":0,"lbafs":[{"ms":0}]}`:           "ds is missing",
		`{"nsze":1,"ncap":1,"flbas":0,"lbafs":[` + format(31) + `]}`: "ds is 31",
		`{"nsze":1,"ncap":1,"flbas":0,"lbafs":[` + format(64) + `]}`: "ds is 64",
		`{"nsze":-1,"ncap":1,"flbas":0,"lbafs":[` + format(9) + `]}`: "nsze is -1",
	} {
		got, err := nvmecli.ParseNamespace([]byte(text))
		refused(t, want, got, err)
	}
}

// F17
func TestNamespaceList(t *testing.T) {
	for text, want := range map[string][]uint32{
		string(sample(t, "list-ns-qemu-2.3.json")): {1, 2},
		string(sample(t, "list-ns-2.3-none.json")): {},
		`{"nsid_list":[{"nsid":7},{"nsid":"2"}]}`:  {2, 7},
		`{"nsid_list":[3,1]}`:                      {1, 3},
		`{"nsid_list":[{"nsid":-2}]}`:              {0xfffffffe},
	} {
		got, err := nvmecli.ParseNamespaceList([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	var full []string
	for i := range 1024 {
		full = append(full, fmt.Sprintf(`{"nsid":%d}`, i+1))
	}
	for text, want := range map[string]string{
		`{}`:                                              "nsid_list is missing",
		`{"nsid_list":null}`:                              "nsid_list is missing",
		`{"nsid_list":{}}`:                                "nsid_list is not a list",
		`{"nsid_list":[{"nsid":0}]}`:                      "nsid is 0",
		`{"nsid_list":[{"nsid":4294967295}]}`:             "nsid is 4294967295",
		`{"nsid_list":[{"nsid":-1}]}`:                     "nsid is 4294967295",
		`{"nsid_list":[{"id":1}]}`:                        "want a whole number",
		`{"nsid_list":[{"nsid":1},1]}`:                    "has a duplicate",
		`{"nsid_list":[` + strings.Join(full, ",") + `]}`: "it lists 1024 namespaces, and there may be more",
	} {
		got, err := nvmecli.ParseNamespaceList([]byte(text))
		refused(t, want, got, err)
	}
	_, err := nvmecli.ParseNamespaceList([]byte(`{"nsid_list":[` + strings.Join(full[:1023], ",") + `]}`))
	require.NoError(t, err)
}
