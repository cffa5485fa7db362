package redfish

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

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
	Rewrite   string   `json:"rewrite"`
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
		switch { // the rest, the policy has checked
		case one.Component == "":
			return nil, wrong("a server has several components: the policy must name one, such as BIOS")
		case one.Rewrite != "":
			return nil, wrong("component %s: rewrite: %s is for the driver pci", one.Component, one.Rewrite)
		}
	}
	return args.Components, nil
}

// openImage is a copy of an image whose bytes were checked. Nothing can change it: it has no name.
type openImage struct {
	file *os.File
	size int64
}

// open copies the image and checks the SHA-256 of the copy. Fault: firmware_image_invalid.
func (i firmwareImage) open() (_ *openImage, err error) {
	from, err := hardware.OpenImage(i.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.Close() }() // it is only read
	stat, err := from.Stat()
	if err != nil {
		return nil, err
	}
	if stat.Size() == 0 || stat.Size() > largestImage {
		return nil, hardware.InvalidImage("the image %s has %d bytes: it must have at most %d", i.Path, stat.Size(),
			largestImage)
	}
	to, err := os.CreateTemp("", "burnish-image-*")
	if err != nil {
		return nil, hardware.IOFault("copy the image "+i.Path+" to", os.TempDir(), err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, to.Close())
		}
	}()
	if err := os.Remove(to.Name()); err != nil {
		return nil, err
	}
	sum := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, largestImage))
	if err != nil {
		return nil, hardware.IOFault("copy the image "+i.Path+" to", os.TempDir(), err)
	}
	if have := hex.EncodeToString(sum.Sum(nil)); have != i.SHA256 {
		return nil, hardware.InvalidImage("the image %s has the SHA-256 %s instead of %s", i.Path, have, i.SHA256)
	}
	return &openImage{file: to, size: size}, nil
}

// reader gives the bytes of the image from their beginning.
func (o *openImage) reader() *io.SectionReader { return io.NewSectionReader(o.file, 0, o.size) }

// content is the body of a request with the image between head and tail.
func (o *openImage) content(kind string, head, tail []byte) *content {
	return &content{Type: kind, Length: int64(len(head)+len(tail)) + o.size, Open: func() io.Reader {
		return io.MultiReader(bytes.NewReader(head), o.reader(), bytes.NewReader(tail))
	}}
}

// multipart is the body for MultipartHttpPushUri: the parameters, then the image.
func (o *openImage) multipart(parameters any, name string) (*content, error) {
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
	return o.content("multipart/form-data; boundary="+boundary, head.Bytes(),
		fmt.Appendf(nil, "\r\n--%s--\r\n", boundary)), nil
}
