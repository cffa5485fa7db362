// Package redfish cleans whole servers, devices of the type NODE, through their BMCs over
// Redfish (docs/redfish.md). It works on the BMCs of iDRAC, iLO, Supermicro and OpenBMC, whose
// deviations from the standard it expects.
//
// Every request that changes something goes through handle.change, which reads before it
// whether the system is the enrolled one. There is no descriptor to lock: what keeps two
// attempts on this host apart is the caller's fence, whose name is the server's serial, and
// what keeps hosts apart is that one device has one host.
package redfish

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
)

// Type is the type of the devices of this driver.
const Type = "NODE"

// Host is what the driver needs from its host.
type Host struct {
	// StateDir is where the URIs of open sessions are kept.
	StateDir string
	// Allow returns nil if the host's rules let Burnish destroy the server with this serial
	// (F13). nil allows nothing.
	Allow func(serial string) error
	// Secret gives the secret of this name, as the secrets file has it now.
	Secret func(name string) (host.Secret, error)
}

// Driver works on servers through their BMCs.
type Driver struct {
	host   Host
	timing timing
	// dial connects to a BMC. Tests have their own.
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu   sync.Mutex
	bmcs map[string]*bmc // by address and secret
}

// New returns the driver.
func New(h Host) *Driver {
	return &Driver{host: h, timing: usualTiming, bmcs: make(map[string]*bmc),
		dial: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext}
}

// Name is what `enroll --driver` takes.
func (d *Driver) Name() string { return "redfish" }

// Discover reads who the server is and what it consists of, and changes nothing; see
// hardware.Driver. The first one needs the server powered on, with POST ended: before that a
// BMC lists no drives. A later one keeps what was enrolled.
func (d *Driver) Discover(ctx context.Context, t hardware.Target,
	known device.Identity) (found hardware.Discovery, err error) {
	h, err := d.connect(t)
	if err != nil {
		return hardware.Discovery{}, err
	}
	defer h.closeAndJoin(&err)
	enrolled := &known
	if known == (device.Identity{}) {
		enrolled = nil
	}
	s, identity, err := h.recognize(ctx, enrolled)
	if err != nil {
		return hardware.Discovery{}, h.notFound(err)
	}
	if enrolled != nil {
		identity.Properties = known.Properties
	} else {
		if err := h.checkReady(s); err != nil {
			return hardware.Discovery{}, err
		}
		properties, err := h.readProperties(ctx, s)
		if err != nil {
			return hardware.Discovery{}, err
		}
		if len(properties.Drives) == 0 {
			return hardware.Discovery{},
				hardware.Refused(device.CodeTargetMissing, "check the server's drives, and enroll it again",
					"the BMC lists no drive of %s: a server without a drive to erase is not enrolled", describe(identity))
		}
		if properties.Setup, err = h.readSetup(ctx); err != nil {
			return hardware.Discovery{}, err
		}
		if identity.Properties, err = properties.Text(); err != nil {
			return hardware.Discovery{}, err
		}
	}
	return hardware.Discovery{
		Identity: identity, Type: Type, Operation: device.SecureErase, SupportedSteps: steps(), Power: true,
		Note: describe(identity) + ", by its BMC at " + h.bmc.base.Host,
	}, nil
}

// Open connects to the BMC and proves that it manages the enrolled server; see
// hardware.Driver.
func (d *Driver) Open(ctx context.Context, t hardware.Target, enrolled device.Identity,
	writable bool) (_ hardware.Handle, err error) {
	h, err := d.connect(t)
	if err != nil {
		return nil, err
	}
	h.enrolled, h.writable = enrolled, writable
	defer func() {
		if err != nil {
			h.closeAndJoin(&err)
		}
	}()
	if err := h.Check(ctx); err != nil {
		return nil, err
	}
	return h, nil
}

// connect reads the device's settings, without a request to the BMC.
func (d *Driver) connect(t hardware.Target) (*handle, error) {
	if err := t.KnownSettings(device.SettingGolden, imageAddress, "secret", "url"); err != nil {
		return nil, err
	}
	base, err := url.Parse(t.Settings["url"])
	// The error of Parse repeats the URL, which may have a password by mistake.
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" {
		return nil, hardware.Invalid("url must be that of the system, such as https://bmc.example/redfish/v1/Systems/1")
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, hardware.Invalid("url has more than a host and a path: user and password belong into the secrets file")
	}
	path := base.EscapedPath()
	if !strings.HasPrefix(strings.ToLower(path), "/redfish/v1/systems/") {
		return nil, hardware.Invalid("url must name one system: /redfish/v1/Systems/…, not %q", path)
	}
	secret := t.Settings["secret"]
	if secret == "" {
		return nil,
			hardware.Invalid("the driver redfish needs the name of a secret of the secrets file of host.yaml (--set " +
				"secret=NAME)")
	}
	return &handle{driver: d, target: t, system: path, bmc: d.acquire(base, secret), patience: d.timing.look,
		ended: map[string]bool{}, registries: map[string]registry{}}, nil
}

// credentials reads the secret again.
func (d *Driver) credentials(name string) (host.Secret, error) {
	if d.host.Secret == nil {
		return host.Secret{}, hardware.Refused(device.CodeNotAllowed, "name the secrets file in host.yaml",
			"this host has no secrets")
	}
	return d.host.Secret(name)
}

// checkAllowed asks the host's rules (F13).
func (d *Driver) checkAllowed(serial string) error {
	if d.host.Allow == nil {
		return hardware.Refused(device.CodeNotAllowed, "allow it in the host's host.yaml, if it may be destroyed",
			"the server %s may not be destroyed: this host allows nothing", serial)
	}
	return d.host.Allow(serial)
}

// describe names a server for an operator.
func describe(i device.Identity) string {
	return hardware.OneLine(fmt.Sprintf("%s %s (serial %s)", i.Vendor, i.Model, i.Serial))
}
