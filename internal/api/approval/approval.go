// Package approval signs the two acts of an override, and checks their signatures (D2). The
// API signs for a principal that it knows; the device's workflow believes nothing else.
package approval

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strconv"

	"burnish/internal/host"
	"burnish/workflows/contract"
)

// shortestKey is how many bytes a key has at least.
const shortestKey = 32

// Key signs and verifies. All control workers of a namespace have the same one.
type Key struct{ secret []byte }

// ReadKey reads the key from a file that only its owner, this process's user or root,
// may read.
func ReadKey(file string) (*Key, error) {
	secret, err := host.ReadPrivate(file)
	if err != nil {
		return nil, err
	}
	return NewKey(secret)
}

// NewKey makes a key of the content of its file.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) < shortestKey {
		return nil, errors.New("the key has " + strconv.Itoa(len(secret)) + " bytes, and needs " + strconv.Itoa(shortestKey) +
			" random ones: make one with `openssl rand -hex 32`")
	}
	return &Key{secret}, nil
}

// Sign gives the signature of an act; nil where a time of the claims has no form in JSON.
func (k *Key) Sign(c contract.OverrideClaims) []byte {
	c.ExpiresAt, c.Numbers.Since = c.ExpiresAt.UTC(), c.Numbers.Since.UTC() // in whatever zone they were given
	text, err := json.Marshal(c)
	if err != nil {
		return nil
	}
	mac := hmac.New(sha256.New, k.secret)
	mac.Write(append([]byte("burnish override 1\n"), text...))
	return mac.Sum(nil)
}

// Verify says whether the signature is of these claims.
func (k *Key) Verify(c contract.OverrideClaims, signature []byte) bool {
	right := k.Sign(c)
	return right != nil && hmac.Equal(signature, right)
}
