package pci_test

import (
	"fmt"

	"burnish/internal/pci"
)

// A device_spec as an operator writes it for Nova: the first entry that a device
// matches counts.
func ExampleSpecs_Match() {
	specs, err := pci.ParseSpecs([]byte(`[
		{"vendor_id": "8086", "product_id": "0a54", "address": "0000:0a:00.*", "one_time_use": "yes"},
		{"vendor_id": "10de"}
	]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, device := range []pci.Device{
		{Address: "0000:0a:00.0", Vendor: "8086", Product: "0a54"},
		{Address: "0000:0b:00.0", Vendor: "8086", Product: "0a54"},
		{Address: "0000:41:00.0", Vendor: "10de", Product: "2235"},
	} {
		spec, matches, err := specs.Match(device)
		fmt.Println(device.Address, "matches:", matches, "one-time-use:", spec.OneTimeUse(), err)
	}
	// Output:
	// 0000:0a:00.0 matches: true one-time-use: true <nil>
	// 0000:0b:00.0 matches: false one-time-use: false <nil>
	// 0000:41:00.0 matches: true one-time-use: false <nil>
}
