package oneview

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/yamlfile"
)

// Appliance is what oneview.yaml says of one appliance:
//
//	appliances:
//	  rack1:
//	    url: https://oneview.example.org
//	    username: burnish
//	    password: "…"
//	    domain: LOCAL                  # of the login; default: the appliance's own
//	    ca: /etc/burnish/oneview.pem   # or the PEM itself; default: the host's own
//	    insecure: false                # true: the certificate is not checked
//	    periodic_check_interval: 300   # seconds, or 5m; 0: no polls
//	    apply_timeout: 1h
//	    page_size: 100
//
// url, username and password are required. The file and its directory have root or the
// worker's user as their owner, and only that owner may read it.
type Appliance struct {
	host.Secret
	Settings
	// Base is the scheme and the host of the appliance.
	Base url.URL
	// Domain is that of the login; "": the appliance's own.
	Domain string
}

// Defaults of the file.
const (
	defaultInterval     = 300 * time.Second
	defaultApplyTimeout = time.Hour
	defaultPageSize     = 100
)

// Limits of the file.
const (
	maxPageSize = 1000
	maxDuration = 7 * 24 * time.Hour
)

// nameForm is that of an appliance's name, which is part of a workflow's ID.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// CheckFile checks oneview.yaml and every CA that it names, and gives the appliances' names,
// sorted.
func CheckFile(file string) ([]string, error) {
	all, err := readFile(file)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		if _, err := all[name].secret(name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// secret gives the secret with its CA, which is read each time.
func (a Appliance) secret(name string) (host.Secret, error) {
	s, err := a.Secret.LoadCA()
	if err != nil {
		return s, invalidFile("the CA of the appliance %s: %w", name, err)
	}
	if _, err := s.TLS(); err != nil {
		return s, invalidFile("the appliance %s: %w", name, err)
	}
	return s, nil
}

func readFile(file string) (map[string]Appliance, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, invalidFile("resolve %s: %w", file, err)
	}
	text, err := host.ReadPrivate(absolute)
	if err != nil {
		return nil, invalidFile("%w", err)
	}
	return parseFile(absolute, text)
}

// invalidFile is the fault of oneview.yaml.
func invalidFile(format string, args ...any) *device.Fault {
	err := fmt.Errorf(format, args...)
	f := &device.Fault{Class: device.NeedsOperator, Code: device.CodeApplianceRefused, Message: err.Error(),
		Remedy: "correct oneview.yaml; no restart is needed"}
	if host.IsTransient(err) {
		f.Class, f.Remedy = device.Transient, ""
	}
	return f
}

// parseFile reads oneview.yaml. Its error names lines and keys, and never a value.
func parseFile(name string, text []byte) (map[string]Appliance, error) {
	all := make(map[string]Appliance)
	err := host.ParseSecrets(name, text, func(r *host.SecretsReader, root yamlfile.Node) {
		for key, value := range r.Mapping(root, "oneview.yaml") {
			if key != "appliances" { // not quoted: it may be a password in the wrong place
				r.Problem(value, "unknown key in oneview.yaml: the only key is appliances")
				continue
			}
			for name, entry := range r.Mapping(value, "appliances") {
				if !nameForm.MatchString(name) {
					r.Problem(entry, "an appliance's name must be 1 to 63 letters, digits, dots, dashes and underscores")
					continue
				}
				all[name] = readAppliance(r, entry, "appliance "+name)
			}
		}
	})
	if err != nil {
		return nil, invalidFile("%w", err)
	}
	return all, nil
}

func readAppliance(r *host.SecretsReader, node yamlfile.Node, what string) Appliance {
	a := Appliance{Settings: Settings{Interval: defaultInterval, ApplyTimeout: defaultApplyTimeout,
		PageSize: defaultPageSize}}
	var at yamlfile.Node
	a.Secret = r.Secret(node, what, map[string]func(yamlfile.Node, string){
		"url": func(value yamlfile.Node, what string) { at, a.Base = value, readURL(r, value, what) },
		"domain": func(value yamlfile.Node, what string) {
			a.Domain = r.Text(value, what)
		},
		"periodic_check_interval": func(value yamlfile.Node, what string) {
			a.Interval = readDuration(r, value, what, true)
		},
		"apply_timeout": func(value yamlfile.Node, what string) {
			a.ApplyTimeout = readDuration(r, value, what, false)
		},
		"ignore_etags": func(value yamlfile.Node, what string) {
			a.IgnoreTags = r.Bool(value, what)
		},
		"page_size": func(value yamlfile.Node, what string) {
			if size, ok := r.Uint32(value, what); ok && (size < 1 || size > maxPageSize) {
				r.Problem(value, "%s must be within 1 to %d", what, maxPageSize)
			} else {
				a.PageSize = int(size)
			}
		},
	})
	switch {
	case at == yamlfile.Node{}:
		r.ProblemAt(node.Line(), "%s has no url", what)
	case a.Base.Scheme == "http" && !a.Insecure:
		r.Problem(at, "url of %s must begin with https://: a password is never sent unencrypted", what)
	}
	return a
}

// readURL takes the address of an appliance, without a path.
func readURL(r *host.SecretsReader, value yamlfile.Node, what string) url.URL {
	text := r.Text(value, what)
	u, err := url.Parse(text)
	switch {
	case text == "":
		return url.URL{}
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil ||
		u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		r.Problem(value, "%s must have the form https://HOST or https://HOST:PORT", what)
		return url.URL{}
	}
	return url.URL{Scheme: u.Scheme, Host: strings.ToLower(u.Host)}
}

// readDuration takes seconds, or a duration such as 5m.
func readDuration(r *host.SecretsReader, value yamlfile.Node, what string, zero bool) time.Duration {
	var d time.Duration
	if value.IsInteger() {
		seconds, ok := r.Uint32(value, what)
		if !ok {
			return 0
		}
		d = time.Duration(seconds) * time.Second
	} else {
		text := r.Text(value, what)
		if text == "" {
			return 0
		}
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			r.Problem(value, "%s must be seconds, or a duration such as 5m", what)
			return 0
		}
	}
	switch {
	case d == 0 && zero:
	case d < time.Second || d > maxDuration:
		r.Problem(value, "%s must be within 1s to 168h", what)
	}
	return d
}
