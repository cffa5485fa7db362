package pci

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Only a MAC that the hardware brought along is what a guest sees.
//
// S1.16
func TestTheMACOfANICsOnlyInterface(t *testing.T) {
	const mac = "52:54:00:AB:cd:ef\n"
	for what, c := range map[string]struct {
		attributes map[string]string
		want       string
	}{
		"its own":               {map[string]string{"net/eth0/": "/", "net/eth0/address": mac, "net/eth0/addr_assign_type": "0\n"}, "52:54:00:ab:cd:ef"},
		"random":                {map[string]string{"net/eth0/": "/", "net/eth0/address": mac, "net/eth0/addr_assign_type": "1\n"}, ""},
		"given by the host":     {map[string]string{"net/eth0/": "/", "net/eth0/address": mac, "net/eth0/addr_assign_type": "3\n"}, ""},
		"of unknown origin":     {map[string]string{"net/eth0/": "/", "net/eth0/address": mac}, ""},
		"InfiniBand":            {map[string]string{"net/ib0/": "/", "net/ib0/address": "80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:10:ad:f1\n", "net/ib0/addr_assign_type": "0\n"}, ""},
		"no address":            {map[string]string{"net/eth0/": "/", "net/eth0/addr_assign_type": "0\n"}, ""},
		"no interface":          {map[string]string{"net/": "/"}, ""},
		"another kernel driver": {nil, ""},
		"two interfaces": {map[string]string{
			"net/eth0/": "/", "net/eth0/address": mac, "net/eth0/addr_assign_type": "0\n",
			"net/eth1/": "/", "net/eth1/address": mac, "net/eth1/addr_assign_type": "0\n",
		}, ""},
	} {
		t.Run(what, func(t *testing.T) {
			tr := newTree(t)
			folders, files := map[string]string{}, map[string]string{}
			for name, value := range c.attributes {
				if value == "/" {
					folders[name] = value
				} else {
					files[name] = value
				}
			}
			tr.add("0000:01:00.0", folders)
			tr.write("0000:01:00.0", files)
			d, found, err := ReadDevice(tr.devices(), "0000:01:00.0")
			require.NoError(t, err)
			require.True(t, found)
			require.Equal(t, c.want, d.MAC)
		})
	}
}
