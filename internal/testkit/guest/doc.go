// Package guest runs a host worker on a virtual machine in software emulation, with
// Debian's kernel, real sysfs, NVMe controllers whose namespaces are files of this machine,
// and cards whose memory is a file. What a wipe left can be counted in those files. Ending
// the emulator is a power failure: data that the guest had not yet written to a disk is
// lost. (A disk's own volatile cache is not emulated: what reached a disk stays, and so does
// a card's memory.)
//
// A guest consists of programs that are installed here ([Missing]): busybox, nvme-cli with
// its libraries, the kernel's modules and the worker make up its initial file system, which
// is in memory. Only [State], a small ext4, survives.
package guest
