package config_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/config"
	"burnish/internal/device"
	"burnish/internal/logs"
)

// only sets these variables, and unsets Burnish's others.
func only(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "BURNISH_") {
			t.Setenv(name, "") // so that it is restored
			require.NoError(t, os.Unsetenv(name))
		}
	}
	for name, value := range variables {
		t.Setenv("BURNISH_"+name, value)
	}
}

// setting is one variable: its default, a valid value with its result, and invalid
// values.
type setting struct {
	field    string
	byItself any
	good     string
	becomes  any
	bad      map[string]string // value: part of its error
}

func settings(t *testing.T) map[string]setting {
	t.Helper()
	machine, err := os.Hostname()
	require.NoError(t, err)
	noBool := map[string]string{"yes": `"yes"`, "maybe": `"maybe"`}
	duration := func(more map[string]string) map[string]string {
		more["5"] = `missing unit in duration "5"`
		more["soon"] = `"soon"`
		return more
	}
	return map[string]setting{
		"ROLE":      {"Role", config.RoleAll, "host", config.RoleHost, map[string]string{"Host": `"Host" is not one of control, host, all`, "both": `"both"`}},
		"HOST":      {"Host", strings.ToLower(machine), "Node-7.Example", "node-7.example", map[string]string{"a b": `"a b" is not a valid host name`, "-a": `"-a"`, "a/b": `"a/b"`, "a_b": `"a_b"`, "a.": `"a."`}},
		"STATE_DIR": {"StateDir", "/var/lib/burnish", "/srv/../state", "/state", nil},
		"HOST_FILE": {"HostFile", "", "/etc/burnish/host.yaml", "/etc/burnish/host.yaml", nil},
		"POLICY":    {"PolicyFile", "", "testdata/policy.yaml", "testdata/policy.yaml", map[string]string{"testdata/none.yaml": "testdata/none.yaml"}},
		"INVENTORY": {"Inventory", "file", "placement", "placement", nil}, // backends.Open checks the kind
		"NOVA_HOSTS": {"NovaHosts", config.NameMap(nil), " Cmp_1.Example=Node-1 , cmp2=node-2",
			config.NameMap{"cmp_1.example": "node-1", "cmp2": "node-2"}, map[string]string{
				"cmp1": `"cmp1" is not of the form NAME=NAME`, "a=b,A=c": `"A" is listed twice`, "a=": `"a="`, "a=b,": `""`, "a b=c": `"a b" is not a valid host name`, "a=b_c": `"b_c" is not a valid host name`}},
		"TRAITS": {"Traits", config.NameMap(nil), "HW_NVME_CES=CUSTOM_NVME_CES",
			config.NameMap{"HW_NVME_CES": "CUSTOM_NVME_CES"}, map[string]string{
				"HW_X=HW_Y": `"HW_Y" does not have the form CUSTOM_X`, "CUSTOM_X=CUSTOM_Y": `"CUSTOM_X" is not a standard trait`, "hw_x=CUSTOM_X": `"hw_x"`}},
		"DRIVERS": {"Drivers", []string{"block", "fake"}, " nvme , block", []string{"nvme", "block"}, map[string]string{"block,,fake": `"block,,fake" has an empty name`, ",": "empty"}},
		"HOST_SILENT_AFTER": {"HostSilentAfter", 5 * time.Minute, "90s", 90 * time.Second,
			duration(map[string]string{"0s": "0s is not positive", "-1s": "-1s is not positive"})},
		"TELL_AFTER": {"TellAfter", 5 * time.Minute, "90s", 90 * time.Second,
			duration(map[string]string{"0s": "0s is not positive", "-1s": "-1s is not positive"})},
		"CLEANUP_TIMEOUT":     {"CleanupTimeout", time.Duration(0), "15m", 15 * time.Minute, duration(map[string]string{"-1s": "-1s is negative"})},
		"ON_INTERRUPT":        {"OnInterrupt", device.InterruptResume, "error", device.InterruptError, map[string]string{"Resume": `"Resume" is neither resume nor error`}},
		"AUTOMATED_CLEAN":     {"Automated", true, "false", false, noBool},
		"CLEAN_ON_ENROLL":     {"OnEnroll", true, "0", false, noBool},
		"MAX_CLEANS_PER_HOST": {"MaxCleansPerHost", 4, "1000", 1000, map[string]string{"0": "0 is not within 1 to 1000", "1001": "1001", "-1": "-1", "many": `"many"`, "1.5": `"1.5"`}},
		"VERIFY":              {"Verify", "full", "sample:8", "sample:8", map[string]string{"half": `"half" is neither full nor sample:N`, "sample:0": "neither", "Full": "neither"}},
		"WORKFLOW_CACHE":      {"StickyCache", 2000, "1", 1, map[string]string{"0": "0 is less than 1", "x": `"x"`}},
		"API_KEY":             {"APIKey", "", "/etc/burnish/api.key", "/etc/burnish/api.key", map[string]string{"api.key": "\"api.key\" is not an absolute path"}},
		"NVME_HELPER":         {"NVMeHelper", "", "/usr/libexec/burnish-nvme-helper", "/usr/libexec/burnish-nvme-helper", map[string]string{"helper": "\"helper\" is not an absolute path"}},
		"SWEEP_INTERVAL":      {"SweepInterval", time.Minute, "5m", 5 * time.Minute, map[string]string{"-1s": "is negative", "x": "invalid duration"}},
		"AMQP_URL": {"NovaBroker", "", "rabbit://u:p@h1:5672,u:p@h2:5672/nova", "rabbit://u:p@h1:5672,u:p@h2:5672/nova",
			map[string]string{"h1:5672": "does not begin with amqp://", "amqp://u:p@h1:x": "is not USER:PASSWORD@HOST:PORT", "amqp://u:p@h1,h2": "some of its hosts"}},
		"ONEVIEW":         {"OneView", "", "/etc/burnish/oneview.yaml", "/etc/burnish/oneview.yaml", nil}, // oneview.CheckFile reads it
		"STOP_TIMEOUT":    {"GracefulStop", 30 * time.Second, "1s", time.Second, duration(map[string]string{"0s": "0s is not positive"})},
		"ACCEPT_SERVER":   {"AcceptServer", "", "c1/burnish", "c1/burnish", map[string]string{"c1": `"c1" is not of the form CLUSTER/NAMESPACE`, "/n1": "not of the form", "c1/": "not of the form"}},
		"CODEC_KEYS":      {"CodecKeys", "", "/etc/burnish/codec.keys", "/etc/burnish/codec.keys", map[string]string{"codec.keys": "\"codec.keys\" is not an absolute path"}},
		"HOST_KEY":        {"HostKey", "", "/etc/burnish/host.key", "/etc/burnish/host.key", map[string]string{"host.key": "\"host.key\" is not an absolute path"}},
		"HOST_KEYS":       {"HostKeys", "", "/etc/burnish/host_keys.yaml", "/etc/burnish/host_keys.yaml", map[string]string{"host_keys.yaml": "\"host_keys.yaml\" is not an absolute path"}},
		"VERSIONED":       {"Versioned", false, "true", true, noBool},
		"METRICS_ADDRESS": {"MetricsAddress", "", "127.0.0.1:9464", "127.0.0.1:9464", map[string]string{"9464": "not of the form HOST:PORT"}},
		"METADATA_ADDRESS": {"MetadataAddress", "", ":8775", ":8775", map[string]string{
			"8775": "not of the form HOST:PORT", "127.0.0.1:http": "not of the form", "127.0.0.1:0": "not of the form",
			"unix:/run/metadata.sock": "not of the form"}},
		"METADATA_SECRET_FILE": {"MetadataSecretFile", "", "/etc/burnish/metadata.secret", "/etc/burnish/metadata.secret",
			map[string]string{
				"metadata.secret": `"metadata.secret" is not an absolute path`}},
		"API_ADDRESS": {"APIAddress", "", "unix:/run/burnish/api.sock", "unix:/run/burnish/api.sock", map[string]string{
			"8080": "neither HOST:PORT nor unix:/path", "127.0.0.1:http": "neither", "127.0.0.1:0": "neither",
			"unix:api.sock": "absolute path", "unix:/run/../api": "absolute path",
			":8080": "set BURNISH_API_TLS_CERT and _KEY", "0.0.0.0:8080": "other machines", "[::]:8080": "other machines",
			"control1:8080": "other machines"}},
		"API_TOKENS": {"APITokens", "", "/etc/burnish/tokens.yaml", "/etc/burnish/tokens.yaml", nil},         // access.OpenTokens reads it
		"API_POLICY": {"APIPolicy", "", "/etc/burnish/api-policy.yaml", "/etc/burnish/api-policy.yaml", nil}, // access.ReadPolicy reads it
		"API_HOSTS": {"APIHosts", []string(nil), "API.example.org., [::1]", []string{"api.example.org", "::1"},
			map[string]string{
				"a b": `"a b"`, "api:8080": "without a port", "http://api": "not a host's name", "*": `"*"`, "a,,b": `""`}},
		"API_TLS_CERT":    {"APITLSCert", "", "/etc/burnish/api.pem", "/etc/burnish/api.pem", nil},
		"API_TLS_KEY":     {"APITLSKey", "", "/etc/burnish/api.key", "/etc/burnish/api.key", nil},
		"API_RATE":        {"APIRate", 10, "50", 50, map[string]string{"0": "0 is not within 1 to 10000", "-1": "-1", "10001": "10001", "many": `"many"`}},
		"API_CONCURRENCY": {"APIConcurrency", 32, "1", 1, map[string]string{"0": "0 is not within 1 to 1000", "1001": "1001", "x": `"x"`}},
		"LOG_FORMAT":      {"LogFormat", logs.Text, "json", logs.JSON, map[string]string{"JSON": `"JSON" is neither text nor json`, "logfmt": "neither"}},
		"LOG_LEVEL":       {"LogLevel", logs.Level("info"), "debug", logs.Level("debug"), map[string]string{"DEBUG": `"DEBUG" is not one of debug, info, warn, error`, "2": "not one of"}},
		"DEBUG":           {"Debug", false, "true", true, noBool},
	}
}

func fieldOf(w config.Worker, name string) any {
	return reflect.ValueOf(w).FieldByName(name).Interface()
}

// Every variable is in the table of this test.
func TestTheTableOfSettingsIsComplete(t *testing.T) {
	table := settings(t)
	count := 0
	for _, field := range reflect.VisibleFields(reflect.TypeFor[config.Worker]()) {
		tag, ok := field.Tag.Lookup("env")
		if !ok {
			continue
		}
		count++
		name, _, _ := strings.Cut(tag, ",")
		require.Contains(t, table, name)
		require.Equal(t, field.Name, table[name].field)
	}
	require.Len(t, table, count)
}

// An empty variable counts as not set: `BURNISH_X= burnish-worker`.
func TestDefaults(t *testing.T) {
	empty := map[string]string{}
	for name := range settings(t) {
		empty[name] = ""
	}
	for _, variables := range []map[string]string{nil, empty} {
		only(t, variables)
		w, err := config.LoadWorker()
		require.NoError(t, err)
		for name, s := range settings(t) {
			require.Equal(t, s.byItself, fieldOf(w, s.field), name)
		}
		require.Empty(t, w.Policy.Priorities)
	}
}

// S3.6
func TestGoodValues(t *testing.T) {
	for name, s := range settings(t) {
		t.Run(name, func(t *testing.T) {
			only(t, map[string]string{name: s.good})
			w, err := config.LoadWorker()
			require.NoError(t, err)
			require.Equal(t, s.becomes, fieldOf(w, s.field))
			require.NotEqual(t, s.byItself, fieldOf(w, s.field), "this says nothing")
			for other, o := range settings(t) {
				if other != name {
					require.Equal(t, o.byItself, fieldOf(w, o.field), "%s changes %s", name, other)
				}
			}
		})
	}
}

func TestBadValues(t *testing.T) {
	for name, s := range settings(t) {
		for value, says := range s.bad {
			t.Run(name+"="+value, func(t *testing.T) {
				only(t, map[string]string{name: value})
				_, err := config.LoadWorker()
				require.Error(t, err)
				require.True(t, strings.HasPrefix(err.Error(), "BURNISH_"+name+": "), err.Error())
				require.ErrorContains(t, err, says)
				require.NotContains(t, err.Error(), "\n", "one line")
			})
		}
	}
}

// All bad values are reported at once, one a line.
func TestEachBadValueHasItsLine(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"of their form": {"DEBUG": "x", "WORKFLOW_CACHE": "x", "STOP_TIMEOUT": "x", "AUTOMATED_CLEAN": "x"},
		"of their value": {"ROLE": "x", "HOST": "a b", "ON_INTERRUPT": "x", "HOST_SILENT_AFTER": "0s",
			"CLEANUP_TIMEOUT":     "-1s",
			"MAX_CLEANS_PER_HOST": "0", "WORKFLOW_CACHE": "0", "STOP_TIMEOUT": "0s", "DRIVERS": "a,"},
	} {
		t.Run(name, func(t *testing.T) {
			only(t, variables)
			_, err := config.LoadWorker()
			require.Error(t, err)
			lines := strings.Split(err.Error(), "\n")
			require.Len(t, lines, len(variables), err.Error())
			for variable := range variables {
				count := 0
				for _, line := range lines {
					if strings.HasPrefix(line, "BURNISH_"+variable+": ") {
						count++
					}
				}
				require.Equal(t, 1, count, "%s in %q", variable, err.Error())
			}
		})
	}
}

// The planner's policy has every setting of cleans.
func TestThePolicyHasEverySetting(t *testing.T) {
	only(t, nil)
	w, err := config.LoadWorker()
	require.NoError(t, err)
	require.Equal(t, clean.Policy{Automated: true, OnEnroll: true, HostSilentAfter: 5 * time.Minute,
		StepSettings: device.StepSettings{
			Verify: "full", OnInterrupt: device.InterruptResume, SanitizeStall: 10 * time.Minute, TellAfter: 5 * time.Minute,
		}}, w.Policy)

	only(t, map[string]string{
		"POLICY": "testdata/policy.yaml", "CLEANUP_TIMEOUT": "1h", "AUTOMATED_CLEAN": "false", "CLEAN_ON_ENROLL": "false",
		"ON_INTERRUPT": "error", "HOST_SILENT_AFTER": "1m", "TELL_AFTER": "2m", "VERIFY": "sample:2",
	})
	w, err = config.LoadWorker()
	require.NoError(t, err)
	require.Equal(t, clean.Policy{
		Priorities: map[string]float64{"zero": 71.5, "firmware_reflash": 0}, CleanupTimeout: time.Hour,
		HostSilentAfter: time.Minute, NVMe: clean.ErasePolicy{Action: "sanitize", Strategy: "block"},
		StepSettings: device.StepSettings{
			Verify: "sample:2", OnInterrupt: device.InterruptError,
			Wear: device.WearLimits{PercentUsed: 80, Spare: 20}, SanitizeStall: 30 * time.Minute, TellAfter: 2 * time.Minute,
		},
	}, w.Policy)
}

// The help has one line for each setting, with its purpose and default.
func TestHelpListsEverySetting(t *testing.T) {
	help, err := config.WorkerHelp()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(help, "\n"), "\n")
	table := settings(t)
	require.Len(t, lines, len(table), help)
	defaults := map[string]string{
		"ROLE": "all", "STATE_DIR": "/var/lib/burnish", "INVENTORY": "file", "DRIVERS": "block,fake",
		"HOST_SILENT_AFTER": "5m", "TELL_AFTER": "5m",
		"ON_INTERRUPT": "resume", "AUTOMATED_CLEAN": "true", "CLEAN_ON_ENROLL": "true", "MAX_CLEANS_PER_HOST": "4",
		"VERIFY":         "full",
		"WORKFLOW_CACHE": "2000", "STOP_TIMEOUT": "30s", "LOG_FORMAT": "text", "LOG_LEVEL": "info", "DEBUG": "false",
		"SWEEP_INTERVAL": "60s", "VERSIONED": "false",
		"API_RATE": "10", "API_CONCURRENCY": "32",
	}
	for _, line := range lines {
		variable, about, found := strings.Cut(strings.TrimSpace(line), " ")
		require.True(t, found, line)
		name, found := strings.CutPrefix(variable, "BURNISH_")
		require.True(t, found, line)
		require.Contains(t, table, name)
		delete(table, name)
		require.NotEmpty(t, strings.TrimSpace(about), line)
		if def, ok := defaults[name]; ok {
			require.True(t, strings.HasSuffix(line, " ("+def+")"), line)
		} else {
			require.False(t, strings.HasSuffix(line, ")"), line)
		}
	}
	require.Empty(t, table, "not in the help")
}

// A misspelled variable is named with the one that was probably meant, and with none if it is
// like no other.
func TestTheNearestSetting(t *testing.T) {
	for unknown, near := range map[string]string{
		"BURNISH_HOSTFILE":          "BURNISH_HOST_FILE",
		"BURNISH_DRIVER":            "BURNISH_DRIVERS",
		"BURNISH_STATEDIR":          "BURNISH_STATE_DIR",
		"BURNISH_MAX_CLEANS":        "BURNISH_MAX_CLEANS_PER_HOST",
		"BURNISH_LOGLEVEL":          "BURNISH_LOG_LEVEL",
		"BURNISH_AMPQ_URL":          "BURNISH_AMQP_URL",
		"BURNISH_API_TOKN":          "BURNISH_API_TOKEN",
		"BURNISH_SILENT_AFTER":      "",
		"BURNISH_EXTRA_HOP_COUNTER": "",
		"BURNISH_X":                 "",
	} {
		require.Equal(t, near, config.Nearest(unknown), unknown)
	}
}
