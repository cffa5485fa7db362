package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"burnish/internal/device"
)

// The variables of Temporal's clients that name files and certificates.
const (
	varTLS        = "TEMPORAL_TLS"
	varNoVerify   = "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION"
	varServerName = "TEMPORAL_TLS_SERVER_NAME"
	varAuthority  = "TEMPORAL_TLS_SERVER_CA_CERT_PATH"
	varAuthorityD = "TEMPORAL_TLS_SERVER_CA_CERT_DATA"
	varCert       = "TEMPORAL_TLS_CLIENT_CERT_PATH"
	varCertD      = "TEMPORAL_TLS_CLIENT_CERT_DATA"
	varKey        = "TEMPORAL_TLS_CLIENT_KEY_PATH"
	varKeyD       = "TEMPORAL_TLS_CLIENT_KEY_DATA"
	varAPIKey     = "TEMPORAL_API_KEY"
	varProfile    = "TEMPORAL_PROFILE"
	varFile       = "TEMPORAL_CONFIG_FILE"
)

// clientOptions reads the TEMPORAL_* variables and the profile file. What cannot be used is a
// fault that names the variable: the library would leave some of it out in silence.
func clientOptions() (client.Options, *device.Fault) {
	if err := cmp.Or(checkNames(os.Environ()), checkVariables(os.Getenv)); err != nil {
		return client.Options{}, unusable(err)
	}
	options, err := envconfig.LoadDefaultClientOptions()
	if err == nil {
		return options, nil
	}
	file, cert, key := os.Getenv(varFile), os.Getenv(varCert)+os.Getenv(varCertD), os.Getenv(varKey)+os.Getenv(varKeyD)
	switch {
	case strings.Contains(err.Error(), "unable to find profile"):
		err = unusableVariable{varProfile, varProfile + "=" + os.Getenv(varProfile) +
			": the profile file has no such profile"}
	case cert != "" && key == "": // and the profile has none
		err = unusableVariable{varKey, "TEMPORAL_TLS_CLIENT_CERT_… names a certificate, and nothing its key"}
	case cert == "" && key != "":
		err = unusableVariable{varCert, "TEMPORAL_TLS_CLIENT_KEY_… names a key, and nothing its certificate"}
	case file != "":
		err = unusableVariable{varFile, varFile + "=" + file + ": " + err.Error()}
	default:
		err = unusableVariable{"the TEMPORAL_ variables", envconfig.DefaultConfigFilePath() + ": " + err.Error()}
	}
	return client.Options{}, unusable(err)
}

// unusableVariable says what to correct, and what is wrong with it.
type unusableVariable struct{ name, message string }

func (u unusableVariable) Error() string { return u.message }

func unusable(err error) *device.Fault {
	fault := &device.Fault{Class: device.Permanent, Code: device.CodeInvalidSetting, Message: oneLine(err),
		Remedy: "correct the TEMPORAL_ variable, or unset it"}
	var u unusableVariable
	if errors.As(err, &u) {
		fault.Remedy = "correct " + u.name + ", or the profile file"
	}
	return fault
}

// checkNames refuses a TEMPORAL_TLS_ variable that the library does not know: a connection that
// was to be checked would not be.
func checkNames(environment []string) error {
	known := []string{varNoVerify, varServerName, varAuthority, varAuthorityD, varCert, varCertD, varKey, varKeyD}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		if value == "" || !strings.HasPrefix(name, varTLS+"_") || slices.Contains(known, name) {
			continue
		}
		return unusableVariable{name, name + " is no variable of Temporal's clients: use one of " + strings.Join(known, ", ")}
	}
	return nil
}

// checkVariables says which variable cannot be used, and why.
func checkVariables(getenv func(string) string) error {
	for _, name := range []string{varTLS, varNoVerify} {
		switch value := strings.ToLower(getenv(name)); value {
		case "", "true", "false", "1", "0":
		default:
			return fmt.Errorf("%s=%s: must be true or false", name, getenv(name))
		}
	}
	if path := getenv(varFile); path != "" {
		if _, err := os.Stat(path); err != nil { // the library would do without it
			return fmt.Errorf("%s=%s: %w", varFile, path, cause(err))
		}
	}
	// The key travels in a header.
	if strings.ContainsFunc(getenv(varAPIKey), func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("%s holds a line break or another character that no key has", varAPIKey)
	}
	if off := strings.ToLower(getenv(varTLS)); off == "false" || off == "0" {
		return nil // the files are not read
	}
	for _, pair := range [][2]string{{varAuthority, varAuthorityD}, {varCert, varCertD}, {varKey, varKeyD}} {
		if getenv(pair[0]) != "" && getenv(pair[1]) != "" {
			return fmt.Errorf("%s and %s exclude each other", pair[0], pair[1])
		}
	}
	if err := checkAuthority(getenv); err != nil {
		return err
	}
	return checkPair(getenv)
}

// checkAuthority reads the certificates that the server's is checked by.
func checkAuthority(getenv func(string) string) error {
	data, where, err := contents(getenv, varAuthority, varAuthorityD)
	if err != nil || where == "" {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(data) {
		return fmt.Errorf("%s: it holds no certificate in PEM", where)
	}
	return nil
}

// checkPair reads the client's certificate and its key.
func checkPair(getenv func(string) string) error {
	cert, certAt, err := contents(getenv, varCert, varCertD)
	if err != nil {
		return err
	}
	key, keyAt, err := contents(getenv, varKey, varKeyD)
	if err != nil {
		return err
	}
	if certAt == "" || keyAt == "" {
		return nil // the profile may have the other one
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return fmt.Errorf("%s with %s: %s", certAt, keyAt, strings.TrimPrefix(err.Error(), "tls: "))
	}
	return nil
}

// contents gives what a variable's file holds, or the variable's own data; where names them, and
// is "" if neither is set.
func contents(getenv func(string) string, file, inline string) (data []byte, where string, err error) {
	if text := getenv(inline); text != "" {
		return []byte(text), inline, nil
	}
	path := getenv(file)
	if path == "" {
		return nil, "", nil
	}
	where = file + "=" + path
	if data, err = os.ReadFile(path); err != nil {
		return nil, where, fmt.Errorf("%s: %w", where, cause(err))
	}
	return data, where, nil
}

// cause is why a file cannot be used, without its path.
func cause(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
