package proof

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
	"burnish/internal/host"
)

// Discovery is the Step of a Statement whose Result is a Found.
const Discovery = "discover"

// Statement is what a host says of a step that it has carried out, or of what it found.
type Statement struct {
	Host string `json:"host"`
	// Device is its name. Driver, Address and Settings are what the host opened under it.
	Device   string            `json:"device"`
	Driver   string            `json:"driver"`
	Address  string            `json:"address,omitempty"`
	Settings map[string]string `json:"settings,omitempty"`
	// Unit is the hardware that it found there.
	Unit string `json:"unit,omitempty"`
	// Reservation is the number of the receipt under which it was asked.
	Reservation string `json:"reservation"`
	Clean       string `json:"clean"`
	Step        string `json:"step"`
	Version     int    `json:"version"`
	Seq         int64  `json:"seq"`
	// Operation, Args and Obeys are how the step was asked for: by which erase, with which arguments, which are a JSON
	// object or nil, and by which of the operator's settings.
	Operation device.Operation    `json:"operation,omitempty"`
	Args      json.RawMessage     `json:"args,omitempty"`
	Obeys     device.StepSettings `json:"obeys,omitzero"`
	// Result is the step's own answer.
	Result json.RawMessage `json:"result"`
}

// HostKey is the private key of a host.
type HostKey struct{ private ed25519.PrivateKey }

// OpenHostKey reads a host's key, and makes it if there is no such file.
func OpenHostKey(file string) (HostKey, error) {
	key, err := ReadHostKey(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // which never fails
	err = atomicfile.Create(file, func(f *os.File) error {
		_, err := f.WriteString(base64.StdEncoding.EncodeToString(seed) + "\n")
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return HostKey{}, fmt.Errorf("key of this host: %w", err)
	}
	return ReadHostKey(file)
}

// ReadHostKey reads a host's key, which only the worker's user may read.
func ReadHostKey(file string) (HostKey, error) {
	text, err := host.ReadPrivate(file)
	if err != nil {
		return HostKey{}, fmt.Errorf("key of this host: %w", err)
	}
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return HostKey{}, fmt.Errorf("key of this host: %s is not one: move it away, and a new one is made", file)
	}
	return HostKey{ed25519.NewKeyFromSeed(seed)}, nil
}

// Public is the public key, as it stands in the file of hosts' keys.
func (k HostKey) Public() string {
	return base64.StdEncoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

const signed = "step 1\n"

// Sign is the statement with its signature, in one word.
func (k HostKey) Sign(s Statement) (string, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	return encode(text) + "." + encode(ed25519.Sign(k.private, append([]byte(signed), text...))), nil
}

// read takes a signed statement apart. What it says is not checked.
func read(word string) (s Statement, text, signature []byte, err error) {
	first, last, _ := strings.Cut(word, ".")
	if text, err = base64.RawURLEncoding.DecodeString(first); err == nil {
		signature, err = base64.RawURLEncoding.DecodeString(last)
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, text, signature, err
}
