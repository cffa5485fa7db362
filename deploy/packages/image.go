package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the user that an image's program runs as.
const nonroot = 65532

// image writes an OCI archive with the program alone, and the authorities by which it checks a
// server's certificate.
func (r release) image(program, work string) (file string, err error) {
	files, err := r.layer(program)
	if err != nil {
		return "", err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return "", err
	}
	made := v1.Time{Time: r.made}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: "amd64", OS: "linux", Created: made, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: fmt.Sprintf("%d:%d", nonroot, nonroot), WorkingDir: "/", Entrypoint: []string{"/usr/bin/" + program},
			Env:    []string{"PATH=/usr/bin"},
			Labels: map[string]string{"org.opencontainers.image.title": program, "org.opencontainers.image.version": r.version},
		},
	}); err != nil {
		return "", err
	}
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: made, CreatedBy: "make packages"}}); err != nil {
		return "", err
	}
	dir := filepath.Join(work, program+".oci")
	index, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", err
	}
	if err := index.AppendImage(image, layout.WithPlatform(v1.Platform{Architecture: "amd64", OS: "linux"}),
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return "", err
	}
	file = filepath.Join(r.out, program+"_"+r.version+"_amd64.oci.tar")
	return file, write(file, func(w io.Writer) error { return r.archive(w, os.DirFS(dir)) })
}

// layer is all files of an image, as a tar.
func (r release) layer(program string) ([]byte, error) {
	var authorities bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&authorities, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile("bin/" + program)
	if err != nil {
		return nil, err
	}
	users := "root:x:0:0::/:/sbin/nologin\n" +
		fmt.Sprintf("burnish:x:%d:%d::/var/lib/burnish:/sbin/nologin\n", nonroot, nonroot)
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, f := range []struct {
		name    string
		mode    int64
		owner   int
		content []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/passwd", 0o644, 0, []byte(users)},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, authorities.Bytes()},
		{"tmp/", 0o1777, 0, nil},
		{"usr/", 0o755, 0, nil},
		{"usr/bin/", 0o755, 0, nil},
		{"usr/bin/" + program, 0o755, 0, text},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		{"var/lib/burnish/", 0o700, nonroot, nil},
	} {
		header := entry(f.name, f.mode, int64(len(f.content)), r.made)
		header.Uid, header.Gid = f.owner, f.owner
		if err := t.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.content); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), t.Close()
}

// entry is the header of a file, or of a folder if its name ends with a slash.
func entry(name string, mode, size int64, made time.Time) *tar.Header {
	kind := byte(tar.TypeReg)
	if name[len(name)-1] == '/' {
		kind = tar.TypeDir
	}
	return &tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: made}
}

// archive writes a folder as a tar, in the order of names.
func (r release) archive(w io.Writer, dir fs.FS) error {
	t := tar.NewWriter(w)
	err := fs.WalkDir(dir, ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || path == ".":
			return err
		case e.IsDir():
			return t.WriteHeader(entry(path+"/", 0o755, 0, r.made))
		}
		text, err := fs.ReadFile(dir, path)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(entry(path, 0o644, int64(len(text)), r.made)); err != nil {
			return err
		}
		_, err = t.Write(text)
		return err
	})
	return errors.Join(err, t.Close())
}
