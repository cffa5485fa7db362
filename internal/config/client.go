// Package config reads the settings of a Burnish process, and connects it to Temporal.
package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"burnish/internal/device"
)

// dialTimeout bounds the connection and the server's first answers.
const dialTimeout = 5 * time.Second

// Connection is a client with its server's address and its namespace.
type Connection struct {
	client.Client
	Address   string
	Namespace string
}

// Dial connects to Temporal by the TEMPORAL_* variables and the profile file
// (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_…, TEMPORAL_API_KEY, …: the
// ones that Temporal's own command line reads). It returns when the server has confirmed
// the namespace. The error is a *device.Fault of one line, after five
// seconds at the latest: invalid_setting, or unreachable. The SDK logs to
// logger; identity names this client to the server, "" is the SDK's default. Each of with
// may add to the SDK's options.
func Dial(ctx context.Context, logger *slog.Logger, identity string, with ...func(*client.Options)) (*Connection, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, &device.Fault{
			Class: device.Permanent, Code: device.CodeInvalidSetting,
			Message: "Temporal's settings are not valid: " + oneLine(err),
			Remedy:  "correct the TEMPORAL_ variables or the profile file",
		}
	}
	if options.HostPort == "" {
		options.HostPort = client.DefaultHostPort
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	options.Logger = log.NewStructuredLogger(logger)
	if identity != "" {
		options.Identity = identity
	}
	for _, add := range with {
		add(&options)
	}

	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, dialFault(options, err)
	}
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: options.Namespace})
	if err != nil {
		c.Close()
		return nil, dialFault(options, err)
	}
	return &Connection{Client: c, Address: options.HostPort, Namespace: options.Namespace}, nil
}

// dialFault names the server, what is wrong, and the remedy.
func dialFault(options client.Options, err error) *device.Fault {
	fault := &device.Fault{Class: device.Transient, Code: device.CodeUnreachable}
	var (
		missing *serviceerror.NamespaceNotFound
		denied  *serviceerror.PermissionDenied
	)
	switch {
	case errors.As(err, &missing):
		fault.Class = device.Permanent
		fault.Message = fmt.Sprintf("Temporal at %s has no namespace %q", options.HostPort, options.Namespace)
		fault.Remedy = "create it, or set TEMPORAL_NAMESPACE"
	case errors.As(err, &denied), status.Code(err) == codes.Unauthenticated:
		fault.Class = device.Permanent
		fault.Message = fmt.Sprintf("Temporal at %s refuses these credentials: %s", options.HostPort, oneLine(err))
		fault.Remedy = "set TEMPORAL_API_KEY or TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"
	default:
		fault.Message = fmt.Sprintf("Temporal at %s does not answer: %s", options.HostPort, oneLine(err))
		fault.Remedy = "start it, or set TEMPORAL_ADDRESS"
	}
	return fault
}

// oneLine gives the error's text in one line.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
