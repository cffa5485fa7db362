package codec

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"burnish/internal/host"
)

// keySize is that of AES-256.
const keySize = 32

// read reads the file of keys:
//
//	# ID and 32 random bytes in base64. The first key encrypts, all decrypt.
//	2026-11 wq3…=
//	2026-05 0Pz…=
//
// It and its directory have root or this process's user as their owner, and only that owner may read it.
func (c *Codec) read() error {
	is, err := os.Stat(c.path)
	if err != nil {
		return err
	}
	text, err := host.ReadPrivate(c.path)
	if err != nil {
		return err
	}
	keys, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	c.file, c.keys = is, keys
	return nil
}

// parse takes the content of a file apart. The error names lines, and never has a key.
func parse(text string) (*ring, error) {
	keys := &ring{all: map[string]cipher.AEAD{}}
	number := 0
	for line := range strings.Lines(text) {
		number++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) != 2 {
			return nil, fmt.Errorf("line %d: it is not an ID and a key", number)
		}
		id := words[0]
		if keys.all[id] != nil {
			return nil, fmt.Errorf("line %d: its ID is listed twice", number)
		}
		key, err := base64.StdEncoding.DecodeString(words[1])
		if err != nil || len(key) != keySize {
			return nil, fmt.Errorf("line %d: its key is not %d bytes in base64 (openssl rand -base64 %d)",
				number, keySize, keySize)
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		if keys.all[id], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return nil, err
		}
		if keys.first == "" {
			keys.first = id
		}
	}
	if keys.first == "" {
		return nil, fmt.Errorf("it has no key")
	}
	return keys, nil
}
