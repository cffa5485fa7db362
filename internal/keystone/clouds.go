package keystone

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
)

// cloudExtras are the settings of a cloud that gophercloud does not read.
type cloudExtras struct {
	AuthType string `yaml:"auth_type"`
	Override string `yaml:"placement_endpoint_override"`
	Endpoint string `yaml:"endpoint"`
	Auth     *struct {
		Endpoint string `yaml:"endpoint"`
		Token    string `yaml:"token"`
	} `yaml:"auth"`
}

// readCloud reads one cloud of clouds.yaml; variables override it.
func readCloud(v variables, cloud string) (Access, error) {
	path, err := v.cloudsFile()
	if err != nil {
		return Access{}, err
	}
	more, err := readExtras(path, cloud)
	if err != nil {
		return Access{}, err
	}
	a := Access{Override: cmp.Or(v.first("PLACEMENT_ENDPOINT_OVERRIDE"), more.Override)}
	if slices.Contains(noneTypes, more.AuthType) {
		endpoint, token := more.Endpoint, ""
		if more.Auth != nil {
			endpoint, token = cmp.Or(more.Auth.Endpoint, endpoint), more.Auth.Token
		}
		if a.TLS, err = v.tls(); err != nil {
			return Access{}, err
		}
		return withoutKeystone(a, endpoint, token)
	}
	if more.Auth == nil {
		return Access{}, fmt.Errorf("cloud %s in %s has no auth", cloud, path)
	}
	options := []clouds.ParseOption{
		clouds.WithCloudName(cloud), clouds.WithLocations(path),
		clouds.WithRegion(v.first("REGION_NAME", "REGION")),
		clouds.WithEndpointType(v.first("PLACEMENT_INTERFACE", "INTERFACE", "ENDPOINT_TYPE")),
		clouds.WithPassword(v.first("PASSWORD")),
		clouds.WithApplicationCredentialSecret(v.first("APPLICATION_CREDENTIAL_SECRET")),
		clouds.WithCACertPath(v.first("CACERT")),
		clouds.WithClientCertPath(v.first("CERT")), clouds.WithClientKeyPath(v.first("KEY")),
	}
	if a.Options, a.Service, a.TLS, err = clouds.Parse(options...); err != nil {
		return Access{}, fmt.Errorf("cloud %s in %s: %w", cloud, path, err)
	}
	if a.Options.IdentityEndpoint == "" {
		return Access{}, fmt.Errorf("cloud %s in %s has no auth_url", cloud, path)
	}
	o := &a.Options
	// A user's ID needs no domain, and Keystone refuses one.
	if o.UserID != "" || o.ApplicationCredentialID != "" || o.TokenID != "" {
		o.DomainID, o.DomainName = "", ""
	}
	if o.ApplicationCredentialID != "" || o.ApplicationCredentialName != "" {
		o.Scope, o.TenantID, o.TenantName = nil, "", ""
	}
	if o.DomainID != "" {
		o.DomainName = ""
	}
	if o.Username != "" && o.DomainID == "" && o.DomainName == "" {
		o.DomainID, o.DomainName = v.domain("USER_DOMAIN")
	}
	if s := o.Scope; s != nil && s.ProjectName != "" {
		switch {
		case s.DomainID != "":
			s.DomainName = ""
		case s.DomainName == "":
			s.DomainID, s.DomainName = v.domain("PROJECT_DOMAIN")
		}
	}
	o.AllowReauth = o.TokenID == ""
	return a, nil
}

// cloudsFile is the first clouds.yaml in the folders that the command `openstack` searches.
func (v variables) cloudsFile() (string, error) {
	places := []string{v.first("CLIENT_CONFIG_FILE")}
	if places[0] == "" {
		config := v("XDG_CONFIG_HOME")
		if config == "" {
			config = filepath.Join(v("HOME"), ".config")
		}
		places = []string{"clouds.yaml", filepath.Join(config, "openstack", "clouds.yaml"), "/etc/openstack/clouds.yaml"}
	}
	for _, place := range places {
		_, err := os.Stat(place)
		if err == nil {
			return filepath.Abs(place)
		}
	}
	return "", fmt.Errorf("OS_CLOUD is set, but there is no %s", strings.Join(places, ", nor "))
}

func readExtras(path, cloud string) (cloudExtras, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return cloudExtras{}, err
	}
	var file struct {
		Clouds map[string]cloudExtras `yaml:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n") // the other lines quote the file
		return cloudExtras{}, fmt.Errorf("%s: %s", path, first)
	}
	found, ok := file.Clouds[cloud]
	if !ok {
		return cloudExtras{}, fmt.Errorf("%s has no cloud %q", path, cloud)
	}
	return found, nil
}
