package redfish

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
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
	serving, err := serveImage(address, image, filepath.Base(u.image.Path))
	if err != nil {
		return err
	}
	u.serving = serving
	u.Way = wayServed
	parameters["ImageURI"], parameters["TransferProtocol"] = u.serving.url, "HTTP"
	return u.give(ctx, request{Method: http.MethodPost, Path: path, Body: parameters})
}

// serveImage serves the bytes that were checked, at a URL with a secret in it, until it is closed.
func serveImage(address string, image *openImage, name string) (_ *served, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, "0"
	}
	s := &served{done: make(chan struct{})}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, hardware.Refused(device.CodeInvalidSetting, "enroll the server with another "+imageAddress,
			"this host cannot listen at %q (%s): %v", address, imageAddress, err)
	}
	_, port, err = net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
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
			http.ServeContent(w, r, "", time.Time{}, image.reader())
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
	return errors.Join(s.failed, err)
}
