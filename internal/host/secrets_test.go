package host

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
)

const pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

// writeSecrets writes a secrets file and the host.yaml that names it.
func writeSecrets(t *testing.T, text string) (r *Rules, file string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "secrets")
	require.NoError(t, os.Mkdir(dir, 0o700))
	file = filepath.Join(dir, "secrets.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	r, err := LoadRules(writeRules(t, "secrets: "+file+"\n"))
	require.NoError(t, err)
	return r, file
}

// F13
func TestSecretsAreReadAgainEachTime(t *testing.T) {
	r, file := writeSecrets(t, "rack1: {username: burnish, password: \"0123\", hosts: [bmc1]}\nrack2:\n  username: b\n  "+
		"password: p\n  insecure: true\n  ca: |\n    -----BEGIN CERTIFICATE-----\n    AAAA\n    -----END CERTIFICATE-----\n")
	got, err := r.Secret("rack1")
	require.NoError(t, err)
	require.Equal(t, Secret{Username: "burnish", Password: "0123", Hosts: []string{"bmc1"}}, got)
	got, err = r.Secret("rack2")
	require.NoError(t, err)
	require.Equal(t, Secret{Username: "b", Password: "p", Insecure: true, CA: pem}, got)
	all, err := r.Secrets()
	require.NoError(t, err)
	require.Equal(t, []string{"rack1", "rack2"}, slices.Sorted(maps.Keys(all)))

	authority := filepath.Join(filepath.Dir(file), "ca.pem")
	require.NoError(t, os.WriteFile(authority, []byte(pem), 0o644))
	require.NoError(t, os.WriteFile(file, []byte("rack1: {username: u2, password: p2, ca: "+authority+"}\n"), 0o600))
	got, err = r.Secret("rack1")
	require.NoError(t, err)
	require.Equal(t, Secret{Username: "u2", Password: "p2", CA: pem}, got)
	_, err = r.Secret("rack2")
	requireFault(t, err, device.NeedsOperator, device.CodeSecretInvalid)

	require.NoError(t, os.Remove(authority))
	_, err = r.Secrets()
	fault := requireFault(t, err, device.NeedsOperator, device.CodeSecretInvalid)
	require.Contains(t, fault.Message, authority)
}

// F13
func TestSecretsThatOthersMayReadAreRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o660, 0o610} {
		r, file := writeSecrets(t, "rack1: {username: u, password: p}\n")
		require.NoError(t, os.Chmod(file, mode))
		_, err := r.Secret("rack1")
		fault := requireFault(t, err, device.NeedsOperator, device.CodeSecretInvalid)
		require.Contains(t, fault.Message, file)
		require.NoError(t, os.Chmod(file, 0o400))
		_, err = r.Secret("rack1")
		require.NoError(t, err)
	}
	r, file := writeSecrets(t, "rack1: {username: u, password: p}\n")
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o777))
	_, err := r.Secret("rack1")
	requireFault(t, err, device.NeedsOperator, device.CodeSecretInvalid)
	require.NoError(t, os.Chmod(filepath.Dir(file), 0o755))
	require.NoError(t, os.Rename(file, file+".real"))
	require.NoError(t, os.Symlink(file+".real", file))
	_, err = r.Secret("rack1")
	requireFault(t, err, device.NeedsOperator, device.CodeSecretInvalid)

	for _, r := range []*Rules{{}, DefaultRules(t.TempDir())} {
		_, err := r.Secret("rack1")
		requireFault(t, err, device.NeedsOperator, device.CodeSecretInvalid)
		all, err := r.Secrets()
		require.NoError(t, err)
		require.Empty(t, all)
	}
}

func TestMistakesInSecretsHaveTheirLineAndNoValue(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"no mapping":       {"- hunter2\n", "line 1: the secrets file must be a mapping"},
		"no YAML":          {"rack1:\n  password: \"hunter2\n", "this is not valid YAML"},
		"no YAML, tab":     {"rack1:\n\tpassword: hunter2\n", "line 2: this is not valid YAML"},
		"second document":  {"a: {username: u, password: hunter2}\n---\nb: hunter2\n", "this is not valid YAML"},
		"no password":      {"a: {username: hunter2}\n", "line 1: secret a has no password"},
		"no user":          {"\na:\n  password: hunter2\n", "secret a has no username"},
		"number":           {"a:\n  username: u\n  password: 712345\n", "line 3: password of secret a must be text"},
		"empty":            {"a:\n  username: u\n  password: \"\"\n", "line 3: password of secret a is empty"},
		"unknown key":      {"a:\n  username: u\n  password: p\n  hunter2: x\n", "line 4: unknown key in secret a"},
		"relative CA":      {"a:\n  username: u\n  password: hunter2\n  ca: hunter2.pem\n", "line 4: ca of secret a must be a PEM or an absolute path"},
		"insecure as text": {"a:\n  username: u\n  password: hunter2\n  insecure: \"hunter2\"\n", "line 4: insecure of secret a must be true or false"},
		"alias":            {"a: &x {username: u, password: hunter2}\nb: *x\n", "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, file := writeSecrets(t, tt.text)
			_, err := r.Secret("a")
			fault := requireFault(t, err, device.NeedsOperator, device.CodeSecretInvalid)
			require.Contains(t, fault.Message, file)
			require.Contains(t, fault.Message, tt.want)
			require.NotContains(t, fault.Error(), "hunter2")
			require.NotContains(t, fault.Error(), "712345")
		})
	}
}

// Which BMC gets a secret is not the enrollment's word alone: who may enroll could have it sent to himself.
//
// F13
func TestASecretGoesToItsBMCsAlone(t *testing.T) {
	const of = "a: {username: u, password: hunter2, "
	for text, want := range map[string]map[string]bool{
		"ca: /ca.pem}": {"anywhere.example": true, "192.0.2.1": true},
		"hosts: [10.0.0.0/24, 10.1.0.7, 'fd00::/64', BMC1.example], insecure: true}": {
			"10.0.0.255": true, "::ffff:10.0.0.1": true, "10.1.0.7": true, "fd00::1": true, "bmc1.example": true,
			"BMC1.Example": true, "10.0.1.0": false, "10.1.0.70": false, "fd00:0:0:1::1": false, "bmc1.example.org": false,
			"bmc1": false, "10.0.0.1.example": false, "10.0.0.1.": false, "": false,
		},
		"ca: /ca.pem, hosts: [bmc1]}": {"bmc1": true, "bmc2": false},
		"ca: /ca.pem, hosts: []}":     {"bmc1": false},
	} {
		all, err := parseSecrets("secrets.yaml", []byte(of+text+"\n"))
		require.NoError(t, err, text)
		require.False(t, all["a"].ForAnybody(), text)
		for host, may := range want {
			require.Equal(t, may, all["a"].MayGoTo(host), "%s: %s", text, host)
		}
	}
	for _, text := range []string{"}", "insecure: true}", "ca: /ca.pem, insecure: true}"} {
		all, err := parseSecrets("secrets.yaml", []byte(of+text+"\n"))
		require.NoError(t, err, text)
		require.True(t, all["a"].ForAnybody(), text)
	}
	for text, want := range map[string]string{
		"hosts: ['*']}":                    "line 1: an entry of hosts of secret a must be the name of a BMC",
		"hosts: ['10.0.0.0/33']}":          "must be the name of a BMC",
		"hosts: ['bmc1:443']}":             "must be the name of a BMC",
		"hosts: ['https://bmc1/hunter2']}": "must be the name of a BMC",
		"hosts: ['']}":                     "is empty",
		"hosts: bmc1}":                     "must be a list",
	} {
		_, err := parseSecrets("secrets.yaml", []byte(of+text+"\n"))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestASecretDoesNotPrint(t *testing.T) {
	s := Secret{Username: "u", Password: "hunter2"}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		require.NotContains(t, fmt.Sprintf(format, s), "hunter2")
		require.NotContains(t, fmt.Sprintf(format, struct{ S Secret }{s}), "hunter2")
	}
}

// F13
func TestANodeIsAllowedByItsWholeSerial(t *testing.T) {
	r, err := LoadRules(writeRules(t, "allow:\n  nodes: [7ABC123, 0012, \"S 1\"]\n"))
	require.NoError(t, err)
	for _, serial := range []string{"7ABC123", "0012", "S_1"} {
		require.NoError(t, r.AllowNode(serial))
	}
	for _, serial := range []string{"", "7ABC12", "7abc123", "12", "*", "7ABC123 "} {
		requireFault(t, r.AllowNode(serial), device.NeedsOperator, device.CodeNotAllowed)
	}
	for _, r := range []*Rules{{}, DefaultRules(t.TempDir())} {
		requireFault(t, r.AllowNode("7ABC123"), device.NeedsOperator, device.CodeNotAllowed)
	}
	for _, bad := range []string{"[\"\"]", "[\"*\"]", "[[a]]", "{a: b}"} {
		_, err := LoadRules(writeRules(t, "allow:\n  nodes: "+bad+"\n"))
		require.ErrorContains(t, err, "line 2", bad)
	}
}
