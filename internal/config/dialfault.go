package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"burnish/internal/device"
)

// probeTimeout bounds the search for the reason why a server did not answer.
const probeTimeout = 3 * time.Second

// dialFault names the server, what is wrong, and the variable to change. What gRPC says of a
// connection that it could not make depends on the moment at which it gave up, so the address is
// tried once more, step by step.
func dialFault(ctx context.Context, options client.Options, err error) *device.Fault {
	at := "Temporal at " + options.HostPort
	fault := func(class device.Class, remedy, format string, args ...any) *device.Fault {
		return &device.Fault{Class: class, Code: device.CodeUnreachable, Message: at + " " + fmt.Sprintf(format, args...), Remedy: remedy}
	}
	var (
		missing *serviceerror.NamespaceNotFound
		denied  *serviceerror.PermissionDenied
	)
	switch {
	case errors.As(err, &missing):
		return fault(device.Permanent, "create it, or set TEMPORAL_NAMESPACE", "has no namespace %q", options.Namespace)
	case errors.As(err, &denied), code(err) == codes.Unauthenticated:
		return fault(device.Permanent, "set TEMPORAL_API_KEY or TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH", "refuses these credentials: %s", oneLine(err))
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	found := probe(ctx, options)
	if found == nil && (code(err) == codes.Unimplemented || code(err) == codes.Unknown) {
		found = errForeign // it speaks gRPC's transport, and does not know Temporal's service
	}
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		unknown   *net.DNSError
		address   *net.AddrError
	)
	switch {
	case errors.As(found, &address):
		return fault(device.Permanent, "set TEMPORAL_ADDRESS to HOST:PORT", "cannot be reached: this is no address (%s)", address.Err)
	case errors.As(found, &unknown):
		why := "does not resolve"
		if !unknown.IsNotFound {
			why = "cannot be looked up: " + unknown.Err
		}
		return fault(device.Transient, "set TEMPORAL_ADDRESS, or correct the name service", "cannot be reached: the name %s %s", unknown.Name, oneLine(errors.New(why)))
	case errors.Is(found, errPlain):
		turnedOn := "unset TEMPORAL_TLS and the TEMPORAL_TLS_ variables"
		if options.ConnectionOptions.TLS == nil || options.Credentials != nil {
			turnedOn = "set TEMPORAL_TLS=false, because TEMPORAL_API_KEY turns TLS on"
		}
		return fault(device.Permanent, turnedOn+", or set TEMPORAL_ADDRESS", "does not speak TLS, which these settings ask for")
	case errors.Is(found, errSecret):
		return fault(device.Permanent, "set TEMPORAL_TLS=true, or set TEMPORAL_ADDRESS", "speaks TLS, and these settings do not")
	case errors.As(found, &authority):
		return fault(device.Permanent, "set TEMPORAL_TLS_SERVER_CA_CERT_PATH to the file of its authority", "has a certificate that is not trusted: %s", oneLine(authority))
	case errors.As(found, &name):
		return fault(device.Permanent, "set TEMPORAL_TLS_SERVER_NAME to a name in it, or set TEMPORAL_ADDRESS", "has a certificate for another name: %s", oneLine(name))
	case errors.As(found, &invalid):
		return fault(device.Permanent, "renew it on the server, and check the clock of this machine", "has a certificate that is not valid: %s", oneLine(invalid))
	case errors.Is(found, errForeign):
		return fault(device.Permanent, "set TEMPORAL_ADDRESS", "is another program: it does not answer as Temporal does")
	case found != nil && strings.Contains(found.Error(), "remote error: tls:"):
		return fault(device.Permanent, "set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH, or set TEMPORAL_ADDRESS", "refuses the connection: %s", oneLine(found))
	case found != nil:
		err = found
	}
	return fault(device.Transient, "start it, or set TEMPORAL_ADDRESS", "does not answer: %s", oneLine(err))
}

// code is the gRPC code of an error, also of one that the SDK has converted.
func code(err error) codes.Code {
	var s serviceerror.ServiceError
	if errors.As(err, &s) {
		return s.Status().Code()
	}
	return status.Code(err)
}

// What a probe finds where a connection could be made.
var (
	errPlain   = errors.New("it does not speak TLS")
	errSecret  = errors.New("it speaks TLS")
	errForeign = errors.New("it is another program")
)

// probe connects to the server as gRPC does, and says what is in the way; nil if nothing is, or
// if the server was silent.
func probe(ctx context.Context, options client.Options) error {
	host, _, err := net.SplitHostPort(options.HostPort)
	if err != nil {
		return err
	}
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", options.HostPort)
	if err != nil {
		return err
	}
	defer raw.Close() //nolint:errcheck // nothing was written that counts
	deadline, _ := ctx.Deadline()
	if err := raw.SetDeadline(deadline); err != nil {
		return err
	}
	o := options.ConnectionOptions
	if o.TLS == nil && (options.Credentials == nil || o.TLSDisabled) {
		return probePlain(ctx, raw, options.HostPort)
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		settings = o.TLS.Clone()
	}
	if settings.ServerName == "" {
		settings.ServerName = host
	}
	settings.NextProtos = []string{"h2"}
	secret := tls.Client(raw, settings)
	err = secret.HandshakeContext(ctx)
	switch {
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, io.EOF):
		return errPlain
	case err != nil && strings.Contains(err.Error(), "no application protocol"):
		return errForeign
	case err != nil:
		return err
	case secret.ConnectionState().NegotiatedProtocol != "h2":
		return errForeign
	}
	return preface(secret)
}

// probePlain looks what a server without TLS says; one that says nothing of use may be one with
// TLS.
func probePlain(ctx context.Context, raw net.Conn, address string) error {
	said := preface(raw)
	if said == nil {
		return nil
	}
	again, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, "tcp", address) //nolint:gosec // nothing is sent: only that it speaks TLS is of interest
	if err == nil {
		_ = again.Close()
		return errSecret
	}
	if errors.Is(said, errForeign) {
		return errForeign
	}
	return said
}

// preface sends the beginning of HTTP/2 and reads the answer's: each server of gRPC begins with a
// frame of its settings.
func preface(c net.Conn) error {
	const (
		head     = 9 // bytes of a frame's header, whose fourth is its kind
		settings = 4
	)
	if _, err := io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
		return err
	}
	var answer [head]byte
	n, err := io.ReadFull(c, answer[:])
	switch {
	case n == head && answer[3] == settings:
		return nil
	case n > 0:
		return errForeign
	case errors.Is(err, io.EOF):
		return errors.New("it closes the connection")
	}
	return err
}
