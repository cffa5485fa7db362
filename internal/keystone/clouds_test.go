package keystone_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/stretchr/testify/require"

	"burnish/internal/keystone"
	"burnish/internal/testkit/openstack"
)

const cloudsYAML = `
clouds:
  secret:            # all of its auth stands in secure.yaml
    region_name: RegionOne
  half:
    auth: {auth_url: https://k/v3, username: burnish, project_name: service, user_domain_name: Default, project_domain_name: Default}
  vendor:
    profile: example
    region_name: north
    auth: {username: burnish, project_name: service, domain_name: Default}
  old:
    cloud: example
    auth: {username: burnish, password: own, tenant-name: service, default_domain_id: default}
  regions:
    interface: internal
    auth: {auth_url: "https://{region_name}.k/v3", username: burnish, password: 12345, project_id: 6e1f, user_domain_id: default}
    regions:
    - name: one
      values: {auth: {password: of-one}}
    - two
  listed: {region_name: "one,two", auth: {auth_url: https://k, user_id: b1, password: p, system_scope: all}}
  credential:
    auth_type: v3applicationcredential
    auth: {auth_url: https://k/v3, application_credential_id: a1, application_credential_secret: s1}
  token: {auth_type: v3token, auth: {auth_url: https://k/v3, token: t1, project_id: 6e1f}}
  flat:              # settings that stand beside auth
    auth: {auth_url: https://k/v3}
    username: burnish
    password: p
    project_name: service
    endpoint_type: admin
    placement_endpoint_override: https://placement
    verify: no
  elsewhere: {profile: nowhere, auth: {username: burnish, password: p}}
  oidc:
    auth_type: v3oidcpassword
    auth: {auth_url: https://k/v3, username: burnish, password: p, identity_provider: idp, protocol: openid, client_id: c, project_name: service}
  totp: {auth_type: v3totp, auth: {auth_url: https://k/v3, username: burnish, passcode: "1", password: p}}
  version2: {auth_type: v2password, auth: {auth_url: https://k/v2.0, username: burnish, password: p, tenant_name: service}}
  none: {auth_type: none, auth: {endpoint: https://placement}}
  null: {auth_type: null, endpoint: https://placement}
  text: words
`

const secureYAML = `
clouds:
  secret:
    auth: {auth_url: https://k/v3, username: burnish, password: s3cret, project_name: service, user_domain_id: d1, project_domain_id: d2}
  half:
    auth: {password: s3cret}
  vendor:
    auth: {password: s3cret}
`

const publicYAML = `
public-clouds:
  example:
    auth: {auth_url: "https://{region_name}.example/v3", username: nobody}
    region_name: south
    interface: internal
`

// home is an environment whose clouds.yaml is in the user's folder.
func home(t *testing.T, variables map[string]string) (map[string]string, string) {
	t.Helper()
	of := map[string]string{"HOME": t.TempDir()}
	folder := filepath.Join(of["HOME"], ".config", "openstack")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	for name, text := range map[string]string{"clouds.yaml": cloudsYAML, "secure.yaml": secureYAML,
		"clouds-public.yaml": publicYAML} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	for name, value := range variables {
		of[name] = value
	}
	return of, folder
}

// What `openstack` of python3-openstacksdk 0.101 makes of the same files.
func TestACloudIsMergedAsOpenstackMergesIt(t *testing.T) {
	project := &gophercloud.AuthScope{ProjectName: "service", DomainName: "Default"}
	byDefault := &gophercloud.AuthScope{ProjectName: "service", DomainID: "default"}
	user := func(url, password string, scope *gophercloud.AuthScope) gophercloud.AuthOptions {
		return gophercloud.AuthOptions{
			IdentityEndpoint: url, Username: "burnish", Password: password, DomainID: "default", Scope: scope, AllowReauth: true,
		}
	}
	named := func(url, password string) gophercloud.AuthOptions {
		o := user(url, password, project)
		o.DomainID, o.DomainName = "", "Default"
		return o
	}
	id := &gophercloud.AuthScope{ProjectID: "6e1f"}
	for name, tc := range map[string]struct {
		variables map[string]string
		cloud     string
		options   gophercloud.AuthOptions
		service   gophercloud.EndpointOpts
	}{
		"auth in secure.yaml": {
			cloud: "secret", service: gophercloud.EndpointOpts{Region: "RegionOne", Availability: "public"},
			options: gophercloud.AuthOptions{
				IdentityEndpoint: "https://k/v3", Username: "burnish", Password: "s3cret", DomainID: "d1", AllowReauth: true,
				Scope: &gophercloud.AuthScope{ProjectName: "service", DomainID: "d2"},
			},
		},
		"password in secure.yaml": {cloud: "half", options: named("https://k/v3", "s3cret")},
		"profile": {
			cloud: "vendor", options: named("https://north.example/v3", "s3cret"),
			service: gophercloud.EndpointOpts{Region: "north", Availability: "internal"},
		},
		"profile by its old name": {
			cloud: "old", options: user("https://south.example/v3", "own", byDefault),
			service: gophercloud.EndpointOpts{Region: "south", Availability: "internal"},
		},
		"first region": {
			cloud: "regions", options: user("https://one.k/v3", "of-one", id),
			service: gophercloud.EndpointOpts{Region: "one", Availability: "internal"},
		},
		"region that is asked for": {
			cloud: "regions", variables: map[string]string{"OS_REGION_NAME": "two"},
			options: user("https://two.k/v3", "12345", id),
			service: gophercloud.EndpointOpts{Region: "two", Availability: "internal"},
		},
		"list of regions": {
			cloud: "listed", service: gophercloud.EndpointOpts{Region: "one", Availability: "public"},
			options: gophercloud.AuthOptions{
				IdentityEndpoint: "https://k", UserID: "b1", Password: "p", AllowReauth: true,
				Scope: &gophercloud.AuthScope{System: true},
			},
		},
		"application credential": {cloud: "credential", options: gophercloud.AuthOptions{
			IdentityEndpoint: "https://k/v3", ApplicationCredentialID: "a1", ApplicationCredentialSecret: "s1",
			AllowReauth: true,
		}},
		"token": {cloud: "token", options: gophercloud.AuthOptions{IdentityEndpoint: "https://k/v3", TokenID: "t1", Scope: id}},
		"beside auth": {
			cloud: "flat", options: user("https://k/v3", "p", byDefault),
			service: gophercloud.EndpointOpts{Availability: "admin"},
		},
		"variables of another cloud": {
			cloud: "half", options: named("https://k/v3", "s3cret"), variables: map[string]string{
				"OS_AUTH_URL": "https://other", "OS_USERNAME": "other", "OS_PROJECT_ID": "other", "OS_USER_DOMAIN_ID": "other",
			},
		},
		"variables that override": {
			cloud: "half", options: named("https://k/v3", "newer"), service: gophercloud.EndpointOpts{Availability: "admin"},
			variables: map[string]string{"OS_PASSWORD": "newer", "OS_INTERFACE": "admin"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			variables, _ := home(t, tc.variables)
			variables["OS_CLOUD"] = tc.cloud
			a, err := keystone.Read(openstack.Environment(variables))
			require.NoError(t, err)
			require.Equal(t, tc.options, a.Options)
			if tc.service.Availability == "" {
				tc.service.Availability = gophercloud.AvailabilityPublic
			}
			require.Equal(t, tc.service, a.Service)
			require.Equal(t, tc.cloud == "flat", a.TLS.InsecureSkipVerify)
		})
	}
	for _, cloud := range []string{"none", "null"} {
		variables, _ := home(t, map[string]string{"OS_CLOUD": cloud})
		a, err := keystone.Read(openstack.Environment(variables))
		require.NoError(t, err)
		require.Equal(t, "https://placement", a.Override)
	}
}

func TestACloudThatBurnishCannotUseIsRefused(t *testing.T) {
	for cloud, says := range map[string]string{
		"oidc": "v3oidcpassword: must be one of", "totp": "v3totp", "version2": "v2password", "text": `no cloud "text"`,
		"elsewhere": "nor has its profile nowhere in a clouds-public.yaml", "other": `no cloud "other"`,
	} {
		variables, folder := home(t, map[string]string{"OS_CLOUD": cloud})
		_, err := keystone.Read(openstack.Environment(variables))
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, filepath.Join(folder, "clouds.yaml"))
	}
	variables, _ := home(t, map[string]string{"OS_CLOUD": "regions", "OS_REGION_NAME": "three"})
	_, err := keystone.Read(openstack.Environment(variables))
	require.ErrorContains(t, err, "no region three")
}

func TestSecretsAreFoundWhereTheyAre(t *testing.T) {
	variables, folder := home(t, map[string]string{"OS_CLOUD": "half"})
	read := func() (keystone.Access, error) { return keystone.Read(openstack.Environment(variables)) }
	elsewhere := filepath.Join(t.TempDir(), "secrets.json")
	require.NoError(t, os.WriteFile(elsewhere, []byte(`{"clouds": {"half": {"auth": {"password": "of-json"}}}}`), 0o600))
	variables["OS_CLIENT_SECURE_FILE"] = elsewhere
	a, err := read()
	require.NoError(t, err)
	require.Equal(t, "of-json", a.Options.Password)
	delete(variables, "OS_CLIENT_SECURE_FILE")

	require.NoError(t, os.Remove(filepath.Join(folder, "secure.yaml")))
	_, err = read()
	require.ErrorContains(t, err, "OS_PASSWORD is not set")

	// A secret that cannot be read is not "no secret", and is not quoted.
	require.NoError(t, os.WriteFile(filepath.Join(folder, "secure.yaml"), []byte("clouds: [hunter2\n"), 0o600))
	_, err = read()
	require.ErrorContains(t, err, "secure.yaml")
	require.NotContains(t, err.Error(), "hunter2")
	require.NotContains(t, err.Error(), "\n")
}
