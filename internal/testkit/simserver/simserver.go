// Package simserver is what the simulators of servers' management services share: a
// certificate for loopback, the port and the files of one that runs as a process, the match of
// a fault's path, a connection that ends without an answer.
package simserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// AddressFile is where Listen keeps the address, CAFile and ServerFile the PEM of the
// authority, and of the certificate with its key.
const (
	AddressFile = "address"
	CAFile      = "ca.pem"
	ServerFile  = "server.pem"
)

// Certificate is a new one for loopback, with the authority that signed it, as PEM. Chain is
// the certificate with its key. Authority is the authority's name.
func Certificate(authority string) (pair tls.Certificate, ca, chain []byte, err error) {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, nil, err
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: authority},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signed, err := x509.CreateCertificate(rand.Reader, root, root, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return tls.Certificate{}, nil, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, authorityKey)
	if err != nil {
		return tls.Certificate{}, nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tls.Certificate{}, nil, nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	pair, err = tls.X509KeyPair(certificate, secret)
	return pair, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), append(certificate, secret...), err
}

// Client trusts the authority, and keeps no connection.
func Client(authority []byte) (*http.Client, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("the authority is not a certificate")
	}
	return &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
	}, nil
}

// Cut ends the connection without an answer.
func Cut(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// A recorder of a test, which has no connection.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_ = connection.Close()
}

// Glob is true if path matches pattern, in which * is any characters.
func Glob(pattern, path string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == path
	}
	if !strings.HasPrefix(path, parts[0]) {
		return false
	}
	path = path[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(path, part)
		if at < 0 {
			return false
		}
		path = path[at+len(part):]
	}
	return strings.HasSuffix(path, parts[len(parts)-1])
}

// Write replaces a file at once. A process that is killed loses nothing that it wrote.
func Write(dir, name string, content []byte) error {
	temporary := filepath.Join(dir, "."+name)
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, name))
}

// Load reads a file of JSON.
func Load(dir, name string, into any) error {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Listen opens the port that a folder's simulator had before, or, the first time, the one of
// address.
func Listen(dir, address string) (net.Listener, error) {
	before, err := os.ReadFile(filepath.Join(dir, AddressFile))
	switch {
	case err == nil:
		address = string(before)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return listener, Write(dir, AddressFile, []byte(listener.Addr().String()))
}
