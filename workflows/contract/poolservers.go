package contract

import (
	"regexp"
	"strings"
)

// TypeNode is the type of whole servers; only they are shared in a pool.
const TypeNode = "NODE"

// Updates of an appliance's workflow. Neither changes anything.
const (
	// UpdateReadPool asks who has a server; its input is a PoolRequest, its answer a
	// PoolSnapshot.
	UpdateReadPool = "read_pool"
	// UpdateServers asks which servers are not enrolled; its input is a ServersInput, its
	// answer Servers.
	UpdateServers = "servers"
)

// ActivityFindServers reads servers that are not enrolled.
const ActivityFindServers = "FindServers"

// ServersInput asks for servers of an appliance, from server Start on, that match every
// filter. The answer ends after the page in which it has Limit servers or more.
type ServersInput struct {
	Appliance string            `json:"appliance"`
	Start     int               `json:"start,omitempty"`
	Limit     int               `json:"limit"`
	Filter    map[string]string `json:"filter,omitempty"`
}

// Servers is the answer. Enrolled counts the servers that match and are enrolled already.
// Next is where the next question begins; 0 after the last server.
type Servers struct {
	Servers  []PoolServer `json:"servers"`
	Enrolled int          `json:"enrolled,omitempty"`
	Next     int          `json:"next,omitempty"`
}

// PoolServer is a server of an appliance that is not enrolled.
type PoolServer struct {
	Hardware string `json:"server_hardware_uri"`
	Name     string `json:"name"`
	Serial   string `json:"serial"`
	UUID     string `json:"uuid,omitempty"`
	Model    string `json:"model,omitempty"`
	Type     string `json:"type,omitempty"`
	Group    string `json:"group,omitempty"`
	// Profile is the URI of the profile on it; "" if there is none.
	Profile string `json:"profile,omitempty"`
}

// ServerFilters are the keys of ServersInput.Filter.
func ServerFilters() []string { return []string{"name", "serial", "model", "type", "group"} }

// Matches says whether the server matches every filter: * stands for any text, ? for one
// character, and case is ignored. A server that does not have a field does not match it.
func (s PoolServer) Matches(filter map[string]string) bool {
	fields := map[string]string{"name": s.Name, "serial": s.Serial, "model": s.Model, "type": s.Type, "group": s.Group}
	for key, pattern := range filter {
		form := strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(pattern))
		if value, known := fields[key]; !known || !regexp.MustCompile("(?is)^(?:"+form+")$").MatchString(value) {
			return false
		}
	}
	return true
}
