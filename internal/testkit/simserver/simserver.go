// Package simserver is what the simulators of servers' management services share. A Core has how
// one behaves and what it is now, the log of its requests, and the faults that a test wants; it
// serves on loopback, and keeps all of it in a folder where it runs as a process that can be
// killed. What is simulated, and its answers, is the simulator's.
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
	"regexp"
	"strings"
	"time"
)

// AddressFile and ControlFile are where Listen keeps the addresses of what is simulated and of
// Acts, CAFile and ServerFile the PEM of what clients trust, and of the certificate with its key.
const (
	AddressFile = "address"
	ControlFile = "control"
	CAFile      = "ca.pem"
	ServerFile  = "server.pem"
)

// Certificate is a new one for loopback. It is its own authority, of that name: ca is what
// clients trust, chain the certificate with its key, both PEM.
func Certificate(authority string) (pair tls.Certificate, ca, chain []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, nil, err
	}
	template := loopback(authority, 1)
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return tls.Certificate{}, nil, nil, err
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	pair, err = tls.X509KeyPair(ca, secret)
	return pair, ca, append(ca[:len(ca):len(ca)], secret...), err
}

// loopback is what a certificate for loopback says.
func loopback(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// Shown is which certificate a simulator shows.
type Shown string

// The certificates: that of its beginning, one that the same authority has made since, and one of an
// authority that no client knows.
const (
	Begun   Shown = ""
	Renewed Shown = "renewed"
	Foreign Shown = "foreign"
)

// renewal is another certificate of the authority that is pair, with its key.
func renewal(pair tls.Certificate) (tls.Certificate, error) {
	authority, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, loopback("Renewed", 2), authority, &key.PublicKey, pair.PrivateKey)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// cut ends the connection without an answer.
func cut(w http.ResponseWriter) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// A recorder of a test, which has no connection.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_ = connection.Close()
}

// glob is true if path matches pattern, in which * is any characters.
func glob(pattern, path string) bool {
	any := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
	return regexp.MustCompile("^" + any + "$").MatchString(path)
}

// write replaces a file at once. A process that is killed loses nothing that it wrote.
func write(dir, name string, content []byte) error {
	temporary := filepath.Join(dir, "."+name)
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, name))
}

// load reads a file of JSON.
func load(dir, name string, into any) error {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Listen opens the port that a folder's simulator had before by its file, or, the first time, the
// one of address.
func Listen(dir, file, address string) (net.Listener, error) {
	before, err := os.ReadFile(filepath.Join(dir, file))
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
	return listener, write(dir, file, []byte(listener.Addr().String()))
}
