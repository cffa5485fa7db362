package config

import "path/filepath"

// Metadata holds the settings of the metadata service, which a control worker serves to the
// guests of instances.
type Metadata struct {
	MetadataAddress    string `env:"METADATA_ADDRESS" help:"HOST:PORT where guests read meta_data.json, over HTTP; nothing else is served there; default: none"`
	MetadataSecretFile string `env:"METADATA_SECRET_FILE" help:"a file with the metadata_proxy_shared_secret of Nova's metadata proxy, mode 0600; default: none, guests are known by their addresses alone"`
}

// check refuses what is wrong in itself.
func (m Metadata) check(refuse func(is bool, name, format string, args ...any)) {
	refuse(m.MetadataSecretFile != "" && !filepath.IsAbs(m.MetadataSecretFile), "METADATA_SECRET_FILE",
		"%q is not an absolute path", m.MetadataSecretFile)
	_, valid := hostOf(m.MetadataAddress)
	refuse(m.MetadataAddress != "" && !valid, "METADATA_ADDRESS", "%q is not of the form HOST:PORT", m.MetadataAddress)
}
