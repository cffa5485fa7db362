package keystone

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// section is a mapping of a YAML file. A cloud is one, and so is its auth.
type section = map[string]any

// readCloud reads one cloud of clouds.yaml; variables override it.
func readCloud(v variables, name string) (Access, error) {
	files, err := v.cloudFiles()
	if err != nil {
		return Access{}, err
	}
	own, is := at(files.clouds, "clouds")[name].(section)
	if !is {
		return Access{}, fmt.Errorf("%s has no cloud %q", files.path, name)
	}
	cloud, err := v.withProfileAndRegion(own, files.public)
	if err != nil {
		return Access{}, fmt.Errorf("cloud %s in %s: %w", name, files.path, err)
	}
	given := cloudVariables(cloud)
	if given["OS_AUTH_URL"] == "" && !slices.Contains(noneTypes, given["OS_AUTH_TYPE"]) {
		err := errors.New("has no auth_url")
		if profile := profileOf(own); profile != "" {
			err = fmt.Errorf("%w, nor has its profile %s in a clouds-public.yaml", err, profile)
		}
		return Access{}, fmt.Errorf("cloud %s in %s %w", name, files.path, err)
	}
	a, err := readVariables(v.over(given))
	if err != nil {
		return Access{}, fmt.Errorf("cloud %s in %s: %w", name, files.path, err)
	}
	return a, nil
}

// cloudFiles are the files that the command `openstack` reads.
type cloudFiles struct {
	path           string
	clouds, public section // with secure.yaml
}

func (v variables) cloudFiles() (cloudFiles, error) {
	folders := []string{"."}
	if config := v("XDG_CONFIG_HOME"); config != "" {
		folders = append(folders, filepath.Join(config, "openstack"))
	}
	folders = append(folders, filepath.Join(v("HOME"), ".config", "openstack"), "/etc/xdg/openstack", "/etc/openstack")
	explicit := v.first("CLIENT_CONFIG_FILE")
	f := cloudFiles{path: explicit}
	var err error
	if explicit == "" {
		f.path = firstFile(folders, "clouds")
	}
	if f.path == "" {
		return f, fmt.Errorf("OS_CLOUD is set, but there is no clouds.yaml in any of %s", strings.Join(folders, ", "))
	}
	if f.path, err = filepath.Abs(f.path); err != nil {
		return f, err
	}
	if f.clouds, err = readYAML(f.path); err != nil {
		return f, err
	}
	secret := v.first("CLIENT_SECURE_FILE")
	if secret == "" {
		near := folders
		if explicit != "" {
			near = append([]string{filepath.Dir(f.path)}, folders...)
		}
		secret = firstFile(near, "secure")
	}
	if secret != "" {
		more, err := readYAML(secret)
		if err != nil {
			return f, err
		}
		f.clouds = merge(f.clouds, more)
	}
	if public := firstFile(folders, "clouds-public"); public != "" {
		f.public, err = readYAML(public)
	}
	return f, err
}

// firstFile is the first file of this name in the folders, "" if there is none.
func firstFile(folders []string, name string) string {
	for _, folder := range folders {
		for _, suffix := range []string{".yaml", ".yml", ".json"} {
			path := filepath.Join(folder, name+suffix)
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	return ""
}

func readYAML(path string) (section, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s", path)
	}
	if err != nil {
		return nil, err
	}
	var read section
	if err := yaml.Unmarshal(text, &read); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n") // the other lines quote the file
		return nil, fmt.Errorf("%s: %s", path, first)
	}
	return read, nil
}

// merge puts over, and each section in it, over a section.
func merge(under, over section) section {
	merged := section{}
	maps.Copy(merged, under)
	for key, value := range over {
		if inner, is := value.(section); is {
			value = merge(at(under, key), inner)
		}
		merged[key] = value
	}
	return merged
}

// at is the section under a key, nil if there is none.
func at(s section, key string) section {
	inner, _ := s[key].(section)
	return inner
}

// profileOf names the profile that a cloud is put over.
func profileOf(own section) string {
	for _, key := range []string{"profile", "cloud"} {
		if name, is := own[key].(string); is && name != "" {
			return name
		}
	}
	return ""
}

// withProfileAndRegion gives a cloud over its profile, and the values of its region over both.
func (v variables) withProfileAndRegion(own, public section) (section, error) {
	cloud := own
	if profile := profileOf(own); profile != "" {
		cloud = merge(at(at(public, "public-clouds"), profile), own)
	}
	regions := regionsOf(own)
	if regions == nil {
		regions = regionsOf(cloud)
	}
	region, name := section{"name": v.first("REGION_NAME", "REGION")}, v.first("REGION_NAME", "REGION")
	if len(regions) > 0 {
		i := 0
		if name != "" {
			i = slices.IndexFunc(regions, func(r section) bool { return r["name"] == name })
		}
		if i < 0 {
			return nil, fmt.Errorf("it has no region %s", name)
		}
		region = regions[i]
	}
	cloud = merge(cloud, at(region, "values"))
	cloud["region_name"] = region["name"]
	return cloud, nil
}

// regionsOf are the regions that a cloud names: each has a name, and perhaps values.
func regionsOf(cloud section) []section {
	list, is := cloud["regions"].([]any)
	if !is {
		switch named := cloud["region_name"].(type) {
		case []any:
			list = named
		case string:
			for name := range strings.SplitSeq(named, ",") {
				list = append(list, name)
			}
		}
	}
	var regions []section
	for _, entry := range list {
		region, is := entry.(section)
		if !is {
			region = section{"name": fmt.Sprint(entry)}
		}
		regions = append(regions, region)
	}
	return regions
}

// reference is a part of an auth_url that another setting of the cloud fills in.
var reference = regexp.MustCompile(`\{(\w+)\}`)

// cloudVariables are the OS_* variables that say the same as a cloud.
func cloudVariables(cloud section) map[string]string {
	given := map[string]string{}
	for _, settings := range []section{cloud, at(cloud, "auth")} {
		for key, value := range settings {
			switch value.(type) {
			case nil, section:
			default:
				given["OS_"+strings.ToUpper(strings.ReplaceAll(key, "-", "_"))] = fmt.Sprint(value)
			}
		}
	}
	if kind, is := cloud["auth_type"]; is && (kind == nil || kind == "" || kind == "None") {
		given["OS_AUTH_TYPE"] = noneTypes[0]
	}
	// A variable for the interface overrides the cloud's, under either name.
	if kind := cmp.Or(given["OS_ENDPOINT_TYPE"], given["OS_INTERFACE"]); kind != "" {
		given["OS_ENDPOINT_TYPE"] = kind
		delete(given, "OS_INTERFACE")
	}
	switch is := boolean(given["OS_INSECURE"]); {
	case is != "":
		given["OS_INSECURE"] = is
	case boolean(given["OS_VERIFY"]) == "false":
		given["OS_INSECURE"] = "true"
	}
	given["OS_AUTH_URL"] = reference.ReplaceAllStringFunc(given["OS_AUTH_URL"], func(part string) string {
		return given["OS_"+strings.ToUpper(strings.Trim(part, "{}"))]
	})
	return given
}

// boolean is "true" or "false" for a word that is one in the YAML of `openstack`, else the text.
func boolean(text string) string {
	switch word := strings.ToLower(text); word {
	case "yes", "on":
		return "true"
	case "no", "off":
		return "false"
	default:
		return word
	}
}

// overriding are the variables that override a cloud's setting. The others belong to another
// cloud, whose openrc was read before.
var overriding = []string{
	"OS_PLACEMENT_ENDPOINT_OVERRIDE", "OS_PLACEMENT_INTERFACE", "OS_INTERFACE", "OS_ENDPOINT_TYPE",
	"OS_PASSWORD", "OS_APPLICATION_CREDENTIAL_SECRET", "OS_CACERT", "OS_CERT", "OS_KEY", "OS_INSECURE",
}

// over gives the variables that override what a cloud gives, then those.
func (v variables) over(given map[string]string) variables {
	noDomain := true
	for name := range given {
		noDomain = noDomain && !strings.Contains(name, "DOMAIN")
	}
	return func(name string) string {
		override := slices.Contains(overriding, name) || noDomain && strings.Contains(name, "DOMAIN") || name == "HOME"
		if value := v(name); override && value != "" {
			return value
		}
		return given[name]
	}
}
