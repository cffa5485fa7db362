// Package codec encrypts what Temporal keeps of devices: arguments, results, memos, heartbeats, and the messages of
// failures, with AES-256-GCM and keys that only Burnish's own processes have. Search attributes, the names of
// workflows, activities, updates and signals, and the identity of each worker stay readable: the server searches and
// sorts by them.
package codec

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Temporal's names for an encrypted payload and its key.
const (
	encodingKey = "encoding"
	encoding    = "binary/encrypted"
	keyIDKey    = "encryption-key-id"
)

const maxTold = 100

// Codec encrypts payloads with the first key of a file and decrypts those of all its keys. The file is read again when
// it has changed; while it cannot be used, the keys that it had last are.
type Codec struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	file os.FileInfo // as it was read
	keys *ring
	told map[string]bool // what the log has already, at most maxTold: anybody can send a payload
}

var _ converter.PayloadCodec = (*Codec)(nil)

// Open reads the file of keys. The error is one line, and never has a key.
func Open(path string, log *slog.Logger) (*Codec, error) {
	c := &Codec{path: path, log: log, told: map[string]bool{}}
	return c, c.read()
}

// DialOption has a connection encrypt every request and decrypt every answer.
func (c *Codec) DialOption() (grpc.DialOption, error) {
	failures, err := converter.NewFailureGRPCClientInterceptor(
		converter.NewFailureGRPCClientInterceptorOptions{EncodeCommonAttributes: true})
	payloads, alsoErr := converter.NewPayloadCodecGRPCClientInterceptor(
		converter.PayloadCodecGRPCClientInterceptorOptions{Codecs: []converter.PayloadCodec{c}})
	return grpc.WithChainUnaryInterceptor(failures, payloads), errors.Join(err, alsoErr)
}

// Encode encrypts payloads.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	keys := c.current()
	encrypted := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		text, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		encrypted[i] = &commonpb.Payload{
			Metadata: map[string][]byte{encodingKey: []byte(encoding), keyIDKey: []byte(keys.first)},
			Data:     keys.all[keys.first].Seal(nil, nil, text, []byte(keys.first)),
		}
	}
	return encrypted, nil
}

// Decode decrypts payloads. One that is not encrypted stays as it is: any client may signal a device. So does one that
// cannot be decrypted, which nobody can read then, and the log says why.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	keys := c.current()
	plain := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain[i] = p
		if string(p.GetMetadata()[encodingKey]) != encoding {
			continue
		}
		if read, err := keys.decrypt(p); err != nil {
			c.tell(err)
		} else {
			plain[i] = read
		}
	}
	return plain, nil
}

// ring is what a file of keys has.
type ring struct {
	first string // the one that encrypts
	all   map[string]cipher.AEAD
}

func (k *ring) decrypt(p *commonpb.Payload) (*commonpb.Payload, error) {
	id := string(p.GetMetadata()[keyIDKey])
	key, ok := k.all[id]
	if !ok {
		return nil, fmt.Errorf("a payload is encrypted with key %q, which is not in the file of keys", id)
	}
	text, err := key.Open(nil, nil, p.GetData(), []byte(id))
	if err != nil {
		return nil, fmt.Errorf("a payload was changed, or encrypted with another key that is called %q", id)
	}
	read := &commonpb.Payload{}
	if err := proto.Unmarshal(text, read); err != nil {
		return nil, fmt.Errorf("a payload of key %q: %w", id, err)
	}
	return read, nil
}

// current are the keys of the file as it is now.
func (c *Codec) current() *ring {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := os.Stat(c.path)
	if err == nil && os.SameFile(now, c.file) && now.ModTime().Equal(c.file.ModTime()) && now.Size() == c.file.Size() {
		return c.keys
	}
	if err == nil {
		err = c.read()
	}
	if err != nil {
		c.tellLocked(fmt.Errorf("the file of keys cannot be used; its last keys are: %w", err))
	}
	return c.keys
}

// tell logs each problem once.
func (c *Codec) tell(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tellLocked(err)
}

func (c *Codec) tellLocked(err error) {
	if text := err.Error(); !c.told[text] && len(c.told) < maxTold {
		c.told[text] = true
		c.log.Error("encryption", "file", c.path, "error", text)
	}
}
