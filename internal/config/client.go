// Package config reads the settings of a Burnish process, and connects it to Temporal.
package config

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"

	"burnish/internal/codec"
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
// ones that Temporal's own command line reads), and encrypts what it sends if VarCodecKeys
// is set. It returns when the server has confirmed
// the namespace. The error is a *device.Fault of one line, after eight
// seconds at the latest: invalid_setting, or unreachable. The SDK logs to
// logger; identity names this client to the server, "" is the SDK's default. Each of with
// may add to the SDK's options.
func Dial(ctx context.Context, logger *slog.Logger, identity string,
	with ...func(*client.Options)) (*Connection, error) {
	options, fault := clientOptions()
	if fault != nil {
		return nil, fault
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
	if path := os.Getenv(VarCodecKeys); path != "" {
		if err := encrypt(&options, path, logger); err != nil {
			return nil, &device.Fault{Class: device.Permanent, Code: device.CodeInvalidSetting,
				Message: VarCodecKeys + ": " + oneLine(err), Remedy: "correct the file, or unset " + VarCodecKeys}
		}
	}
	for _, add := range with {
		add(&options)
	}

	parent := ctx
	ctx, cancel := context.WithTimeout(parent, dialTimeout)
	defer cancel()
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, dialFault(parent, options, err)
	}
	_, err = c.WorkflowService().
		DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: options.Namespace})
	if err != nil {
		c.Close()
		return nil, dialFault(parent, options, err)
	}
	return &Connection{Client: c, Address: options.HostPort, Namespace: options.Namespace}, nil
}

// VarCodecKeys is the variable that names the file of keys with which payloads are encrypted.
const VarCodecKeys = prefix + "CODEC_KEYS"

func encrypt(o *client.Options, path string, logger *slog.Logger) error {
	c, err := codec.Open(path, logger)
	if err != nil {
		return err
	}
	encrypted, err := c.DialOption()
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, encrypted)
	return err
}

// window is how many bytes of answers may be under way on a worker's connection.
const window = 8 << 20

// ForWorkers is an option of Dial for workers. Their messages are a few KiB each, and they run
// beside the server or in its network: to compress and to unpack each message, which is the
// SDK's default, takes a tenth of a worker's processor time (by its profile), and saves nothing
// there. Nor does it help to measure the network: with each answer gRPC sends a ping and a larger
// window, unless the windows are given.
func ForWorkers(o *client.Options) {
	o.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions,
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))
}

// oneLine gives the error's text in one line.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
