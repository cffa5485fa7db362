package placement_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/inventory"
	"burnish/internal/inventory/placement"
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
  password:
    region_name: RegionOne
    auth: {auth_url: %[1]s, username: admin, password: secret, project_name: admin, user_domain_name: Default, project_domain_name: Default}
  split:
    auth: {auth_url: %[1]s/v3, username: admin, project_name: admin, user_domain_id: default, project_domain_id: default}
  nodomain:
    auth: {auth_url: %[1]s/v3, username: admin, password: secret, project_name: admin}
  credential:
    auth_type: v3applicationcredential
    auth: {auth_url: %[1]s/v3, application_credential_id: %[2]s, application_credential_secret: %[3]s}
  override:
    placement_endpoint_override: %[4]s
    region_name: Nowhere
    auth: {auth_url: %[1]s/v3, username: admin, password: secret, project_name: admin, user_domain_name: Default, project_domain_name: Default}
  bare: {region_name: RegionOne}
`, c.keystone.URL, id, secret, c.recorder.URL), 0o600))
	require.NoError(t,
		os.WriteFile(filepath.Join(dir, "secure.yaml"), []byte("clouds:\n  split:\n    auth: {password: secret}\n"), 0o600))
	cloud := func(name string) map[string]string {
		return map[string]string{"OS_CLOUD": name, "OS_CLIENT_CONFIG_FILE": clouds}
	}
	for name, variables := range map[string]map[string]string{
		"openrc":             openrc,
		"domain ids":         with(noDomains, "OS_USER_DOMAIN_ID", "default", "OS_PROJECT_DOMAIN_ID", "default"),
		"one domain":         with(noDomains, "OS_DOMAIN_NAME", "Default"),
		"default domain":     with(noDomains, "OS_DEFAULT_DOMAIN", "default"),
		"no domain":          noDomains,
		"no version":         with(openrc, "OS_AUTH_URL", c.keystone.URL),
		"type":               with(openrc, "OS_AUTH_TYPE", "v3password"),
		"tenant":             with(without(openrc, "OS_PROJECT_NAME"), "OS_TENANT_NAME", openstack.Project),
		"no region":          without(openrc, "OS_REGION_NAME"),
		"internal":           with(openrc, "OS_INTERFACE", "internalURL"),
		"endpoint type":      with(without(openrc, "OS_INTERFACE"), "OS_ENDPOINT_TYPE", "internal"),
		"override":           with(openrc, "OS_PLACEMENT_ENDPOINT_OVERRIDE", c.recorder.URL+"/", "OS_REGION_NAME", "Nowhere"),
		"system scope":       with(without(openrc, "OS_PROJECT_NAME", "OS_PROJECT_DOMAIN_NAME"), "OS_SYSTEM_SCOPE", "all"),
		"credential":         with(plain, "OS_APPLICATION_CREDENTIAL_ID", id, "OS_APPLICATION_CREDENTIAL_SECRET", secret, "OS_AUTH_TYPE", "v3applicationcredential"),
		"credential by name": with(plain, "OS_APPLICATION_CREDENTIAL_NAME", "burnish", "OS_APPLICATION_CREDENTIAL_SECRET", secret, "OS_USERNAME", openstack.User, "OS_USER_DOMAIN_NAME", "Default"),
		"token":              with(without(openrc, "OS_PASSWORD", "OS_USERNAME", "OS_USER_DOMAIN_NAME"), "OS_TOKEN", c.keystone.Token(t), "OS_AUTH_TYPE", "token"),
		"cloud":              cloud("password"),
		"cloud, secure.yaml": cloud("split"),
		"cloud, password":    with(cloud("nodomain"), "OS_PASSWORD", "secret"),
		"cloud, credential":  cloud("credential"),
		"cloud, override":    cloud("override"),
	} {
		t.Run(name, func(t *testing.T) { works(t, variables) })
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
		"no clouds.yaml":  {with(cloud("password"), "OS_CLIENT_CONFIG_FILE", filepath.Join(dir, "none.yaml")), "none.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := openWith(t, bad.variables)
			require.ErrorContains(t, err, bad.says)
			require.Nil(t, store)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

// A revoked or expired token costs one more request, and no call fails. An invalid password
// is said, and tried again.
func TestTokenIsReplaced(t *testing.T) {
	const last = 25 * time.Second // on a busy machine a token is used a while after it was issued
	c := newCloud(t, openstack.KeystoneOptions{TokenLifetime: last})
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
	v, err = inventory.Unreserve(t.Context(), store, p.UUID, v.Generation)
	require.NoError(t, err)
	second := token()
	require.NotEqual(t, first, second)

	// Keystone counts whole seconds.
	require.Eventually(t, func() bool {
		request, err := http.NewRequest(http.MethodGet, c.recorder.URL+"/traits", nil)
		if err != nil {
			return false
		}
		request.Header.Set("X-Auth-Token", second)
		answer, err := http.DefaultClient.Do(request)
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusUnauthorized
	}, time.Minute, 100*time.Millisecond)
	v, err = inventory.ReserveForBind(t.Context(), store, p.UUID, record(tenant), &v.Generation, false)
	require.NoError(t, err)
	require.True(t, v.Burned())
	require.NotEqual(t, second, token())

	third := token()
	c.keystone.SetPassword(t, "another") // it revokes the user's tokens, too
	c.recorder.Reset()
	_, err = store.Usages(t.Context(), p.UUID)
	inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
	f, _ := device.AsFault(err)
	require.Equal(t, device.Transient, f.Class, "a password can be put right")
	require.Contains(t, f.Message, "401")
	require.Contains(t, f.Message, "refuses Burnish's credentials")
	require.Equal(t, 1, c.recorder.Count())
	require.Equal(t, third, token())

	// Without Keystone it is unknown whether the token is valid.
	c.keystone.Kill(t)
	_, err = store.Usages(t.Context(), p.UUID)
	inventorytest.RequireCode(t, device.CodeInventoryUnavailable, err)
}
