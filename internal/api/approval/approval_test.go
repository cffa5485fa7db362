package approval_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/api/approval"
	"burnish/workflows/contract"
)

var secret = bytes.Repeat([]byte("k"), 32)

func claims() contract.OverrideClaims {
	at := time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC)
	return contract.OverrideClaims{
		Device: "uuid", Act: contract.OverrideApprove, ID: "id", Reason: "why", ExpiresAt: at,
		Principal: "token:alice", By: "alice",
		Numbers: contract.OverrideNumbers{Since: at.Add(-time.Hour), Clean: 3, Binding: 12, Override: 1},
	}
}

// A signature is of one act alone: a change of any claim, or of the key, makes it wrong.
//
// D2
func TestSignatureIsOfEveryClaim(t *testing.T) {
	key, err := approval.NewKey(secret)
	require.NoError(t, err)
	signature := key.Sign(claims())
	require.True(t, key.Verify(claims(), signature))
	elsewhere := claims()
	elsewhere.ExpiresAt = elsewhere.ExpiresAt.In(time.FixedZone("", 3600))
	require.True(t, key.Verify(elsewhere, signature), "the same moment in another zone")
	for name, change := range map[string]func(*contract.OverrideClaims){
		"device":    func(c *contract.OverrideClaims) { c.Device = "other" },
		"act":       func(c *contract.OverrideClaims) { c.Act = contract.OverrideRequest },
		"ID":        func(c *contract.OverrideClaims) { c.ID = "id2" },
		"reason":    func(c *contract.OverrideClaims) { c.Reason = "why not" },
		"expiry":    func(c *contract.OverrideClaims) { c.ExpiresAt = c.ExpiresAt.Add(1) },
		"principal": func(c *contract.OverrideClaims) { c.Principal = "token:bob" },
		"by":        func(c *contract.OverrideClaims) { c.By = "bob" },
		"since":     func(c *contract.OverrideClaims) { c.Numbers.Since = c.Numbers.Since.Add(1) },
		"clean":     func(c *contract.OverrideClaims) { c.Numbers.Clean++ },
		"binding":   func(c *contract.OverrideClaims) { c.Numbers.Binding++ },
		"override":  func(c *contract.OverrideClaims) { c.Numbers.Override++ },
		// 31 and 2 are not 3 and 12.
		"digits that move": func(c *contract.OverrideClaims) { c.Numbers.Clean, c.Numbers.Binding = 31, 2 },
		"text that moves":  func(c *contract.OverrideClaims) { c.ID, c.Reason = "idwhy", "" },
		"a line break":     func(c *contract.OverrideClaims) { c.ID, c.Reason = "id\n3:why", "" },
	} {
		t.Run(name, func(t *testing.T) {
			c := claims()
			change(&c)
			require.False(t, key.Verify(c, signature))
		})
	}
	other, err := approval.NewKey(append([]byte("j"), secret[1:]...))
	require.NoError(t, err)
	require.False(t, other.Verify(claims(), signature))
	require.False(t, key.Verify(claims(), nil))
	require.False(t, key.Verify(claims(), signature[:16]))
}

// JSON has no form for a year of five digits. Claims with one have no signature, and none is right for them.
func TestClaimsWithoutAForm(t *testing.T) {
	key, err := approval.NewKey(secret)
	require.NoError(t, err)
	c := claims()
	c.ExpiresAt = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))
	require.Empty(t, key.Sign(c))
	require.False(t, key.Verify(c, key.Sign(c)))
	require.False(t, key.Verify(c, []byte{}))
}

// The key is read only from a file that is its owner's alone, and only if it is long enough.
func TestReadKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api.key")
	write := func(content []byte, mode os.FileMode) {
		require.NoError(t, os.WriteFile(file, content, 0o600))
		require.NoError(t, os.Chmod(file, mode))
	}
	_, err := approval.ReadKey(file)
	require.ErrorIs(t, err, os.ErrNotExist)

	write(secret[1:], 0o600)
	_, err = approval.ReadKey(file)
	require.ErrorContains(t, err, "the key has 31 bytes, and needs 32 random ones")

	write(secret, 0o640)
	_, err = approval.ReadKey(file)
	require.ErrorContains(t, err, "may be read by others than its owner (mode 0640); chmod 0600 it")

	write(secret, 0o600)
	key, err := approval.ReadKey(file)
	require.NoError(t, err)
	same, err := approval.NewKey(secret)
	require.NoError(t, err)
	require.True(t, same.Verify(claims(), key.Sign(claims())))
}
