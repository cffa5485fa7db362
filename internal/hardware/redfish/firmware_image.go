package redfish

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// largestImage bounds the size of a firmware image.
const largestImage = 2 << 30

// firmwareImage is what the firmware policy has for one component: the only update of it
// that is allowed.
type firmwareImage struct {
	Component string   `json:"component"`
	From      []string `json:"from"`
	To        string   `json:"to"`
	Path      string   `json:"image"`
	SHA256    string   `json:"sha256"`
}

// imagesOf reads the arguments of firmware_reflash and verify_firmware.
func imagesOf(run hardware.StepRun) ([]firmwareImage, error) {
	wrong := func(format string, args ...any) error {
		return hardware.Refused(device.CodeInvalidSetting, "correct the firmware policy", "%s: %s", run.Step,
			fmt.Sprintf(format, args...))
	}
	var args struct {
		Components []firmwareImage `json:"components"`
	}
	if run.Args != nil {
		if err := json.Unmarshal(run.Args, &args); err != nil {
			return nil, wrong("%v", err)
		}
	}
	if len(args.Components) == 0 {
		return nil, wrong("the firmware policy has no image for this server")
	}
	for _, one := range args.Components {
		digest, err := hex.DecodeString(one.SHA256)
		switch {
		case one.Component == "":
			return nil, wrong("a server has several components: the policy must name one, such as BIOS")
		case one.To == "":
			return nil, wrong("component %s: the policy does not name the version", one.Component)
		case !filepath.IsAbs(one.Path):
			return nil, wrong("component %s: %q is not the absolute path of an image", one.Component, one.Path)
		case err != nil || len(digest) != sha256.Size:
			return nil, wrong("component %s: %q is not a SHA-256", one.Component, one.SHA256)
		}
	}
	return args.Components, nil
}

// openImage is an image that was opened once. Its bytes were checked, and are checked again
// as they are sent.
type openImage struct {
	file   *os.File
	size   int64
	digest string
}

// open opens the image and checks its SHA-256. Fault: firmware_image_invalid.
func (i firmwareImage) open() (_ *openImage, err error) {
	// Not blocking: the path may be a pipe.
	file, err := os.OpenFile(i.Path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, invalidImage("the image cannot be opened: %v", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Close())
		}
	}()
	stat, err := file.Stat()
	if err != nil || !stat.Mode().IsRegular() {
		return nil, invalidImage("%s is not a regular file", i.Path)
	}
	if stat.Size() == 0 || stat.Size() > largestImage {
		return nil, invalidImage("the image %s has %d bytes: it must have at most %d", i.Path, stat.Size(), largestImage)
	}
	sum := sha256.New()
	if n, err := io.Copy(sum, io.NewSectionReader(file, 0, largestImage)); err != nil || n != stat.Size() {
		return nil, invalidImage("the image %s cannot be read whole: %v", i.Path, err)
	}
	o := &openImage{file: file, size: stat.Size(), digest: strings.ToLower(i.SHA256)}
	if have := hex.EncodeToString(sum.Sum(nil)); have != o.digest {
		return nil, invalidImage("the image %s has the SHA-256 %s instead of %s", i.Path, have, o.digest)
	}
	return o, nil
}

func (o *openImage) Close() error { return o.file.Close() }

func invalidImage(format string, args ...any) error {
	return hardware.Refused(device.CodeFirmwareImage, "put the right image on the host, or correct the firmware policy "+
		"(image, sha256)", format, args...)
}

// body is the body of a request with the image between head and tail. A BMC writes nothing
// before it has the end of the body, so that the end is the commit: it is given only when the
// bytes before it had the image's digest, and commit has returned nil.
func (o *openImage) body(kind string, head, tail []byte) *imageBody {
	return &imageBody{image: o, kind: kind, head: head, tail: tail}
}

// imageBody gives the body of a request each time that it is sent.
type imageBody struct {
	image      *openImage
	kind       string
	head, tail []byte
	// commit is called before the end of the body is given.
	commit func() error

	mu     sync.Mutex
	ended  bool
	failed error
}

// content is the body as the request takes it.
func (b *imageBody) content() *content {
	return &content{Type: b.kind, Length: int64(len(b.head)+len(b.tail)) + b.image.size,
		Open: func() (io.ReadCloser, error) {
			return &imageReader{
				body: b, sum: sha256.New(), left: b.image.size,
				from: io.NewSectionReader(b.image.file, 0, b.image.size), head: bytes.NewReader(b.head),
				tail: bytes.NewReader(b.tail),
			}, nil
		}}
}

// stop ends all readers: none gives anything, or calls commit, when it has returned. The error
// is why the body was not given whole.
func (b *imageBody) stop() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	return b.failed
}

// imageReader reads a body once. It holds back the last byte of the image, and the tail.
type imageReader struct {
	body       *imageBody
	head, tail *bytes.Reader
	from       io.Reader
	sum        hash.Hash
	left       int64 // of the image
}

func (r *imageReader) Close() error { return nil }

func (r *imageReader) Read(p []byte) (int, error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	switch {
	case r.body.ended:
		return 0, errors.New("the request has ended")
	case len(p) == 0:
		return 0, nil
	case r.head.Len() > 0:
		return r.head.Read(p)
	case r.left == 0:
		return r.tail.Read(p)
	case r.left == 1:
		if err := r.end(p[:1]); err != nil {
			r.body.failed = err
			return 0, err
		}
		r.left = 0
		return 1, nil
	}
	n, err := r.from.Read(p[:min(int64(len(p)), r.left-1)])
	r.sum.Write(p[:n])
	r.left -= int64(n)
	if err != nil {
		err = invalidImage("the image cannot be read: %v", err)
		r.body.failed = err
	}
	return n, err
}

// end reads the image's last byte, and gives it only where the commit may be.
func (r *imageReader) end(p []byte) error {
	if _, err := io.ReadFull(r.from, p); err != nil {
		return invalidImage("the image cannot be read: %v", err)
	}
	r.sum.Write(p)
	if have := hex.EncodeToString(r.sum.Sum(nil)); have != r.body.image.digest {
		return invalidImage("the image was changed while it was sent: its SHA-256 is %s instead of %s", have,
			r.body.image.digest)
	}
	if r.body.commit == nil {
		return nil
	}
	return r.body.commit()
}

// multipart is the body for MultipartHttpPushUri: the parameters, then the image.
func (o *openImage) multipart(parameters any, name string) (*imageBody, error) {
	text, err := json.Marshal(parameters)
	if err != nil {
		return nil, err
	}
	boundary := "burnish-" + rand.Text()
	var head bytes.Buffer
	fmt.Fprintf(&head, "--%s\r\nContent-Disposition: form-data; name=\"UpdateParameters\"\r\nContent-Type: "+
		"application/json\r\n\r\n%s\r\n", boundary, text)
	fmt.Fprintf(&head, "--%s\r\nContent-Disposition: form-data; name=\"UpdateFile\"; filename=%q\r\nContent-Type: "+
		"application/octet-stream\r\n\r\n", boundary, name)
	return o.body("multipart/form-data; boundary="+boundary, head.Bytes(), fmt.Appendf(nil, "\r\n--%s--\r\n", boundary)),
		nil
}

// sendImage sends a request with an image. commit is called before its end, which is when the
// BMC begins.
func (h *handle) sendImage(ctx context.Context, r request, body *imageBody, commit func() error) (answer, error) {
	body.commit = func() error {
		// The transfer may have taken minutes.
		if err := hardware.MayWrite(ctx); err != nil {
			return err
		}
		return commit()
	}
	r.Content = body.content()
	got, err := h.change(ctx, r)
	if failed := body.stop(); failed != nil {
		return got, failed
	}
	return got, err
}
