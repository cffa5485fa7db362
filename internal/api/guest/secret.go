package guest

import (
	"bytes"
	"fmt"

	"burnish/internal/host"
)

// ReadSecret reads the secret that Nova's metadata proxy signs with: one line of a file that
// only its owner, this process's user or root, may read. The error never has the secret.
func ReadSecret(file string) ([]byte, error) {
	text, err := host.ReadPrivate(file)
	if err != nil {
		return nil, err
	}
	secret := bytes.TrimSpace(text)
	if len(secret) == 0 || bytes.ContainsAny(secret, "\r\n\x00") {
		return nil, fmt.Errorf("%s must have one line, the proxy's metadata_proxy_shared_secret", file)
	}
	return secret, nil
}
