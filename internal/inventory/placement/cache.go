package placement

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/placement/v1/resourceproviders"
)

// A list of all names serves for namesLifetimeFactor times as long as it took to
// read, and at least for namesMinLifetime: enrolling a fleet must not read it for
// each device. Meanwhile Placement itself refuses the very same name.
const (
	namesLifetimeFactor = 10
	namesMinLifetime    = time.Second
)

// namedProvider is a provider by its name.
type namedProvider struct{ uuid, name string }

// cache holds what this process read of Placement. It saves requests and decides
// nothing: a write carries the generation that it is based on, and Placement refuses
// an old one. A provider that Placement does not have leaves all parts of the cache
// (forget), and a list that began before that does not bring it back.
type cache struct {
	reading chan struct{} // held by who reads a whole list, so that others share it

	mu sync.Mutex // guards what follows
	// inventories is what was last read or written of each provider, by UUID.
	inventories map[string]cachedInventory
	// devices are Nova's one-time-use providers by their device, and roots the root
	// providers of a host, of the list with the number devicesFrom.
	devices     map[string][]namedProvider
	roots       map[string][]string
	devicesFrom int64
	// names are the providers of any owner, by name in lower case and by the device
	// that they may be for. Nil means that the list must be read.
	names      map[string][]namedProvider
	namesUntil time.Time
	// lists counts the lists that were begun, and gone says for a provider that is not
	// there how many they were when that was seen.
	lists int64
	gone  map[string]int64
}

func newCache() *cache {
	return &cache{
		reading:     make(chan struct{}, 1),
		inventories: map[string]cachedInventory{},
		gone:        map[string]int64{},
	}
}

// keep stores the inventory that was read or written last, also where its generation
// is lower: Placement's database may have been restored from a backup.
func (c *cache) keep(uuid string, inventory cachedInventory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inventories[uuid] = inventory
}

// inventory gives the provider's inventory at exactly this generation.
func (c *cache) inventory(uuid string, generation int64) (cachedInventory, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.inventories[uuid]
	return found, ok && found.generation == generation
}

// class gives the class that the provider last had, "" if unknown.
func (c *cache) class(uuid string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inventories[uuid].class
}

func (c *cache) dropInventory(uuid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inventories, uuid)
}

// forget removes a provider that Placement does not have.
func (c *cache) forget(uuid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone[uuid] = c.lists
	delete(c.inventories, uuid)
	for _, part := range []map[string][]namedProvider{c.devices, c.names} {
		for key, providers := range part {
			if !slices.ContainsFunc(providers, func(p namedProvider) bool { return p.uuid == uuid }) {
				continue
			}
			part[key] = slices.DeleteFunc(slices.Clone(providers), func(p namedProvider) bool { return p.uuid == uuid })
			if len(part[key]) == 0 {
				delete(part, key)
			}
		}
	}
}

// beginList numbers a list that is about to be read.
func (c *cache) beginList() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	return c.lists
}

// byDevice gives a device's providers of Nova, and the number of lists begun so far.
func (c *cache) byDevice(name string) ([]namedProvider, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.devices[name]), c.lists
}

// devicesAfter says whether the devices come from a list that began after this number.
func (c *cache) devicesAfter(number int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.devicesFrom > number
}

// rootsOf gives the root providers of a host, none where they are not known.
func (c *cache) rootsOf(host string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.roots[host])
}

// fillDevices stores a whole list of Nova's providers, unless a later one is there.
func (c *cache) fillDevices(number int64, all []resourceproviders.ResourceProvider, deviceOf func(string) novaDevice) {
	devices, roots := map[string][]namedProvider{}, map[string][]string{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if number < c.devicesFrom {
		return
	}
	for _, p := range all {
		if c.goneSince(p.UUID, number) {
			continue
		}
		d := deviceOf(p.Name)
		devices[d.name] = append(devices[d.name], namedProvider{p.UUID, p.Name})
		if d.host != "" && p.RootProviderUUID != "" && !slices.Contains(roots[d.host], p.RootProviderUUID) {
			roots[d.host] = append(roots[d.host], p.RootProviderUUID)
		}
	}
	c.devices, c.roots, c.devicesFrom = devices, roots, number
	maps.DeleteFunc(c.gone, func(_ string, since int64) bool { return since < number })
}

// goneSince says whether a provider was gone when, or after, a list began.
func (c *cache) goneSince(uuid string, number int64) bool {
	since, gone := c.gone[uuid]
	return gone && number <= since
}

func (c *cache) namesAreFresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names != nil && time.Now().Before(c.namesUntil)
}

func (c *cache) byName(name string) []namedProvider {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.names[strings.ToLower(name)])
}

// fillNames stores a list of all providers that was begun at this time.
func (c *cache) fillNames(number int64, began time.Time, all []resourceproviders.ResourceProvider,
	deviceOf func(string) novaDevice) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = map[string][]namedProvider{}
	c.namesUntil = began.Add(max(namesMinLifetime, namesLifetimeFactor*time.Since(began)))
	for _, p := range all {
		if !c.goneSince(p.UUID, number) {
			c.addLocked(namedProvider{p.UUID, p.Name}, deviceOf(p.Name).name)
		}
	}
}

// addName stores the name of a provider that this process made.
func (c *cache) addName(p namedProvider) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names != nil {
		c.addLocked(p, strings.ToLower(p.name))
	}
}

func (c *cache) addLocked(p namedProvider, device string) {
	lower := strings.ToLower(p.name)
	c.names[lower] = append(c.names[lower], p)
	if device != lower {
		c.names[device] = append(c.names[device], p)
	}
}

// dropNames has the next caller read the list of names.
func (c *cache) dropNames() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = nil
}
