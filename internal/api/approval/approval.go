// Package approval signs the two acts of an override, and checks their signatures (D2). The
// API signs for a principal that it knows; the device's workflow believes nothing else.
package approval

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

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

// Sign gives the signature of an act.
func (k *Key) Sign(c contract.OverrideClaims) []byte {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write(message(c)) // which never fails
	return mac.Sum(nil)
}

// Verify says whether the signature is of these claims.
func (k *Key) Verify(c contract.OverrideClaims, signature []byte) bool {
	return hmac.Equal(signature, k.Sign(c))
}

// message is the canonical form of the claims: each field after its length, so that no two
// different claims have the same message. Its first field says what is signed.
func message(c contract.OverrideClaims) []byte {
	var text []byte
	for _, field := range []string{
		"burnish override 1", c.Device, string(c.Act), c.ID, c.Reason, instant(c.ExpiresAt), c.Principal, c.By,
		instant(c.Numbers.Since), strconv.Itoa(c.Numbers.Clean), strconv.Itoa(c.Numbers.Binding),
		strconv.Itoa(c.Numbers.Override),
	} {
		text = fmt.Appendf(text, "%d:%s\n", len(field), field)
	}
	return text
}

// instant is a time as JSON carries it, in whatever zone it was given.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
