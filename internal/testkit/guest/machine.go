package guest

import (
	"fmt"
	"strings"
)

// The slots of everything that is neither controller nor card.
const (
	slotLines = 0x10 + iota
	slotNetwork
	slotState
	slotConfigDrive
)

// kernelOptions leave out what only costs time in emulation. A program that always lies at
// the same addresses is translated once, which halves the time of everything that runs
// nvme-cli. The kernel does not try whether its timer interrupts it: on a busy machine the
// interrupt came too late for it, and it went on without it or gave up. The kernel's warnings
// still come to the console.
const kernelOptions = "console=ttyS0 loglevel=5 panic=-1 mitigations=off no5lvl nokaslr norandmaps tsc=reliable " +
	"random.trust_cpu=on cryptomgr.notests no_timer_check"

// arguments is the emulator's command line. The descriptor 3 is the agent's line.
func (g *Guest) arguments() []string {
	memory := g.Config.MemoryMB
	if memory == 0 {
		memory = 768
	}
	options := kernelOptions + clockOption()
	if g.Config.IOMMU {
		options += " intel_iommu=on"
	}
	args := []string{
		// One processor: between two, QEMU 7.2 without KVM loses an interrupt now and then, and the guest hangs (measured).
		"-machine", "q35", "-accel", "tcg", "-cpu", "qemu64,+rdrand", "-smp", "1", "-m", fmt.Sprint(memory),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", g.parts.kernel, "-initrd", g.path("initramfs"), "-append", options,
		"-chardev", "file,id=console,append=on,path=" + g.path("console.log"), "-serial", "chardev:console",
		"-device", fmt.Sprintf("virtio-serial-pci,addr=%#x", slotLines),
		"-chardev", "socket,id=agent,fd=3", "-device", "virtserialport,chardev=agent,nr=1",
		"-chardev", "file,id=worker,append=on,path=" + g.path("worker.log"), "-device", "virtserialport,chardev=worker,nr=2",
		"-netdev", "user,id=net", "-device", fmt.Sprintf("virtio-net-pci,netdev=net,romfile=,addr=%#x", slotNetwork),
		"-drive", "if=none,id=state,format=raw,file=" + g.path("state.img"),
		"-device", fmt.Sprintf("virtio-blk-pci,drive=state,addr=%#x", slotState),
	}
	if g.Config.IOMMU {
		args = append(args, "-device", "intel-iommu")
	}
	if g.Config.ConfigDrive != "" {
		args = append(args, "-drive", "if=none,id=config,format=raw,readonly=on,file="+g.Config.ConfigDrive,
			"-device", fmt.Sprintf("virtio-blk-pci,drive=config,addr=%#x", slotConfigDrive))
	}
	for i, c := range g.Config.Controllers {
		args = append(args, c.arguments(i)...)
	}
	for i, c := range g.Config.Cards {
		args = append(args, c.arguments(i)...)
	}
	return args
}

// slot is the number of an address on bus 0.
func slot(address string) string {
	return "0x" + strings.TrimSuffix(strings.TrimPrefix(address, "0000:00:"), ".0")
}

func (c Card) arguments(i int) []string {
	device, args := c.Device, []string(nil)
	if device == "" {
		device = fmt.Sprintf("ivshmem-plain,memdev=card%d", i)
		args = []string{"-object",
			fmt.Sprintf("memory-backend-file,id=card%d,share=on,mem-path=%s,size=%d", i, c.Memory, c.Size)}
	}
	where := "addr=" + slot(*c.at())
	if c.Port {
		args = append(args, "-device", fmt.Sprintf("pcie-root-port,id=port%[1]d,chassis=%[1]d,hotplug=off,%[2]s", i+1, where))
		where = fmt.Sprintf("bus=port%d", i+1)
	}
	return append(args, "-device", device+","+where)
}

func (c Controller) arguments(i int) []string {
	var args []string
	device := fmt.Sprintf("nvme,id=nvme%d,serial=%s,addr=%s", i, c.Serial, slot(c.Address))
	if c.Subsystem {
		args = append(args, "-device", fmt.Sprintf("nvme-subsys,id=subsys%[1]d,nqn=subsys%[1]d", i))
		device += fmt.Sprintf(",subsys=subsys%d", i)
	}
	args = append(args, "-device", device)
	for n, ns := range c.Namespaces {
		args = append(args, ns.arguments(i, n+1)...)
	}
	return args
}

func (ns Namespace) arguments(controller, nsid int) []string {
	id := fmt.Sprintf("nvme%dn%d", controller, nsid)
	drive := fmt.Sprintf("if=none,id=%s,format=raw,discard=unmap,detect-zeroes=unmap,file=%s", id, ns.Image)
	if ns.WriteBytesPerSecond > 0 {
		drive += fmt.Sprintf(",throttling.bps-write=%d", ns.WriteBytesPerSecond)
	}
	device := fmt.Sprintf("nvme-ns,bus=nvme%d,nsid=%d,drive=%s", controller, nsid, id)
	if ns.BlockSize > 0 {
		device += fmt.Sprintf(",logical_block_size=%[1]d,physical_block_size=%[1]d", ns.BlockSize)
	}
	if ns.Metadata > 0 {
		device += fmt.Sprintf(",ms=%d", ns.Metadata)
	}
	if ns.Detached {
		device += ",detached=on"
	}
	return []string{"-drive", drive, "-device", device + ",shared=off"}
}
