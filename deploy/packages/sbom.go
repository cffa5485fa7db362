package main

import (
	"debug/buildinfo"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// sbom writes what a program is made of, as Go recorded it in the program: its modules with their
// versions and checksums, and Go itself.
func (r release) sbom(program, _ string) (file string, err error) {
	info, err := buildinfo.ReadFile("bin/" + program)
	if err != nil {
		return "", err
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: r.made.Format("2006-01-02T15:04:05Z"),
		Component: &cyclonedx.Component{Type: cyclonedx.ComponentTypeApplication, Name: program, Version: r.version},
	}
	parts := []cyclonedx.Component{module("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, module(m.Path, m.Version, m.Sum))
	}
	bom.Components = &parts
	file = filepath.Join(r.out, program+"_"+r.version+".cdx.json")
	return file, write(file, func(w io.Writer) error {
		return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	})
}

// module is a Go module. Its checksum is that of go.sum, which is none of a single file.
func module(path, version, sum string) cyclonedx.Component {
	where := "pkg:golang/" + path + "@" + url.PathEscape(version)
	c := cyclonedx.Component{BOMRef: where, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version,
		PackageURL: where}
	if sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: sum}}
	}
	return c
}
