package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"burnish/internal/device"
)

// askTimeout bounds what is asked about a server that did not answer.
const askTimeout = 3 * time.Second

// refusal is what is wrong with a connection, and the variable to change.
type refusal struct {
	sign    string // in gRPC's error
	message string // %s is the error from the sign on
	remedy  string
}

// refusals are in the order in which they are looked for. gRPC gives the reason why it could not
// make a connection as text alone; TestDialFaults holds these against real listeners.
var refusals = []refusal{
	{"first record does not look like a TLS handshake", "does not speak TLS, which these settings ask for", ""},
	{"authentication handshake failed: EOF", "does not speak TLS, which these settings ask for", ""},
	{"x509: certificate signed by unknown authority", "has a certificate that is not trusted: %s",
		"set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the file of its authority"},
	{"x509: cannot validate certificate for", "has a certificate for another name: %s", nameRemedy},
	{"x509: certificate is valid for", "has a certificate for another name: %s", nameRemedy},
	{"x509: certificate is not valid for", "has a certificate for another name: %s", nameRemedy},
	{"x509: ", "has a certificate that is not valid: %s", "renew it on the server, and check the clock of this machine"},
	{"remote error: tls: no application protocol", foreign, "set TEMPORAL_ADDRESS"},
	{"missing selected ALPN property", foreign, "set TEMPORAL_ADDRESS"},
	{"remote error: tls:", "refuses the connection: %s",
		"set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH, or set TEMPORAL_ADDRESS"},
	{"http2: frame too large", foreign, "set TEMPORAL_ADDRESS"},
}

const (
	foreign    = "is another program: it does not answer as Temporal does"
	nameRemedy = "set TEMPORAL_TLS_SERVER_NAME to a name in it, or set TEMPORAL_ADDRESS"
)

// dialFault names the server, what is wrong, and the variable to change.
func dialFault(ctx context.Context, options client.Options, err error) *device.Fault {
	at := "Temporal at " + options.HostPort
	fault := func(class device.Class, remedy, format string, args ...any) *device.Fault {
		return &device.Fault{
			Class: class, Code: device.CodeUnreachable, Message: at + " " + fmt.Sprintf(format, args...), Remedy: remedy,
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var (
		missing *serviceerror.NamespaceNotFound
		denied  *serviceerror.PermissionDenied
		address *net.AddrError
		unknown *net.DNSError
	)
	host, _, notAddress := net.SplitHostPort(options.HostPort)
	switch {
	case errors.As(notAddress, &address):
		return fault(device.Permanent, "set TEMPORAL_ADDRESS to HOST:PORT",
			"cannot be reached: this is no address (%s)", address.Err)
	case errors.As(err, &missing):
		return fault(device.Permanent, "create it, or set TEMPORAL_NAMESPACE", "has no namespace %q", options.Namespace)
	case errors.As(err, &denied), code(err) == codes.Unauthenticated:
		return fault(device.Permanent,
			"set TEMPORAL_API_KEY or TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH",
			"refuses these credentials: %s", oneLine(err))
	case code(err) == codes.Unimplemented, code(err) == codes.Unknown:
		return fault(device.Permanent, "set TEMPORAL_ADDRESS", foreign) // it speaks gRPC, but not Temporal's service
	}
	o := options.ConnectionOptions
	withTLS := o.TLS != nil || options.Credentials != nil && !o.TLSDisabled
	said := oneLine(err)
	if _, reason, found := strings.Cut(said, `desc = "`); found {
		said = strings.TrimPrefix(strings.TrimSuffix(reason, `"`), "transport: Error while dialing: ")
	}
	if !withTLS && strings.Contains(said, "error reading server preface: ") && speaksTLS(ctx, options.HostPort) {
		return fault(device.Permanent, "set TEMPORAL_TLS=true, or set TEMPORAL_ADDRESS",
			"speaks TLS, and these settings do not")
	}
	if withTLS && (strings.Contains(said, "broken pipe") || strings.Contains(said, "connection reset")) {
		said = cmp.Or(refusedWith(ctx, options.HostPort, o.TLS), said)
	}
	for _, r := range refusals {
		_, more, found := strings.Cut(said, r.sign)
		switch {
		case !found:
			continue
		case r.remedy != "":
		case o.TLS == nil || options.Credentials != nil:
			r.remedy = "set TEMPORAL_TLS=false, because TEMPORAL_API_KEY turns TLS on, or set TEMPORAL_ADDRESS"
		default:
			r.remedy = "unset TEMPORAL_TLS and the TEMPORAL_TLS_ variables, or set TEMPORAL_ADDRESS"
		}
		return fault(device.Permanent, r.remedy, "%s", strings.Replace(r.message, "%s", r.sign+more, 1))
	}
	// gRPC drops the reason why a name has no address.
	if _, lookup := net.DefaultResolver.LookupHost(ctx, host); errors.As(lookup, &unknown) {
		why := "does not resolve"
		if !unknown.IsNotFound {
			why = "cannot be looked up: " + unknown.Err
		}
		return fault(device.Transient, "set TEMPORAL_ADDRESS, or correct the name service",
			"cannot be reached: the name %s %s", unknown.Name, oneLine(errors.New(why)))
	}
	return fault(device.Transient, "start it, or set TEMPORAL_ADDRESS", "does not answer: %s", said)
}

// speaksTLS tries it: a server that does may close the connection of one that does not without a
// word, as others do, or answer in any way.
func speaksTLS(ctx context.Context, address string) bool {
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing is sent
	c, err := dialer.DialContext(ctx, "tcp", address)
	return err == nil && c.Close() == nil
}

// refusedWith says why a server ends a TLS connection after the handshake; "" if it does not. gRPC loses it where the
// server closed before its first write: that write's error hides what could still be read.
func refusedWith(ctx context.Context, address string, settings *tls.Config) string {
	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	settings = settings.Clone()
	settings.NextProtos = []string{"h2"}
	c, err := (&tls.Dialer{Config: settings}).DialContext(ctx, "tcp", address)
	if err != nil {
		return oneLine(err)
	}
	defer func() { _ = c.Close() }() // nothing was sent
	if deadline, ok := ctx.Deadline(); ok {
		err = c.SetReadDeadline(deadline)
	}
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	return oneLine(err)
}

// code is the gRPC code of an error, also of one that the SDK has converted.
func code(err error) codes.Code {
	var s serviceerror.ServiceError
	if errors.As(err, &s) {
		return s.Status().Code()
	}
	return status.Code(err)
}
