package site

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"burnish/internal/testkit/redfishsim"
)

// Secret is what a host's worker needs to log in to a BMC.
type Secret struct {
	Username string `json:"username"`
	Password string `json:"password"`
	First    string `json:"first_password,omitempty"`
	CA       string `json:"ca"`
}

// SecretsFile is the path of the site's secrets file.
func (s *Site) SecretsFile() string { return filepath.Join(filepath.Dir(s.HostFile()), "secrets.yaml") }

// AllowNodes writes a host.yaml that allows the servers with these serials, and nothing else,
// and the secrets of their BMCs by name.
func (s *Site) AllowNodes(secrets map[string]Secret, serials ...string) error {
	file, err := json.Marshal(secrets)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.SecretsFile(), file, 0o600); err != nil {
		return err
	}
	rules, err := json.Marshal(map[string]any{"allow": map[string]any{"nodes": serials}, "secrets": s.SecretsFile()})
	if err != nil {
		return err
	}
	return os.WriteFile(s.HostFile(), rules, 0o600)
}

// Node is a server behind a simulated BMC, which is a process of its own.
type Node struct {
	Device
	BMC *redfishsim.Process
}

// StartNode starts a BMC of its own for a server with this name. Program is the built
// internal/testkit/cmd/redfishsim. The secret of the BMC has the server's name.
func (s *Site) StartNode(ctx context.Context, program, name string, p redfishsim.Personality,
	options ...redfishsim.Option) (*Node, error) {
	dir := filepath.Join(s.Dir, "bmc-"+name)
	bmc, err := redfishsim.StartProcess(ctx, program, dir, p, options...)
	if err != nil {
		return nil, err
	}
	return &Node{
		Device: Device{Name: name, Driver: "redfish", Set: []string{"url=" + bmc.SystemURL, "secret=" + name}},
		BMC:    bmc,
	}, nil
}

// Secret is that of the node's BMC.
func (n *Node) Secret() Secret {
	return Secret{Username: n.BMC.Username, Password: n.BMC.Password, CA: n.BMC.CA}
}
