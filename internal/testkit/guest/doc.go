// Package guest runs a host worker on a machine of its own: a virtual one in software
// emulation, with Debian's kernel, real sysfs, NVMe controllers whose namespaces are
// files of this machine, and cards whose memory is one. What a wipe left can be counted
// in those files, and ending the emulator is a power failure: what the guest had not
// handed to a disk is lost. (A disk's own volatile cache is not played: what reached a
// disk stays; so does what a card's memory holds.)
//
// A guest is made of what is installed here ([Missing]) and of nothing else: busybox,
// nvme-cli with its libraries, the kernel's modules and the worker make up its initial
// file system, which lives in memory. Only [State], a small ext4, survives.
package guest
