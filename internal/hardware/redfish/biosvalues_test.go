package redfish

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const testRegistry = `{"RegistryEntries": {"Attributes": [
	{"AttributeName": "Mode", "Type": "Enumeration", "DefaultValue": "Uefi", "ReadOnly": false,
		"Value": [{"ValueName": "Uefi"}, {"ValueName": "Bios"}]},
	{"AttributeName": "Delay", "Type": "Integer", "DefaultValue": "60", "LowerBound": 10, "UpperBound": "240"},
	{"AttributeName": "Free", "Type": "Integer", "DefaultValue": 5, "LowerBound": 0, "UpperBound": 0},
	{"AttributeName": "Quiet", "Type": "Boolean", "DefaultValue": true},
	{"AttributeName": "Title", "Type": "String", "DefaultValue": "", "MinLength": 2, "MaxLength": 4},
	{"AttributeName": "Version", "Type": "String", "DefaultValue": "1", "ReadOnly": true},
	{"AttributeName": "Once", "Type": "String", "DefaultValue": "1", "Immutable": true},
	{"AttributeName": "SetupPassword", "Type": "Password", "DefaultValue": ""},
	{"AttributeName": "Owner", "Type": "String", "DefaultValue": "", "IsSystemUniqueProperty": true},
	{"AttributeName": "ServerAssetTag", "Type": "String", "DefaultValue": ""},
	{"AttributeName": "SystemDate", "Type": "String", "DefaultValue": ""},
	{"AttributeName": "TimeZone", "Type": "String", "DefaultValue": "UTC"},
	{"AttributeName": "NoDefault", "Type": "String", "DefaultValue": null}, null
]}}`

const testAttributes = `{"Mode": "Bios", "Delay": 60, "Free": 5.0, "Quiet": "True", "Title": "x", "Version": "2",
  "Once": "2", "Owner": "me",
	"ServerAssetTag": "4", "SystemDate": "today", "TimeZone": "UTC", "NoDefault": "y", "Unknown": 1, "Nothing": null,
		"List": ["a"]}`

func parseBIOS(t *testing.T) (attributes, registry) {
	t.Helper()
	var file registryFile
	require.NoError(t, answer{Body: []byte(testRegistry)}.decode(&file))
	var body bios
	require.NoError(t, answer{Body: []byte(`{"Attributes": ` + testAttributes + `}`)}.decode(&body))
	return body.Attributes, file.registry()
}

func TestBIOSIsComparedWithTheDefaultsOfSettingsOnly(t *testing.T) {
	a, r := parseBIOS(t)
	compared, differ := notDefault(a, r)
	require.Equal(t, 6, compared, "Mode, Delay, Free, Quiet, Title, TimeZone")
	require.Equal(t, []string{`Mode is "Bios" instead of "Uefi"`, `Title is "x" instead of ""`}, differ)
	compared, differ = notDefault(a, nil)
	require.Zero(t, compared)
	require.Empty(t, differ)
}

func TestBIOSValuesAreTheSame(t *testing.T) {
	for _, same := range [][2]any{{json.Number("1"), json.Number("1.0")}, {json.Number("60"), "60"}, {true, "True"},
		{"a", "a"}, {json.Number("9007199254740993"), "9007199254740993"}, {json.Number("1.2288e+14"), "122880000000000"}} {
		require.True(t, sameValue(same[0], same[1]), "%v", same)
	}
	for _, other := range [][2]any{{"1", "1.0"}, {"True", "true"}, {json.Number("1"), json.Number("2")}, {nil, "a"},
		{false, json.Number("0")}, {json.Number("9007199254740993"), json.Number("9007199254740992")}} {
		require.False(t, sameValue(other[0], other[1]), "%v", other)
	}
}

func TestBIOSSettingsFit(t *testing.T) {
	a, r := parseBIOS(t)
	fitted, err := fit(attributes{"Mode": "Uefi", "Delay": "240", "Free": json.Number("-7"), "Quiet": "FALSE",
		"Title": "abcd"}, a, r)
	require.NoError(t, err)
	require.Equal(t, attributes{"Mode": "Uefi", "Delay": json.Number("240"), "Free": json.Number("-7"), "Quiet": false,
		"Title": "abcd"}, fitted)
	fitted, err = fit(attributes{"Delay": "7", "Mode": true}, a, nil)
	require.NoError(t, err, "without a registry the present value says the type")
	require.Equal(t, attributes{"Delay": json.Number("7"), "Mode": "true"}, fitted)
	fitted, err = fit(attributes{"Delay": "soon", "Quiet": json.Number("1"), "Other": "1"}, a, r)
	require.NoError(t, err, "the BMC refuses it")
	require.Equal(t, attributes{"Delay": "soon", "Quiet": json.Number("1"), "Other": "1"}, fitted)
	for says, wrong := range map[string]attributes{
		"SetupPassword is a password": {"SetupPassword": "geheim"}, "Title is neither text": {"Title": nil},
	} {
		_, err := fit(wrong, a, r)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "geheim")
	}
}

func TestBIOSPendingIsWhatDiffers(t *testing.T) {
	a, r := parseBIOS(t)
	settings := attributes{"Mode": "Uefi", "Delay": "60", "Version": "9", "SetupPassword": "", "Nothing": nil,
		"Title": "yy"}
	require.Equal(t, attributes{"Mode": "Uefi", "Title": "yy"}, pendingIn(settings, a, r))
}
