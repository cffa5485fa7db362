// Package frontend is a server of Temporal's service that answers what a client asks when it
// connects, and of the rest what a test makes it answer: for tests of connections that fail, and
// of servers that go away.
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
	"path"
	"path/filepath"
	"slices"
	"sync"
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
// TLS.
func Serve(t testing.TB, settings *tls.Config) (address string) {
	t.Helper()
	return Start(t, settings, nil).Address
}

// Server is a server that can go away.
type Server struct {
	Address string

	server *grpc.Server
	mu     sync.Mutex
	asked  []string
}

// Stop ends the server: its connections are lost, and nobody listens any more.
func (s *Server) Stop() { s.server.Stop() }

// Asked are the methods of all questions that arrived, except those of connecting.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Start is Serve with a server that can go away. answer is called with each question that is not
// one of connecting, and its method; nil answers none of them.
func Start(t testing.TB, settings *tls.Config, answer func(s *Server, method string, in any) (any, error)) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &Server{Address: listener.Addr().String()}
	options := []grpc.ServerOption{grpc.UnaryInterceptor(
		func(ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			switch in.(type) {
			case *workflowservice.GetSystemInfoRequest, *workflowservice.DescribeNamespaceRequest:
				return handle(ctx, in)
			}
			method := path.Base(info.FullMethod)
			s.mu.Lock()
			s.asked = append(s.asked, method)
			s.mu.Unlock()
			if answer == nil {
				return handle(ctx, in)
			}
			return answer(s, method, in)
		})}
	if settings != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(settings)))
	}
	s.server = grpc.NewServer(options...)
	workflowservice.RegisterWorkflowServiceServer(s.server, &service{})
	ended := make(chan error, 1)
	go func() { ended <- s.server.Serve(listener) }()
	t.Cleanup(func() {
		s.server.Stop()
		require.NoError(t, <-ended)
	})
	return s
}

type service struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (s *service) GetSystemInfo(context.Context,
	*workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

func (s *service) DescribeNamespace(_ context.Context,
	in *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
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
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion: tls.VersionTLS12}, file
}
