package redfish

import (
	"encoding/json"
	"math"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// read decodes one property of a resource of a BMC.
func read[T any](text string) (T, error) {
	var body struct{ Value T }
	b := &bmc{base: &url.URL{Scheme: "https", Host: "10.0.0.17"}}
	err := answer{Body: []byte(`{"Value": ` + text + `}`), Path: "/redfish/v1/Systems/1/", bmc: b}.decode(&body)
	return body.Value, err
}

func reads[T any](t *testing.T, want T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		got, err := read[T](text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func refuses[T any](t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		_, err := read[T](text)
		require.Error(t, err, text)
	}
}

func TestNumbersAreReadAsBMCsWriteThem(t *testing.T) {
	reads[int64](t, 122_880_000_000_000, `122880000000000`, `1.2288e+14`, `1.2288E14`, `122880000000000.0`,
		`"122880000000000"`, `"1.2288e+14"`)
	reads[int64](t, 219_999_996_215_300, `2.199999962153e+14`)
	reads[int64](t, 9_007_199_254_740_993, `9007199254740993`, `9.007199254740993e15`)
	reads[int64](t, math.MaxInt64, `9223372036854775807`, `9.223372036854775807e18`)
	reads(t, 26, `26`, `26.0`, `2.6e1`, `2600e-2`)
	reads(t, 0, `0`, `-0.0`, `null`, `""`, `[]`, `{}`)
	reads(t, -7, `-7`, `-7.00`)
	reads(t, 0.08, `0.08`, `8e-2`, `"0.08"`)
	refuses[int](t, `26.5`, `1e-1`, `1e400`, `1e999999999`, `9223372036854775808`, `9.3e18`,
		`true`, `"26 %"`, `"0x1a"`, `"Inf"`, `[26]`, `{"Count": 26}`)
	refuses[float64](t, `"3.84 TB"`, `[1.5]`, `false`)
}

func TestValuesAreReadAsBMCsWriteThem(t *testing.T) {
	reads(t, true, `true`, `"True"`)
	reads(t, false, `false`, `"FALSE"`, `null`, `[]`)
	refuses[bool](t, `1`, `"yes"`, `[true]`)
	reads(t, "867959", `867959`, `"867959"`)
	reads(t, "1.50", `1.50`)
	reads(t, "", `null`, `""`, `[]`, `{}`)
	refuses[string](t, `true`, `["a"]`, `{"a": 1}`)
	reads(t, []string{"a", "1"}, `["a", 1]`)
	reads(t, []string{}, `[]`, `null`, `{}`, `""`)
	refuses[[]string](t, `"a"`, `{"a": "b"}`, `[["a"]]`)
	reads(t, resourceStatus{State: "Enabled"}, `{"State": "Enabled", "Health": null}`,
		`{"state": "Enabled", "Health": []}`)
	reads(t, resourceStatus{}, `{}`, `[]`, `null`, `""`)
	refuses[resourceStatus](t, `["Enabled"]`, `"OK"`, `{"State": ["Enabled"]}`)
	reads(t, attributes{"A": json.Number("26"), "B": "26.0", "C": json.Number("1.5"), "D": nil, "E": true},
		`{"A": 2.60e1, "B": "26.0", "C": 1.5, "D": null, "E": true}`)
}

func TestLinksAreReadAsBMCsWriteThem(t *testing.T) {
	const path = "/redfish/v1/Systems/1/Bios"
	reads[link](t, path, `{"@odata.id": "`+path+`"}`, `{"href": "`+path+`"}`, `"`+path+`"`,
		`"https://10.0.0.17`+path+`"`, `"https://10.0.0.17:443`+path+`"`, `"http://10.0.0.17`+path+`"`,
		`"//10.0.0.17`+path+`"`, `"redfish/v1/Systems/1/Bios"`, `"Bios"`, `"./Bios"`, `"../1/Bios"`)
	reads[link](t, "", `null`, `{}`, `[]`, `""`, `{"@odata.id": ""}`, `{"@odata.id": null}`, `{"@odata.id": []}`)
	refuses[link](t, `"https://10.0.0.18`+path+`"`, `"https://10.0.0.17:8443`+path+`"`, `"http://10.0.0.17:80`+path+`"`,
		`{"Odd": "/redfish/v1/x"}`, `[{"@odata.id": "/redfish/v1/x"}]`, `1`, `{"@odata.id": {"a": 1}}`)
}

func TestLinksAreRelativeToTheirResource(t *testing.T) {
	b := &bmc{base: &url.URL{Scheme: "https", Host: "bmc.example:8443"}}
	const path = "/redfish/v1/Managers/a%20b/Jobs?$expand=*($levels=1)"
	for link, want := range map[string]string{
		"?$skip=50":                             "/redfish/v1/Managers/a%20b/Jobs?$skip=50",
		"Jobs/1":                                "/redfish/v1/Managers/a%20b/Jobs/1",
		"/redfish/v1/x?a=b#/c":                  "/redfish/v1/x?a=b",
		"https://BMC.example:8443/redfish/v1/x": "/redfish/v1/x",
		"https://bmc.example/redfish/v1/x":      "",
		"https://other.example:8443/x":          "",
		"//other.example/x":                     "",
		"https://u:p@bmc.example:8443/x":        "",
		"https://bmc.example:8443":              "",
		"@other.example/x":                      "/redfish/v1/Managers/a%20b/@other.example/x",
		"javascript:x":                          "",
	} {
		require.Equal(t, want, b.path(path, link), link)
		require.Equal(t, want, b.path(path, " "+link+"\n"), "with blanks")
	}
}

func TestActionsAreFoundByTheirNameWithoutAVersion(t *testing.T) {
	for _, key := range []string{
		"#DellManager.ClearPending", "#DellManager.v1_0_0.ClearPending", "DellManager.v1_0_0#DellManager.ClearPending",
		"#DellManager.v1_2_0.DellManager#DellManager.ClearPending", "#dellmanager.clearpending",
	} {
		var body bios
		text := `{"Actions": {"Oem": {"` + key + `": {"target": "/x"}}}}`
		require.NoError(t, answer{Body: []byte(text), bmc: &bmc{}}.decode(&body), key)
		require.EqualValues(t, "/x", body.Actions.Oem.ClearPending.Target, key)
	}
}

func TestABodyIsOneDocument(t *testing.T) {
	for _, text := range []string{``, `{`, `{} {}`, `{}]`, `{"error": {}}{"Members": []}`, `<html>`, `[]x`} {
		var body struct{ Value string }
		require.Error(t, answer{Body: []byte(text)}.decode(&body), text)
	}
}
