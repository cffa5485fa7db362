package main

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/internal/pci"
)

// specMatch is the answer for programs. The tags are those of the entry that matched,
// and empty if none did.
type specMatch struct {
	Match bool                       `json:"match"`
	Tags  map[string]json.RawMessage `json:"tags"`
}

func (a *app) specCommand() *cobra.Command {
	return parent(&cobra.Command{
		Use:     "spec COMMAND",
		Short:   "test whether a device_spec matches a PCI device",
		Long:    "Nova and host.yaml name devices by the entries of a device_spec. See burnish spec match --help.",
		Example: "  burnish spec match --spec '{\"vendor_id\": \"8086\"}' --device '{\"vendor_id\": \"8086\"}'",
	}, a.specMatchCommand())
}

func (a *app) specMatchCommand() *cobra.Command {
	var spec, dev string
	cmd := &cobra.Command{Use: "match --spec JSON --device JSON",
		Short: "test whether a device_spec matches a device, and show its tags",
		Long: `It needs no server. Exit code 0 whether it matches or not; 1 if the spec or the device is
invalid, with the field. The device needs every field that the spec tests.`,
		Example: `  burnish spec match --spec '{"address": "*:0a:00.*", "physical_network": "net1"}' \
    --device '{"address": "0000:0a:00.1", "vendor_id": "8086", "product_id": "10ed"}'`,
		Args: noArgs}
	cmd.Flags().StringVar(&spec, "spec", "", "`JSON`: an entry of Nova's device_spec, or a list: the first match "+
		"counts. Criteria, which must all match: vendor_id, product_id, address (a string, or an object of regular "+
		"expressions), devname. one_time_use and live_migratable are yes or no; clear_action and clear_strategy are the "+
		"erase policy of its devices; every other key is a tag")
	cmd.Flags().StringVar(&dev, "device", "", "`JSON`: a device: address, vendor_id, product_id, dev_type (type-PCI, "+
		"type-PF, type-VF), parent_addr (of a VF), devname, parent_ifname; other keys are ignored")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, flag := range []string{"spec", "device"} {
			if !cmd.Flags().Changed(flag) {
				return usagef("--%s is missing", flag)
			}
		}
		m, err := matchSpec(spec, dev)
		if err != nil {
			return err
		}
		return a.emit(m, func() string { return m.table(a) })
	}
	return cmd
}

func matchSpec(spec, dev string) (specMatch, error) {
	specs, err := pci.ParseSpecs([]byte(spec))
	if err != nil {
		return specMatch{}, invalidSpec("--spec", err)
	}
	d, err := pci.ParseDevice([]byte(dev))
	if err != nil {
		return specMatch{}, invalidSpec("--device", err)
	}
	s, ok, err := specs.Match(d)
	if err != nil {
		return specMatch{}, invalidSpec("--spec and --device", err)
	}
	return specMatch{Match: ok, Tags: s.Tags()}, nil
}

// invalidSpec is exit code 1, not 2: the command line is valid, but the spec or the device
// is not.
func invalidSpec(flag string, err error) *failure {
	text := flag + ": " + err.Error()
	var fault *pci.Invalid
	if errors.As(err, &fault) && fault.Field == "" && fault.Entry == 0 {
		text = flag + " " + err.Error()
	}
	return failf(device.CodeInvalid, "", "%s", text)
}

func (m specMatch) table(a *app) string {
	rows := [][]string{{"MATCH", yes(m.Match)}}
	for _, key := range slices.Sorted(maps.Keys(m.Tags)) {
		value := string(m.Tags[key])
		var text string
		if strings.HasPrefix(value, `"`) && json.Unmarshal(m.Tags[key], &text) == nil {
			value = text
		}
		rows = append(rows, []string{"TAG " + key, value})
	}
	return a.pairs(rows)
}
