package api

import (
	"fmt"
	"strconv"
	"strings"

	"burnish/internal/device"
)

// serviceType is the API's name in OpenStack's catalog and in the version header.
const serviceType = "accelerator"

// versionHeader is the header of a microversion, of the request and of the answer.
const versionHeader = "OpenStack-API-Version"

// version is a microversion 2.x of the API. Its value is x.
type version int

// The microversions. v21 shows the device's state and has the act clean.
const (
	v20 version = 0
	v21 version = 1

	oldest = v20
	newest = v21
)

// String gives the version as clients write it.
func (v version) String() string { return "2." + strconv.Itoa(int(v)) }

func (v version) less(other version) bool { return v < other }

// negotiate reads the version that the request asks for. Every answer below /v2 names the
// version that it has, and the headers that it depends on.
func (c *call) negotiate() error {
	c.header.Set("Vary", versionHeader)
	var err error
	if c.version, err = versionOf(c.r.Header.Values(versionHeader)); err != nil {
		return err
	}
	c.header.Set(versionHeader, serviceType+" "+c.version.String())
	return nil
}

// versionOf reads the values of the version header, each of which may name several services.
// Without one for this service it is the oldest.
func versionOf(values []string) (version, error) {
	asked, found := oldest, ""
	for _, each := range strings.Split(strings.Join(values, ","), ",") {
		words := strings.Fields(each)
		if len(words) == 0 || !strings.EqualFold(words[0], serviceType) {
			continue
		}
		v, ok := known(words[1:])
		if !ok || found != "" && v != asked {
			return 0, &device.Fault{Class: device.Permanent, Code: device.CodeVersionUnsupported,
				Message: fmt.Sprintf("version %q is not supported: this API has %s to %s", strings.TrimSpace(each), oldest, newest),
				Remedy:  fmt.Sprintf("send %s: %s %s, or latest", versionHeader, serviceType, newest)}
		}
		asked, found = v, each
	}
	return asked, nil
}

func known(words []string) (version, bool) {
	if len(words) != 1 {
		return 0, false
	}
	if strings.EqualFold(words[0], "latest") {
		return newest, true
	}
	for v := oldest; v <= newest; v++ {
		if words[0] == v.String() {
			return v, true
		}
	}
	return 0, false
}
