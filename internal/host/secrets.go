package host

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/yamlfile"
)

// Secret is what a BMC wants to know, and how the BMC proves who it is. It is never part of an
// error, a log, a record or an answer.
//
// The file that host.yaml names in secrets has one for each name. Which BMC gets it says the
// enrollment, and so whoever may enroll a server, unless the secret names the BMCs in hosts, or has
// their authority, which is checked. All keys but username and password are optional:
//
//	rack1:
//	  username: burnish
//	  password: "…"
//	  ca: /etc/burnish/bmc-ca.pem   # or the PEM itself
//	  insecure: false
//	  hosts: [10.0.0.0/24, bmc1.example] # addresses, networks, and names as the enrollment's url has them
//	  first_password: "…"           # that of the user after the BMC was reset to its defaults
//
// The file and its directory have the owner of host.yaml, and only that owner may read it.
type Secret struct {
	Username, Password string
	// FirstPassword is the one that the user has after the BMC was reset to its defaults; "": unknown.
	FirstPassword string
	// CA is the PEM of the certificates that the BMC's is checked with; "": the host's own.
	CA string
	// Insecure: the BMC's certificate is not checked.
	Insecure bool
	// Hosts are the BMCs that may get it, in lower case; nil: every one whose certificate is right.
	Hosts []string
}

// MayGoTo says whether a host, as a URL names it, may get the secret.
func (s Secret) MayGoTo(host string) bool {
	address, _ := netip.ParseAddr(host) // of a name: the zero address, which no network has
	return s.Hosts == nil || slices.ContainsFunc(s.Hosts, func(one string) bool {
		network, err := networkOf(one)
		return err == nil && network.Contains(address.Unmap()) || one == strings.ToLower(host)
	})
}

// networkOf reads a network, or an address as a network of one.
func networkOf(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		return netip.ParsePrefix(text)
	}
	address, err := netip.ParseAddr(text)
	return netip.PrefixFrom(address, address.BitLen()), err
}

// String keeps a secret out of what prints it.
func (s Secret) String() string { return fmt.Sprintf("secret of the user %q", s.Username) }

// GoString does the same for %#v.
func (s Secret) GoString() string { return s.String() }

// Secret gives the secret of this name, as the secrets file has it now. Its fault is
// secret_invalid.
func (r *Rules) Secret(name string) (Secret, error) {
	all, file, err := r.secrets()
	if err != nil {
		return Secret{}, err
	}
	s, ok := all[name]
	if !ok {
		return Secret{}, secretInvalid("add it to "+file, "%s has no secret %q", file, name)
	}
	if s, err = s.loadCA(r.owner()); err != nil {
		return Secret{}, secretInvalid("correct it; no restart is needed", "the CA of the secret %q: %v", name, err)
	}
	return s, nil
}

// LoadCA reads the CA where it is a path. The file's owner is root or this process's user.
func (s Secret) LoadCA() (Secret, error) { return s.loadCA(uint32(os.Geteuid())) }

func (s Secret) loadCA(owner uint32) (Secret, error) {
	if s.CA == "" || strings.Contains(s.CA, pemBegins) {
		return s, nil
	}
	text, err := readTrusted(s.CA, owner, largestRules, false)
	if err != nil {
		return Secret{}, err
	}
	s.CA = string(text)
	return s, nil
}

const pemBegins = "-----BEGIN"

// TLS is how a connection checks the certificate of who wants the secret.
func (s Secret) TLS() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: s.Insecure}
	if s.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, errors.New("the CA has no certificate")
		}
	}
	return config, nil
}

// ForAnybody says that any address which an enrollment names gets the secret.
func (s Secret) ForAnybody() bool { return s.Hosts == nil && (s.CA == "" || s.Insecure) }

// Secrets checks the secrets file and every CA that it names, and gives the secrets by name.
// Without a secrets file there are none.
func (r *Rules) Secrets() (map[string]Secret, error) {
	if content, err := r.Content(); err != nil || content.Secrets == "" {
		return nil, err
	}
	all, _, err := r.secrets()
	if err != nil {
		return nil, err
	}
	for name := range all {
		if _, err := r.Secret(name); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (r *Rules) secrets() (all map[string]Secret, file string, err error) {
	content, err := r.Content()
	if err != nil {
		return nil, "", err
	}
	if file = content.Secrets; file == "" {
		return nil, "", secretInvalid("write a secrets file, and name it in host.yaml under secrets",
			"this host has no secrets file")
	}
	text, err := readTrusted(file, r.owner(), largestRules, true)
	if err != nil {
		f := secretInvalid("correct it; no restart is needed", "the secrets file: %v", err)
		if IsTransient(err) {
			f.Class, f.Remedy = device.Transient, "the step is retried"
		}
		return nil, file, f
	}
	all, err = parseSecrets(file, text)
	if err != nil {
		return nil, file, secretInvalid("correct it; no restart is needed", "%v", err)
	}
	return all, file, nil
}

func secretInvalid(remedy, format string, args ...any) *device.Fault {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeSecretInvalid,
		Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// checkPrivate checks that only the owner of the open file may read it.
func checkPrivate(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	if st.Mode&0o077 != 0 {
		return fmt.Errorf("%s may be read by others than its owner (mode %04o); chmod 0600 it", path, st.Mode&0o7777)
	}
	return nil
}

// parseSecrets reads the secrets file.
func parseSecrets(name string, text []byte) (map[string]Secret, error) {
	all := make(map[string]Secret)
	err := ParseSecrets(name, text, func(r *SecretsReader, root yamlfile.Node) {
		for key, value := range r.Mapping(root, "the secrets file") {
			first, hosts := "", []string(nil)
			secret := r.Secret(value, "secret "+key, map[string]func(yamlfile.Node, string){
				"first_password": func(value yamlfile.Node, what string) { first = r.Text(value, what) },
				"hosts": func(value yamlfile.Node, what string) {
					hosts = []string{} // given and empty, it names none
					for _, item := range r.List(value, what) {
						hosts = append(hosts, r.bmc(item, what))
					}
				},
			})
			secret.FirstPassword, secret.Hosts = first, hosts
			all[key] = secret
		}
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// ReadPrivate reads a file with secrets: it and its directory have root or this process's
// user as their owner, and only that owner may read it.
func ReadPrivate(name string) ([]byte, error) {
	return readTrusted(name, uint32(os.Geteuid()), largestRules, true)
}

// ReadTrusted reads a file that decides who may do what: it and its directory have root or
// this process's user as their owner, and only that owner may write to them.
func ReadTrusted(name string) ([]byte, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	return readTrusted(name, uint32(os.Geteuid()), largestRules, false)
}

// ParseSecrets parses a file with secrets; read takes its root apart. The error names lines
// and keys, and never a value.
func ParseSecrets(name string, text []byte, read func(r *SecretsReader, root yamlfile.Node)) error {
	r := &SecretsReader{}
	root := r.Parse(text)
	if len(r.Problems()) > 0 {
		// A parser's own message may quote the line that it cannot read.
		return &RulesError{File: name, Problems: []string{lineOf(r.Problems()[0]) + "this is not valid YAML"}}
	}
	read(r, root)
	if problems := r.Problems(); len(problems) > 0 {
		return &RulesError{File: name, Problems: problems}
	}
	return nil
}

// lineOf gives "line 3: " of a problem that begins with it, else "".
func lineOf(problem string) string {
	if line, _, ok := strings.Cut(problem, ": "); ok && strings.HasPrefix(line, "line ") && len(line) < 16 {
		return line + ": "
	}
	return ""
}

// SecretsReader reads a file with secrets.
type SecretsReader struct{ yamlfile.Reader }

var secretKeys = []string{"username", "password", "ca", "insecure"}

// bmc reads who may get a secret.
func (r *SecretsReader) bmc(node yamlfile.Node, what string) string {
	host := strings.ToLower(r.Text(node, "an entry of "+what))
	if _, err := networkOf(host); err != nil && (host == "" || strings.ContainsAny(host, "/:*?[ ")) {
		r.Problem(node, "an entry of %s must be the name of a BMC, its address, or a network such as 10.0.0.0/24", what)
	}
	return host
}

// Secret reads the keys of a secret, and gives every other one in more to its reader.
func (r *SecretsReader) Secret(node yamlfile.Node, what string,
	more map[string]func(value yamlfile.Node, what string)) Secret {
	var s Secret
	given := make(map[string]bool)
	for key, value := range r.Mapping(node, what) {
		given[key] = true
		switch key {
		case "username":
			s.Username = r.Text(value, "username of "+what)
		case "password":
			s.Password = r.Text(value, "password of "+what)
		case "ca":
			s.CA = r.Scalar(value, "ca of "+what)
			if s.CA != "" && !strings.Contains(s.CA, pemBegins) && !strings.HasPrefix(s.CA, "/") {
				r.Problem(value, "ca of %s must be a PEM or an absolute path", what)
			}
		case "insecure":
			s.Insecure = r.Bool(value, "insecure of "+what)
		default:
			if read := more[key]; read != nil {
				read(value, key+" of "+what)
				continue
			}
			known := append(slices.Clone(secretKeys), slices.Sorted(maps.Keys(more))...)
			// The key is not quoted: it may be a password in the wrong place.
			r.Problem(value, "unknown key in %s: must be one of %s", what, strings.Join(known, ", "))
		}
	}
	for _, key := range []string{"username", "password"} {
		if !given[key] {
			r.ProblemAt(node.Line(), "%s has no %s", what, key)
		}
	}
	return s
}
