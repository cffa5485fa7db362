package guest

import (
	"context"
	"fmt"
	"strings"
)

// Disks are the block devices of the controller with this serial, as the kernel names
// them now, in the order of their numbers, without the hidden paths of a multipath device.
func (g *Guest) Disks(ctx context.Context, serial string) ([]string, error) {
	out, err := g.Run(ctx, `cd /sys/block
for disk in nvme*; do
	[ "$(cat $disk/hidden 2>/dev/null)" = 0 ] && echo "$disk $(cat $disk/device/serial)"
done
true`)
	if err != nil {
		return nil, err
	}
	var disks []string
	for line := range strings.Lines(out.Stdout) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == serial {
			disks = append(disks, "/dev/"+fields[0])
		}
	}
	return disks, nil
}

// Remove removes a controller from the kernel, as pulling the drive does; Rescan brings it
// back.
func (g *Guest) Remove(ctx context.Context, address string) error {
	_, err := g.Run(ctx, "echo 1 >/sys/bus/pci/devices/"+address+"/remove")
	return err
}

// Rescan looks for PCI devices that the kernel does not know.
func (g *Guest) Rescan(ctx context.Context) error {
	_, err := g.Run(ctx, "echo 1 >/sys/bus/pci/rescan")
	return err
}

// Copy copies size bytes from one block device to another through the guest's own
// drivers, past its caches, and flushes; size is a whole number of MiB.
func (g *Guest) Copy(ctx context.Context, from, to string, size int64) error {
	_, err := g.Run(ctx, fmt.Sprintf("dd if=%s of=%s bs=1M count=%d iflag=direct oflag=direct conv=fsync", from,
		to, size>>20))
	return err
}
