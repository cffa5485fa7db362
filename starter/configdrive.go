package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"burnish/internal/api/guest"
	"burnish/internal/device"
	"burnish/internal/nova/configdrive"
	"burnish/workflows/contract"
)

func (a *app) configDriveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config-drive UUID -o FILE",
		Short: "write an instance's document as a config drive",
		Long: `The image holds openstack/latest/meta_data.json and the same document under the versions'
dates. Attach it to the guest as a read-only disk or CD. FILE is replaced as a whole, or not
at all, and has mode 0600. An instance that gives its devices back has no document.

The image shows the devices of this moment: it is not rewritten when devices are attached or
detached. A guest learns of those from the metadata service.`,
		Example: "  burnish instance config-drive 3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90 -o config.iso",
		Args:    oneName("UUID")}
	var file string
	// instead of the output's format
	cmd.Flags().StringVarP(&file, "output", "o", "", "`FILE`: the image, ISO 9660 with Rock Ridge and Joliet, label "+
		"config-2")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		instance, err := instanceID(args[0])
		if err != nil {
			return err
		}
		switch format(file) {
		case "":
			return usagef("--output is missing: name the file of the image")
		case "-", formatTable, formatJSON, formatYAML:
			return usagef("--output %s: name the file of the image; ./%s is a file", file, file)
		}
		return a.devices(cmd.Context(), func(l deviceClient) error {
			ctx, cancel := a.requestContext(cmd.Context())
			defer cancel()
			s, found, err := guest.Read(ctx, l, instance)
			if err != nil {
				return a.explainOf(cmd.Context(), l, subject{instance: instance}, err)
			}
			return a.writeConfigDrive(instance, s, found, file)
		})
	}
	return cmd
}

// writeConfigDrive writes the document of an instance that has one, as found says.
func (a *app) writeConfigDrive(instance string, s contract.InstanceStatus, found bool, file string) error {
	refuse := func(code device.Code, format string, about ...any) *failure {
		f := failf(code, subject{instance: instance}.show(), format, about...)
		f.instance = instance
		return f
	}
	switch {
	case !found:
		return refuse(device.CodeNotFound, "there is no document: the instance has no devices, or gives them back")
	case len(s.Devices) == 0:
		return refuse(device.CodeNotFound, "there is no document yet: no device is bound (phase %s)", s.Phase)
	}
	text, err := guest.Document(s)
	if err != nil {
		return refuse(device.CodeInternal, "%s", err)
	}
	image, err := configdrive.Image(text, s.UpdatedAt)
	if err == nil {
		err = configdrive.Write(file, image)
	}
	if err != nil {
		f := refuse(device.CodeIO, "the config drive is not written: %s", err)
		f.remedy = "the file is as it was; see --help"
		return f
	}
	return a.print(fmt.Sprintf("%s: config drive written to %s; devices: %d\n", instance, oneLine(file), len(s.Devices)))
}
