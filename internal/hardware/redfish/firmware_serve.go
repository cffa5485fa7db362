package redfish

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// imageAddress is the setting with the worker's address as the BMC reaches it.
const imageAddress = "image_address"

// served is an image that the worker serves to one BMC while one update is made.
type served struct {
	url    string
	copied *os.File
	server *http.Server
	done   chan struct{}
	// failed is why it ended before Close; it is set when done is closed.
	failed error
}

// serve has the BMC fetch the image from the worker.
func (u *update) serve(ctx context.Context, service *updateService, path string, parameters map[string]any,
	image *openImage) error {
	address := u.h.target.Settings[imageAddress]
	if address == "" {
		return hardware.Refused(device.CodeInvalidSetting, "enroll the server with --set "+imageAddress+
			"=HOST:PORT, at which its BMC reaches this host; or update the BMC's firmware",
			"the BMC takes no image by itself: it fetches it, and this host has no address for it")
	}
	if protocols := service.Actions.SimpleUpdate.Protocols; len(protocols) > 0 && !slices.Contains(protocols, "HTTP") {
		return hardware.Refused(device.CodeCommandRefused, "update the BMC's firmware",
			"the BMC fetches images only by %v, not by HTTP", protocols)
	}
	before, err := u.h.c.tasks(ctx)
	if err != nil {
		return err
	}
	if u.serving, err = serveImage(address, image, filepath.Base(u.image.Path)); err != nil {
		return err
	}
	u.Way = wayServed
	parameters["ImageURI"], parameters["TransferProtocol"] = u.serving.url, "HTTP"
	got, err := u.h.change(ctx,
		request{Method: http.MethodPost, Path: path, Body: parameters, Intent: u.journalSent(path, before)})
	return u.sent(ctx, got, err)
}

// serveImage serves a copy of the bytes that were checked, at a URL with a secret in it, until
// it is closed. Nothing can change the copy: it has no name.
func serveImage(address string, image *openImage, name string) (_ *served, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, "0"
	}
	s := &served{done: make(chan struct{})}
	if s.copied, err = image.copied(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, errors.Join(hardware.Refused(device.CodeInvalidSetting, "enroll the server with another "+imageAddress,
			"this host cannot listen at %q (%s): %v", address, imageAddress, err), s.copied.Close())
	}
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close(), s.copied.Close())
	}
	path := "/" + rand.Text() + "/" + url.PathEscape(name)
	s.url = "http://" + net.JoinHostPort(host, port) + path
	s.server = &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.EscapedPath() != path || r.Method != http.MethodGet && r.Method != http.MethodHead {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(s.copied, 0, image.size))
		}),
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.failed = fmt.Errorf("serve the image: %w", err)
		}
	}()
	return s, nil
}

// Close ends the service.
func (s *served) Close() error {
	err := s.server.Close()
	<-s.done
	return errors.Join(s.failed, err, s.copied.Close())
}

// copied copies the image into a file without a name, and checks the copy.
func (o *openImage) copied() (_ *os.File, err error) {
	to, err := os.CreateTemp("", "burnish-image-*")
	if err != nil {
		return nil, err
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
	if _, err := io.Copy(io.MultiWriter(to, sum), io.NewSectionReader(o.file, 0, o.size)); err != nil {
		return nil, err
	}
	if have := hex.EncodeToString(sum.Sum(nil)); have != o.digest {
		return nil, invalidImage("the image was changed while it was copied: its SHA-256 is %s instead of %s", have, o.digest)
	}
	return to, nil
}
