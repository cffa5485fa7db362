package placement_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/placement"
	"burnish/internal/keystone"
	"burnish/internal/testkit/openstack"
	"burnish/internal/testkit/suites/inventorytest"
)

// cloud is a Keystone and a Placement that uses it, behind a recorder whose URL is in the
// catalog.
type cloud struct {
	keystone *openstack.Keystone
	recorder *openstack.Recorder
}

func newCloud(t *testing.T, o openstack.KeystoneOptions) *cloud {
	t.Helper()
	c := &cloud{keystone: openstack.StartKeystone(t, o)}
	server := openstack.Start(t, openstack.Options{Keystone: c.keystone})
	c.recorder = openstack.Record(t, server.URL)
	c.keystone.Register(t, c.recorder.URL)
	return c
}

// without gives the variables without these.
func without(variables map[string]string, names ...string) map[string]string {
	left := maps.Clone(variables)
	for _, name := range names {
		delete(left, name)
	}
	return left
}

// with gives the variables and these, NAME, VALUE, ….
func with(variables map[string]string, pairs ...string) map[string]string {
	more := maps.Clone(variables)
	for i := 0; i < len(pairs); i += 2 {
		more[pairs[i]] = pairs[i+1]
	}
	return more
}

func openWith(t *testing.T, variables map[string]string) (*placement.Store, error) {
	t.Helper()
	return placement.Open(t.Context(), placement.Settings{Getenv: openstack.Environment(variables)})
}

// works requires that the variables lead to a Placement that accepts their token.
func works(t *testing.T, variables map[string]string) {
	t.Helper()
	store, err := openWith(t, variables)
	require.NoError(t, err)
	_, err = store.Usages(t.Context(), inventorytest.NewProvider().UUID)
	inventorytest.RequireCode(t, device.CodeNoProvider, err)
}

func TestCredentialsOfEveryForm(t *testing.T) {
	c := newCloud(t, openstack.KeystoneOptions{})
	openrc := c.keystone.Environment()
	id, secret := c.keystone.ApplicationCredential(t, "burnish")
	plain := map[string]string{"OS_AUTH_URL": c.keystone.URL + "/v3"}
	noDomains := without(openrc, "OS_USER_DOMAIN_NAME", "OS_PROJECT_DOMAIN_NAME")

	dir := t.TempDir()
	clouds := filepath.Join(dir, "clouds.yaml")
	require.NoError(t, os.WriteFile(clouds, fmt.Appendf(nil, `clouds:
  override:
    placement_endpoint_override: %[2]s
    region_name: Nowhere
    auth: {auth_url: %[1]s/v3, username: admin, project_name: admin}
  bare: {region_name: RegionOne}
`, c.keystone.URL, c.recorder.URL), 0o600))
	cloud := func(name string) map[string]string {
		return map[string]string{"OS_CLOUD": name, "OS_CLIENT_CONFIG_FILE": clouds}
	}
	for name, variables := range map[string]map[string]string{
		"openrc":             openrc,
		"no domain":          noDomains,
		"no version":         with(without(openrc, "OS_REGION_NAME"), "OS_AUTH_URL", c.keystone.URL),
		"internal":           with(openrc, "OS_INTERFACE", "internalURL"),
		"system scope":       with(without(openrc, "OS_PROJECT_NAME", "OS_PROJECT_DOMAIN_NAME"), "OS_SYSTEM_SCOPE", "all"),
		"credential":         with(plain, "OS_APPLICATION_CREDENTIAL_ID", id, "OS_APPLICATION_CREDENTIAL_SECRET", secret, "OS_AUTH_TYPE", "v3applicationcredential"),
		"credential by name": with(plain, "OS_APPLICATION_CREDENTIAL_NAME", "burnish", "OS_APPLICATION_CREDENTIAL_SECRET", secret, "OS_USERNAME", openstack.User, "OS_USER_DOMAIN_NAME", "Default"),
		"token":              with(without(openrc, "OS_PASSWORD", "OS_USERNAME", "OS_USER_DOMAIN_NAME"), "OS_TOKEN", c.keystone.Token(t), "OS_AUTH_TYPE", "token"),
		"cloud":              with(cloud("override"), "OS_PASSWORD", "secret"),
	} {
		t.Run(name, func(t *testing.T) { works(t, variables) })
	}
	// What else an openrc may say leads to the same request of Keystone, or to the same endpoint.
	known, err := keystone.Read(openstack.Environment(openrc))
	require.NoError(t, err)
	domain := func(id, name string) func(*keystone.Access) {
		return func(a *keystone.Access) {
			a.Options.DomainID, a.Options.DomainName = id, name
			a.Options.Scope = &gophercloud.AuthScope{ProjectName: openstack.Project, DomainID: id, DomainName: name}
		}
	}
	same := func(*keystone.Access) {}
	internal := func(a *keystone.Access) { a.Service.Availability = gophercloud.AvailabilityInternal }
	for name, tc := range map[string]struct {
		variables map[string]string
		differs   func(*keystone.Access)
	}{
		"domain ids":     {with(noDomains, "OS_USER_DOMAIN_ID", "a", "OS_PROJECT_DOMAIN_ID", "a"), domain("a", "")},
		"one domain":     {with(noDomains, "OS_DOMAIN_NAME", "A"), domain("", "A")},
		"default domain": {with(noDomains, "OS_DEFAULT_DOMAIN", "a"), domain("a", "")},
		"type":           {with(openrc, "OS_AUTH_TYPE", "v3password"), same},
		"tenant":         {with(without(openrc, "OS_PROJECT_NAME"), "OS_TENANT_NAME", openstack.Project), same},
		"endpoint type":  {with(without(openrc, "OS_INTERFACE"), "OS_ENDPOINT_TYPE", "internal"), internal},
		"override": {with(openrc, "OS_PLACEMENT_ENDPOINT_OVERRIDE", "http://placement/"),
			func(a *keystone.Access) { a.Override = "http://placement/" }},
	} {
		want := known
		tc.differs(&want)
		read, err := keystone.Read(openstack.Environment(tc.variables))
		require.NoError(t, err, name)
		require.Equal(t, want, read, name)
	}
	noYAML := filepath.Join(dir, "no.yaml")
	require.NoError(t, os.WriteFile(noYAML, []byte("clouds: [\n"), 0o600))
	for name, bad := range map[string]struct {
		variables map[string]string
		says      string
	}{
		"nothing":         {nil, "OS_CLOUD"},
		"no user":         {without(openrc, "OS_USERNAME"), "OS_USERNAME"},
		"no password":     {without(openrc, "OS_PASSWORD"), "OS_PASSWORD"},
		"wrong password":  {with(openrc, "OS_PASSWORD", "wrong"), "401"},
		"unknown type":    {with(openrc, "OS_AUTH_TYPE", "v3kerberos"), "v3kerberos"},
		"no token":        {with(openrc, "OS_AUTH_TYPE", "token"), "OS_TOKEN"},
		"no secret":       {with(plain, "OS_APPLICATION_CREDENTIAL_ID", id), "OS_APPLICATION_CREDENTIAL_SECRET"},
		"wrong region":    {with(openrc, "OS_REGION_NAME", "Nowhere"), "Nowhere"},
		"wrong interface": {with(openrc, "OS_INTERFACE", "outside"), "outside"},
		"insecure":        {with(openrc, "OS_INSECURE", "perhaps"), "OS_INSECURE"},
		"no cacert":       {with(openrc, "OS_CACERT", "/nonexistent"), "OS_CACERT"},
		"empty cacert":    {with(openrc, "OS_CACERT", clouds), "contains no certificate"},
		"no key":          {with(openrc, "OS_CERT", clouds), "OS_CERT"},
		"no endpoint":     {map[string]string{"OS_AUTH_TYPE": "none"}, "OS_PLACEMENT_ENDPOINT_OVERRIDE"},
		"no cloud":        {cloud("other"), `"other"`},
		"no auth":         {cloud("bare"), "has no auth"},
		"no YAML":         {map[string]string{"OS_CLOUD": "a", "OS_CLIENT_CONFIG_FILE": noYAML}, "no.yaml"},
		"no address":      {with(openrc, "OS_AUTH_URL", "keystone:5000/v3"), "keystone:5000"},
		"bad token":       {with(plain, "OS_TOKEN", "gAAAAA", "OS_PROJECT_ID", "1"), "refuses Burnish's credentials"},
		"not asked for":   {map[string]string{"OS_AUTH_TYPE": "none", "OS_ENDPOINT": c.recorder.URL}, "401"},
		"no clouds.yaml":  {with(cloud("override"), "OS_CLIENT_CONFIG_FILE", filepath.Join(dir, "none.yaml")), "none.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := openWith(t, bad.variables)
			require.ErrorContains(t, err, bad.says)
			require.Nil(t, store)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// A token that is no longer valid costs one more request, and no call fails. An invalid password
// is said, and tried again.
func TestTokenIsReplaced(t *testing.T) {
	c := newCloud(t, openstack.KeystoneOptions{})
	store, err := openWith(t, c.keystone.Environment())
	require.NoError(t, err)
	p := inventorytest.NewProvider()
	v, err := inventory.EnsureProvider(t.Context(), store, p)
	require.NoError(t, err)
	token := func() string {
		all := c.recorder.Exchanges()
		return all[len(all)-1].Token
	}
	first := token()
	c.keystone.Revoke(t, first)
	_, err = inventory.Unreserve(t.Context(), store, p.UUID, v.Generation)
	require.NoError(t, err)
	second := token()
	require.NotEqual(t, first, second)

	c.keystone.SetPassword(t, "another") // it revokes the user's tokens, too
	c.recorder.Reset()
	_, err = store.Usages(t.Context(), p.UUID)
	inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
	f, _ := device.AsFault(err)
	require.Equal(t, device.Transient, f.Class, "a password can be put right")
	require.Contains(t, f.Message, "401")
	require.Contains(t, f.Message, "refuses Burnish's credentials")
	require.Equal(t, 1, c.recorder.Count())
	require.Equal(t, second, token())

	// Without Keystone it is unknown whether the token is valid.
	c.keystone.Kill(t)
	_, err = store.Usages(t.Context(), p.UUID)
	inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
}
