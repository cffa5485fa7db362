// Package pci knows PCI devices as Nova's device_spec speaks of them: it parses
// specs, matches them against devices, and reads the devices of this machine from
// sysfs. It changes nothing and keeps nothing.
package pci
