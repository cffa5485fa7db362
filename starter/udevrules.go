package main

import (
	"io"

	"github.com/spf13/cobra"

	"burnish/internal/device"
	"burnish/internal/nova/udev"
)

func (a *app) udevRulesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "udev-rules < meta_data.json",
		Short: "in a guest: rules that mark its devices by their tags",
		Long: `It runs in the guest, needs no server and reads a metadata document, this program's or
Nova's: openstack/latest/meta_data.json of the config drive or the metadata service. A disk
is found by its serial, a network card by its MAC, and else by the address on its bus. A
device that cannot be told from another one gets no rule, and a comment says why.

The disk with the tag T has the udev tag burnish-disk-T and the link /dev/burnish/disk/T, a
network card the udev tag burnish-nic-T; the property BURNISH_TAGS has all T of a device. In
T, any byte but letters, digits and - is _ and two hexadecimal digits. Exit code 1, and no
output, if the document cannot be read.`,
		Example: `  burnish udev-rules < meta_data.json > /run/udev/rules.d/65-burnish.rules
  udevadm control --reload && udevadm trigger --settle
  udevadm trigger --dry-run --verbose --property-match=BURNISH_TAGS=uplink`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.format != formatTable {
				return usagef("--output %s: rules have udev's form only", a.format)
			}
			document, err := io.ReadAll(a.stdin)
			if err != nil {
				return failf(device.CodeIO, "", "the standard input cannot be read: %s", err)
			}
			rules, err := udev.Rules(document)
			if err != nil {
				return failf(device.CodeInvalid, "", "%s", err)
			}
			return a.print(rules)
		},
	}
}
