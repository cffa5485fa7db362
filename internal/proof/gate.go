package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"burnish/internal/clean"
	"burnish/internal/device"
	"burnish/internal/host"
	"burnish/internal/yamlfile"
)

// Gate decides what may be offered, by the file of hosts' keys:
//
//	hosts:
//	- name: h1
//	  key: 3bJ4…=
//	  devices:
//	  - {name: d1, driver: block, settings: {path: /dev/sdb}}
//
// A host speaks for the devices that are named after it and their PCI address and have no settings, and for those that
// are listed. The file
// and its directory have root or the worker's user as their owner, and only that owner may write to them. It is
// read for each device that is to be offered.
type Gate struct {
	Receipts
	file    string
	planner *clean.Planner

	mu     sync.Mutex
	hosts  []knownHost
	digest [sha256.Size]byte // of the content that was parsed
}

// knownHost is one entry of the file.
type knownHost struct {
	Name string `yaml:"name"`
	// Key is its public key (Ed25519), in base64.
	Key     string        `yaml:"key"`
	Devices []knownDevice `yaml:"devices"`
	public  ed25519.PublicKey
}

// knownDevice is a device as it is enrolled, whose name does not say where it is, or which has settings.
type knownDevice struct {
	Name     string            `yaml:"name"`
	Driver   string            `yaml:"driver"`
	Address  string            `yaml:"address"`
	Settings map[string]string `yaml:"settings"`
}

// OpenGate checks that the file can be read. The planner is that of the policy by which devices are cleaned.
func OpenGate(file string, receipts Receipts, planner *clean.Planner) (*Gate, error) {
	g := &Gate{Receipts: receipts, file: file, planner: planner}
	_, err := g.known()
	return g, err
}

// known reads the file, and parses it if it has changed.
func (g *Gate) known() ([]knownHost, error) {
	text, err := host.ReadTrusted(g.file)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	digest := sha256.Sum256(text)
	if g.hosts != nil && digest == g.digest {
		return g.hosts, nil
	}
	hosts, err := parseHosts(g.file, text)
	if err != nil {
		return nil, err
	}
	g.hosts, g.digest = hosts, digest
	return hosts, nil
}

// parseHosts reads the file. Its error is one line.
func parseHosts(file string, text []byte) ([]knownHost, error) {
	var r yamlfile.Reader
	var all []knownHost
	root := r.Parse(text)
	for key, list := range r.Mapping(root, "the file", "hosts") {
		for _, item := range r.List(list, key) {
			var h knownHost
			r.Decode(item, "a host", &h, nil)
			public, err := base64.StdEncoding.DecodeString(h.Key)
			switch {
			case h.Name == "":
				r.Problem(item, "a host has no name")
			case err != nil || len(public) != ed25519.PublicKeySize:
				r.Problem(item, "%s: key is not one: `burnish-worker key` on that host prints its own", h.Name)
			case slices.ContainsFunc(all, func(other knownHost) bool { return other.Name == h.Name }):
				r.Problem(item, "%s: it is there twice", h.Name)
			}
			h.public = public
			all = append(all, h)
		}
	}
	if problems := r.Problems(); len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", file, strings.Join(problems, "; "))
	}
	return all, nil
}

// MayOffer says why the device of this name may not be offered, whose provider id is reserved at this generation. It
// may, if it was free when it was reserved and could not be had since, or with signed statements, since then, of what
// its host found and of each step that the policy plans for that. The fault conflict says that the receipt is of
// another generation: the write would fail, too.
func (g *Gate) MayOffer(name, id string, generation int64, receipt string, statements []string) error {
	of, ok := g.open(name, id, receipt)
	switch {
	case !ok && receipt != "":
		return notProved(name, "its reservation has no receipt of this BURNISH_API_KEY")
	case ok && of.generation != generation:
		return &device.Fault{Class: device.Permanent, Code: device.CodeConflict,
			Message: "the provider of " + name + " was written since it was reserved"}
	case ok && of.free:
		return nil
	case !ok || len(statements) == 0:
		return notProved(name, "no host has said that it cleaned it since it was reserved")
	}
	hosts, err := g.known()
	if err != nil {
		return &device.Fault{Class: device.Transient, Code: device.CodeInvalidConfig,
			Message: "the keys of hosts cannot be read: " + err.Error(), Remedy: "mend BURNISH_HOST_KEYS"}
	}
	var said []Statement
	for _, word := range statements {
		s, err := verified(hosts, word)
		switch {
		case err != nil:
		case s.Device != name:
			err = fmt.Errorf("%s was done on %s", s.Step, s.Device)
		case s.Reservation != of.number:
			err = fmt.Errorf("%s was done before it was reserved", s.Step)
		case len(said) > 0 && !s.follows(said[len(said)-1]):
			err = errors.New("its steps are of several cleans, hosts or units, or in another order")
		}
		if err != nil {
			return notProved(name, err.Error())
		}
		said = append(said, s)
	}
	if said[0].Step != Discovery {
		return notProved(name, "no host has said what it found before it cleaned it")
	}
	return g.planned(said[0], said[1:])
}

// follows says that a statement is the next one of the same clean: a discovery is of no clean yet.
func (s Statement) follows(last Statement) bool {
	return s.Host == last.Host && s.Unit == last.Unit && s.Seq > last.Seq &&
		(s.Clean == last.Clean || last.Step == Discovery)
}

// verified is a statement that is signed by the host which it names, of a device that this host speaks for.
func verified(hosts []knownHost, word string) (Statement, error) {
	s, text, signature, err := read(word)
	if err != nil {
		return s, errors.New("a statement of its host cannot be read")
	}
	at := slices.IndexFunc(hosts, func(h knownHost) bool { return h.Name == s.Host })
	switch {
	case at < 0:
		return s, fmt.Errorf("host %s is not one of those in BURNISH_HOST_KEYS", s.Host)
	case !ed25519.Verify(hosts[at].public, append([]byte(signed), text...), signature):
		return s, fmt.Errorf("the statement that %s was done has no signature of host %s", s.Step, s.Host)
	case !hosts[at].speaksFor(s):
		return s, fmt.Errorf("host %s does not speak for it, as it is enrolled", s.Host)
	}
	return s, nil
}

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// addressed are the drivers that find a device by its PCI address, and erase all of it where no setting says otherwise.
var addressed = []string{"nvme", "pci"}

// speaksFor says whether the host speaks for the device, as it opened it.
func (h knownHost) speaksFor(s Statement) bool {
	at := slices.IndexFunc(h.Devices, func(d knownDevice) bool {
		return d.Name == s.Device || d.Address != "" && d.Address == s.Address // which has that name, and no other
	})
	if at < 0 {
		return s.Device == h.Name+"_"+s.Address && pciAddress.MatchString(s.Address) &&
			slices.Contains(addressed, s.Driver) && len(s.Settings) == 0
	}
	d := h.Devices[at]
	return d.Name == s.Device && d.Driver == s.Driver && d.Address == s.Address && maps.Equal(d.Settings, s.Settings)
}

func notProved(name, why string) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotProved,
		Message: "the clean of " + name + " is not proved: " + why,
		Remedy: "see that its host is in BURNISH_HOST_KEYS with its own key (`burnish-worker key` there), " +
			"then clean " + name}
}
