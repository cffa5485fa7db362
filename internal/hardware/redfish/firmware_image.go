package redfish

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"burnish/internal/hardware"
)

// imagesOf reads the arguments of firmware_reflash and verify_firmware.
func imagesOf(run hardware.StepRun) ([]hardware.FirmwareImage, error) {
	images, err := hardware.FirmwareImages(run.Step, run.Args)
	for _, one := range images {
		switch {
		case one.Component == "":
			return nil, hardware.WrongFirmwarePolicy(run.Step,
				"a server has several components: the policy must name one, such as BIOS")
		case one.Rewrite != "":
			return nil, hardware.WrongFirmwarePolicy(run.Step, "component %s: rewrite: %s is for the driver pci", one.Component,
				one.Rewrite)
		}
	}
	return images, err
}

// openImage is a copy of an image whose bytes were checked. Nothing can change it: it has no name.
type openImage struct {
	file *os.File
	size int64
}

// open copies the image and checks the SHA-256 of the copy. Fault: firmware_image_invalid.
func open(i hardware.FirmwareImage) (*openImage, error) {
	to, err := os.CreateTemp("", "burnish-image-*")
	if err != nil {
		return nil, hardware.IOFault("copy the image "+i.Path+" to", os.TempDir(), err)
	}
	size, err := i.CopyTo(to)
	if err = errors.Join(err, os.Remove(to.Name())); err != nil {
		return nil, errors.Join(err, to.Close())
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
