// Package frontend is a server of Temporal's service that answers what a client asks when it
// connects, and nothing else: for tests of connections that fail, and of servers that go away.
package frontend

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Namespace is the only namespace.
const Namespace = "default"

// Serve starts a server on this machine and gives its address. settings is nil for one without
// TLS. described is called after the last answer of a connection, with what ends the server.
func Serve(t testing.TB, settings *tls.Config, described func(stop func())) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &service{}
	options := []grpc.ServerOption{grpc.UnaryInterceptor(s.intercept)}
	if settings != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(settings)))
	}
	server := grpc.NewServer(options...)
	s.described = func() {
		if described != nil {
			described(server.Stop)
		}
	}
	workflowservice.RegisterWorkflowServiceServer(server, s)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-ended)
	})
	return listener.Addr().String()
}

type service struct {
	workflowservice.UnimplementedWorkflowServiceServer
	described func()
}

// intercept calls described before a question that is not asked by connecting.
func (s *service) intercept(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	switch in.(type) {
	case *workflowservice.GetSystemInfoRequest, *workflowservice.DescribeNamespaceRequest:
	default:
		s.described()
	}
	return handle(ctx, in)
}

func (s *service) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

func (s *service) DescribeNamespace(_ context.Context, in *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	if in.GetNamespace() != Namespace {
		return nil, serviceerror.ToStatus(serviceerror.NewNamespaceNotFound(in.GetNamespace())).Err()
	}
	return &workflowservice.DescribeNamespaceResponse{}, nil
}

// Certificate makes a certificate for a name that no authority has signed, and gives the file
// by which it can be trusted.
func Certificate(t testing.TB, name string, ends time.Time) (settings *tls.Config, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: ends.Add(-24 * time.Hour), NotAfter: ends, IsCA: true, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(name); ip != nil {
		template.DNSNames, template.IPAddresses = nil, []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	file = filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}, file
}
