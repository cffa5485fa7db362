// Package placement keeps reservations in OpenStack Placement, through gophercloud: on
// providers that Burnish creates for its own devices, marked with the trait
// OWNER_CYBORG, and on those that Nova creates for its one-time-use devices.
//
// It relies on these properties of Placement:
//
//   - Placement does not allocate a provider without an inventory. So Create writes the
//     inventory last, in one request, with reserved = total.
//   - Writing an inventory without `reserved` sets it to 0. So an inventory is written
//     back with all the fields that were read.
//   - 409 has many reasons, and only the code in the body distinguishes them.
package placement

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/keystone"
)

// The traits that distinguish providers. Settings.Traits may replace them.
const (
	// OwnTrait marks the providers that Burnish creates.
	OwnTrait = "OWNER_CYBORG"
	// OneTimeUse marks a device that is allocated once and then must be cleaned.
	OneTimeUse = "HW_PCI_ONE_TIME_USE"
)

// Microversions. 1.26 is the first that accepts reserved == total; since 1.29,
// allocation candidates include providers below a root.
const (
	needed           = "1.26"
	neededMinor      = 26
	nested           = "1.29"
	nestedMinor      = 29
	defaultTimeout   = 30 * time.Second
	upgradePlacement = "upgrade Placement to the release Rocky or later"
)

// maxTries bounds how often a call starts over after a conflict.
const maxTries = 5

// Settings are those of Open beside the credentials, which are those of the command
// `openstack`: clouds.yaml with OS_CLOUD, or OS_* variables.
type Settings struct {
	// NovaHosts maps Nova's name of a host to Burnish's; case is ignored.
	NovaHosts map[string]string
	// Traits replaces standard traits that Placement does not know:
	// HW_NVME_CES=CUSTOM_NVME_CES.
	Traits map[string]string
	// Getenv reads a variable; nil is os.Getenv.
	Getenv func(string) string
	// Log gets what an operator must know and no caller can act on; nil is
	// slog.Default().
	Log *slog.Logger
	// Timeout bounds one request; 0 is 30 s.
	Timeout time.Duration
}

// Store is inventory.Store, inventory.NovaProviders and inventory.Lister on one Placement.
// It may be used from many goroutines.
type Store struct {
	log       *slog.Logger
	timeout   time.Duration
	access    access
	novaHosts map[string]string // lower case to lower case
	traits    map[string]string

	dialing chan struct{} // holds the turn to connect
	mu      sync.Mutex
	conn    *connection
	warned  map[string]bool // what was logged already

	cache *cache
}

// connection is a client that Placement's versions were checked through.
type connection struct {
	client *gophercloud.ServiceClient
	nested *gophercloud.ServiceClient // nil where Placement is too old for it
}

var (
	_ inventory.Store         = (*Store)(nil)
	_ inventory.NovaProviders = (*Store)(nil)
	_ inventory.Lister        = (*Store)(nil)
)

// Open reads the credentials and checks with Placement that they are valid. A Placement
// that is too old is an error with both versions. If Placement or Keystone does not
// answer, Open logs that and succeeds; the Store connects later, with the same checks.
func Open(ctx context.Context, settings Settings) (*Store, error) {
	s := &Store{
		log: settings.Log, timeout: settings.Timeout,
		novaHosts: map[string]string{}, traits: maps.Clone(settings.Traits),
		dialing: make(chan struct{}, 1), warned: map[string]bool{},
		cache: newCache(),
	}
	for nova, ours := range settings.NovaHosts {
		s.novaHosts[strings.ToLower(nova)] = strings.ToLower(ours)
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.timeout == 0 {
		s.timeout = defaultTimeout
	}
	getenv := settings.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	var err error
	if s.access.Access, err = keystone.Read(getenv); err != nil {
		return nil, fmt.Errorf("placement: %w", err)
	}
	if _, err = s.connected(ctx); err != nil {
		var no *refusal
		if errors.As(err, &no) {
			return nil, inventory.Invalid(refusedCredentialsText+": "+no.said, refusedCredentialsRemedy)
		}
		f, ok := device.AsFault(err)
		if !ok || f.Code != device.CodeInventoryUnavailable || ctx.Err() != nil {
			return nil, err
		}
		s.log.Warn("Placement does not answer; the worker connects as soon as it does", "error", err)
	}
	return s, nil
}

// connected gives the connection, and connects if there is none. One caller tries at a
// time; the others wait, and try themselves if it failed.
func (s *Store) connected(ctx context.Context) (*connection, error) {
	if c := s.current(); c != nil {
		return c, nil
	}
	select {
	case s.dialing <- struct{}{}:
	case <-ctx.Done():
		return nil, unavailable(ctx, ctx.Err())
	}
	defer func() { <-s.dialing }()
	if c := s.current(); c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	client, err := s.access.dial(ctx)
	if err != nil {
		return nil, s.fault(ctx, requestInfo{}, err)
	}
	c, err := negotiate(ctx, client)
	if err != nil {
		return nil, s.fault(ctx, requestInfo{}, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = c
	return c, nil
}

func (s *Store) current() *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// negotiate checks the microversions, and that the credentials may read.
func negotiate(ctx context.Context, client *gophercloud.ServiceClient) (*connection, error) {
	var answer struct {
		Versions []struct {
			Min string `json:"min_version"`
			Max string `json:"max_version"`
		} `json:"versions"`
	}
	resp, err := client.Get(ctx, client.Endpoint, &answer, &gophercloud.RequestOpts{OkCodes: []int{200}})
	if _, _, err = gophercloud.ParseResponse(resp, err); err != nil {
		return nil, err
	}
	if len(answer.Versions) == 0 {
		return nil, fmt.Errorf("%s answers, but is not Placement", client.Endpoint)
	}
	found := answer.Versions[0]
	lowest, highest := minor(found.Min), minor(found.Max)
	if highest < neededMinor || lowest > neededMinor {
		return nil, inventory.Invalid(
			fmt.Sprintf("Placement at %s speaks microversions %s to %s, and Burnish needs %s", client.Endpoint, found.Min,
				found.Max, needed),
			upgradePlacement)
	}
	client.Microversion = needed
	// Anybody may read the versions, but not the providers.
	if _, err := resourceproviders.List(client, resourceproviders.ListOpts{Name: "burnish"}).AllPages(ctx); err != nil {
		return nil, err
	}
	c := &connection{client: client}
	if highest >= nestedMinor {
		more := *client
		more.Microversion = nested
		c.nested = &more
	}
	return c, nil
}

// minor gives the second number of a microversion, -1 if it is invalid.
func minor(version string) int {
	major, rest, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(rest)
	if major != "1" || err != nil {
		return -1
	}
	return n
}

// do makes one request, within the time that one may take.
func (s *Store) do(ctx context.Context, what requestInfo,
	request func(context.Context, *gophercloud.ServiceClient) error) error {
	if err := ctx.Err(); err != nil {
		return unavailable(ctx, err)
	}
	c, err := s.connected(ctx)
	if err != nil {
		return err
	}
	err = s.doWith(ctx, c.client, what, request)
	var no *refusal
	if errors.As(err, &no) {
		s.disconnect(c) // the next call asks for a new token, which may have another role
	}
	return err
}

// result is an answer as gophercloud has it.
type result interface{ ExtractInto(any) error }

// ask makes one request, and reads its answer into a struct of pointers, one for each member that
// Placement always sends.
func (s *Store) ask(ctx context.Context, what requestInfo, answer any,
	request func(context.Context, *gophercloud.ServiceClient) result) error {
	return s.do(ctx, what, func(ctx context.Context, c *gophercloud.ServiceClient) error {
		if err := request(ctx, c).ExtractInto(answer); err != nil {
			return err
		}
		of := reflect.ValueOf(answer).Elem()
		for i := range of.NumField() {
			if of.Field(i).IsNil() {
				return errNotPlacement(of.Type().Field(i).Tag.Get("json"))
			}
		}
		return nil
	})
}

// disconnect has the next call connect again.
func (s *Store) disconnect(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == c {
		s.conn = nil
	}
}

func (s *Store) doWith(ctx context.Context, c *gophercloud.ServiceClient, what requestInfo,
	request func(context.Context, *gophercloud.ServiceClient) error) error {
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.fault(ctx, what, request(within, c))
}

// firstTime says that it was not called with this thing before.
func (s *Store) firstTime(thing string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.warned[thing]
	s.warned[thing] = true
	return !before
}

// has says that firstTime was called with this thing.
func (s *Store) has(thing string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warned[thing]
}

// trait gives the name in use for a standard trait.
func (s *Store) trait(standard string) string {
	if custom := s.traits[standard]; custom != "" {
		return custom
	}
	return standard
}
