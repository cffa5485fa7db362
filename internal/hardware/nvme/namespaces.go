package nvme

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/hardware/block"
	"burnish/internal/hardware/nvme/nvmecli"
	"burnish/internal/hardware/nvme/privileged"
)

// namespaceLayout is the drive's namespaces, as the drive reports them.
type namespaceLayout struct {
	// allocated are all namespaces that exist, active those that are attached to this
	// controller. A detached one keeps its bytes when the others are erased (measured).
	allocated, active []uint32
	info              map[uint32]nvmecli.Namespace
	// commandSet is that of each active namespace.
	commandSet map[uint32]uint8
}

// namespaces reads all namespaces from the drive.
func (c *controller) namespaces(ctx context.Context) (namespaceLayout, error) {
	now := namespaceLayout{info: map[uint32]nvmecli.Namespace{}, commandSet: map[uint32]uint8{}}
	var err error
	if now.active, err = c.listNamespaces(ctx, privileged.ActiveNamespaces); err != nil {
		return namespaceLayout{}, err
	}
	now.allocated = now.active
	if c.id.Capabilities().ManageNamespaces {
		if now.allocated, err = c.listNamespaces(ctx, privileged.AllocatedNamespaces); err != nil {
			return namespaceLayout{}, err
		}
	}
	for _, nsid := range now.allocated {
		r := privileged.Request{Verb: privileged.IdentifyNamespace, NSID: nsid, Detached: !slices.Contains(now.active, nsid)}
		if now.info[nsid], err = ask(ctx, c, r, nvmecli.ParseNamespace); err != nil {
			return namespaceLayout{}, err
		}
	}
	for _, nsid := range now.active {
		// A drive that refuses to report it knows only the NVM command set, which is 0: reporting
		// came with the others.
		r := privileged.Request{Verb: privileged.NamespaceCommandSet, NSID: nsid}
		if now.commandSet[nsid], _, err = askIfKnown(ctx, c, r, nvmecli.ParseCommandSet); err != nil {
			return namespaceLayout{}, err
		}
	}
	return now, nil
}

func (c *controller) listNamespaces(ctx context.Context, which privileged.Verb) ([]uint32, error) {
	return ask(ctx, c, privileged.Request{Verb: which}, nvmecli.ParseNamespaceList)
}

// totalBytes is the sum of all allocated namespaces.
func (n namespaceLayout) totalBytes() (int64, error) {
	var sum int64
	for _, nsid := range n.allocated {
		bytes, err := n.info[nsid].Bytes()
		if err != nil {
			return 0, err
		}
		sum += bytes
	}
	return sum, nil
}

// writeProtected lists the write-protected ones.
func (n namespaceLayout) writeProtected() []uint32 {
	return slices.DeleteFunc(slices.Clone(n.allocated), func(nsid uint32) bool { return !n.info[nsid].WriteProtected })
}

// describe is for the operator.
func (n namespaceLayout) describe() string {
	switch detached := len(n.allocated) - len(n.active); {
	case len(n.allocated) == 0:
		return "no namespace"
	case detached > 0:
		return fmt.Sprintf("%d namespaces, %d of them detached", len(n.allocated), detached)
	case len(n.allocated) == 1:
		return "one namespace"
	default:
		return fmt.Sprintf("%d namespaces", len(n.allocated))
	}
}

// classify compares the layout with the enrolled identity (F17).
func (n namespaceLayout) classify(identity device.Identity) device.Layout {
	if len(n.allocated) == 0 {
		return device.LayoutNone
	}
	if len(n.allocated) > 1 || !slices.Equal(n.allocated, n.active) {
		return device.LayoutSplit
	}
	only := n.info[n.allocated[0]]
	format := only.Formats[only.Format]
	bytes, err := only.Bytes()
	if err != nil || n.commandSet[n.allocated[0]] != nvmecli.NVMCommandSet || bytes != identity.Size ||
		format.BlockSize != identity.BlockSize || format.Metadata != 0 {
		return device.LayoutSplit
	}
	return device.LayoutWhole
}

// enrolledIdentity is the drive's identity. From an earlier enrollment it keeps the size
// that a tenant must get, the block size, and the firmware to compare with (F20), unless
// Burnish itself gave the drive the one that it runs. The size of a namespace never
// distinguishes drives (F11).
func (c *controller) enrolledIdentity(now namespaceLayout, known device.Identity) (device.Identity, error) {
	identity := c.identity()
	if known != (device.Identity{}) {
		if identity.Firmware != c.reflashed {
			identity.Firmware = known.Firmware
		}
		identity.Size, identity.BlockSize, identity.Given = known.Size, known.BlockSize, known.Given
		return identity, nil
	}
	// A drive without any namespace has blocks of 512 bytes, the factory format; Consolidate checks that it
	// has that format.
	manages := c.id.Capabilities().ManageNamespaces
	if len(now.allocated) == 0 && manages {
		identity.BlockSize = 512
	}
	for _, format := range now.formats() {
		if format.Metadata == 0 && format.BlockSize > 0 && identity.BlockSize == 0 {
			identity.BlockSize = format.BlockSize
		}
	}
	if identity.BlockSize == 0 {
		return identity,
			hardware.Refused(device.CodeNamespaceLayoutMismatch, "make one namespace without metadata with the vendor's tool",
				"the drive at %s has no namespace that a host can address in full", c.Address)
	}
	var err error
	allIsAllocated := c.noUnallocated && len(now.allocated) > 0 || len(now.active) == 1 && c.id.Unallocated == 0
	if manages && !allIsAllocated {
		identity.Size = identity.Capacity / identity.BlockSize * identity.BlockSize
	}
	if identity.Size == 0 {
		identity.Size, err = now.totalBytes()
	}
	if err == nil && identity.Size == 0 {
		err = hardware.Refused(device.CodeNamespaceLayoutMismatch,
			"make one namespace of the full size with the vendor's tool", "the drive at %s has no bytes that a host can address",
			c.Address)
	}
	return identity, err
}

// formats lists the format in use of the lowest namespace, and after it all formats that
// this namespace supports.
func (n namespaceLayout) formats() []nvmecli.Format {
	if len(n.allocated) == 0 {
		return nil
	}
	first := n.info[n.allocated[0]]
	return append([]nvmecli.Format{first.Formats[first.Format]}, first.Formats...)
}

// identity is what the controller reports.
func (c *controller) identity() device.Identity {
	return device.Identity{
		Serial: c.id.Serial, Vendor: c.pci.Vendor, Product: c.pci.Product, Model: c.id.Model, Firmware: c.id.Firmware,
		Subsystem: c.id.Subsystem, Capacity: int64(min(c.id.Capacity, 1<<62)), Path: c.Address,
	}
}

// verifyIdentity reads the identity again and compares it (F11).
func (c *controller) verifyIdentity(ctx context.Context, enrolled device.Identity) error {
	if err := c.readIdentity(ctx); err != nil {
		return err
	}
	identity := c.identity()
	identity.Size, identity.BlockSize = enrolled.Size, enrolled.BlockSize
	if field := enrolled.Differs(identity); field != "" {
		return hardware.Changed(field, fmt.Sprintf("%s at %s", c.Controller, c.Address))
	}
	return nil
}

// checkFirstEnrollment is for a first enrollment only: it proves that nothing uses the
// drive, and that it holds no data of an owner (F12, F15).
func (c *controller) checkFirstEnrollment(ctx context.Context, t hardware.Target, names namespaceLayout) (err error) {
	disks, err := c.Disks()
	if err != nil {
		return err
	}
	if err := c.refuseHidden(t, names, disks); err != nil {
		return err
	}
	return c.claimEach(ctx, disks, func(disk *block.Disk) error { return disk.RefuseSignatures(t) })
}

// checkFree proves that no process has claimed one of the drive's disks or writes to it, or sends the drive commands.
func (c *controller) checkFree(ctx context.Context) error {
	disks, err := c.Disks()
	if err != nil {
		return err
	}
	return c.claimEach(ctx, disks, func(*block.Disk) error { return nil })
}

// claimEach claims one disk after the other, which proves that nothing uses it (F12, F40), and looks at it.
func (c *controller) claimEach(ctx context.Context, disks []privileged.Disk, look func(*block.Disk) error) error {
	for _, s := range disks {
		disk, err := c.host.Kernel.Claim(ctx, s.Node, false)
		if err != nil {
			return err
		}
		if err := errors.Join(look(disk), disk.Close()); err != nil {
			return err
		}
	}
	return nil
}

// hiddenNamespace is the name by which an operator agrees to destroy a namespace that the host
// cannot read.
const hiddenNamespace = "hidden_namespace"

// refuseHidden refuses a namespace that has no disk, because it is not attached or has another
// format: what an owner left in it cannot be looked for.
func (c *controller) refuseHidden(t hardware.Target, names namespaceLayout, disks []privileged.Disk) error {
	for _, nsid := range names.allocated {
		readable := names.info[nsid].Formats[names.info[nsid].Format].Metadata == 0 &&
			slices.ContainsFunc(disks, func(d privileged.Disk) bool { return d.NSID == nsid })
		if !readable && !t.Accepts(hiddenNamespace) {
			return hardware.Refused(device.CodeFilesystemSignature,
				"attach it and look, or, if it may be destroyed, enroll the drive with --accept-signature "+hiddenNamespace,
				"namespace %d of the drive at %s is detached or cannot be read, so that it is not known whose data it holds",
				nsid, c.Address)
		}
	}
	return nil
}

// Layout reads the present layout; see hardware.NamespaceManager.
func (h *handle) Layout(ctx context.Context) (device.Layout, error) {
	now, err := h.c.namespaces(ctx)
	if err != nil {
		return device.LayoutUnknown, err
	}
	return now.classify(h.enrolled), nil
}

// CheckComplete proves that the claimed disks cover everything that a tenant can have
// written; see hardware.NamespaceManager.
func (h *handle) CheckComplete(ctx context.Context) error {
	now, err := h.c.namespaces(ctx)
	if err != nil {
		return err
	}
	const remedy = "consolidate its namespaces with the vendor's tool, or replace the device"
	wrong := func(format string, args ...any) error {
		return hardware.Refused(device.CodeNamespaceLayoutMismatch, remedy, format, args...)
	}
	if len(now.allocated) == 0 {
		return wrong("the drive at %s has no namespace", h.c.Address)
	}
	if !slices.Equal(now.allocated, now.active) {
		return wrong("the drive at %s has %d namespaces, but only %d are attached: a detached one keeps its bytes",
			h.c.Address, len(now.allocated), len(now.active))
	}
	var sum int64
	for _, nsid := range now.allocated {
		at := slices.IndexFunc(h.parts, func(p part) bool { return p.nsid == nsid })
		if at < 0 {
			return wrong("the kernel shows no disk for namespace %d of %s", nsid, h.c.Address)
		}
		format := now.info[nsid].Formats[now.info[nsid].Format]
		bytes, err := now.info[nsid].Bytes()
		switch {
		case err != nil:
			return err
		case now.commandSet[nsid] != nvmecli.NVMCommandSet:
			return wrong("namespace %d of %s has the command set %d (2 is zoned), which is not overwritten in place", nsid,
				h.c.Address, now.commandSet[nsid])
		case format.Metadata != 0:
			return wrong("namespace %d of %s has %d bytes of metadata with each block, which zeroes do not overwrite", nsid,
				h.c.Address, format.Metadata)
		case bytes != h.parts[at].disk.Size():
			return wrong("namespace %d of %s has %d bytes, but its disk has %d", nsid, h.c.Address, bytes,
				h.parts[at].disk.Size())
		case now.info[nsid].WriteProtected:
			return hardware.Refused(device.CodeWriteProtected, protectionRemedy, "namespace %d of %s is write-protected",
				nsid, h.c.Address)
		}
		sum += bytes
	}
	if sum <= 0 || sum != h.enrolled.Size || sum != h.Size() {
		return wrong("the namespaces of %s have %d bytes, enrolled were %d", h.c.Address, sum, h.enrolled.Size)
	}
	return nil
}

// CanConsolidate: the drive supports namespace management; see hardware.NamespaceManager.
func (h *handle) CanConsolidate() bool { return h.c.id.Capabilities().ManageNamespaces }

// Consolidate makes one namespace of the enrolled size; see hardware.NamespaceManager. After
// a crash there may be fewer namespaces, or one that is not attached. The next run deletes
// what is there and starts over.
func (h *handle) Consolidate(ctx context.Context, mayGoOn func() error) error {
	if !h.CanConsolidate() {
		return hardware.Refused(device.CodeNamespaceLayoutMismatch, "consolidate its namespaces with the vendor's tool",
			"the drive at %s cannot manage namespaces (OACS bit 3)", h.c.Address)
	}
	format, err := h.formatIndex(ctx)
	if err != nil {
		return err
	}
	before, err := h.c.namespaces(ctx)
	if err != nil {
		return err
	}
	create := func(bytes int64) error {
		blocks := uint64(bytes / h.enrolled.BlockSize)
		r := privileged.Request{Verb: privileged.CreateNamespace, Blocks: blocks, Format: uint8(format)}
		return h.change(ctx, mayGoOn, r)
	}
	if len(before.allocated) > 0 {
		if err := h.checkRest(before, create); err != nil {
			return err
		}
		if err := h.change(ctx, mayGoOn, privileged.Request{Verb: privileged.DeleteNamespaces}); err != nil {
			return err
		}
	}
	if err := h.release(); err != nil {
		return err
	}
	after, err := h.c.namespaces(ctx)
	if err != nil {
		return err
	}
	if len(after.allocated) > 0 {
		return hardware.Refused(device.CodeNamespaceLayoutMismatch, "check the drive's namespaces",
			"all namespaces of the drive at %s were deleted, but %d are left", h.c.Address, len(after.allocated))
	}
	if err := create(h.enrolled.Size); err != nil {
		return err
	}
	created, err := h.c.namespaces(ctx)
	if err != nil {
		return err
	}
	if len(created.allocated) != 1 {
		return hardware.Refused(device.CodeNamespaceLayoutMismatch, "check the drive's namespaces",
			"one namespace was created, but the drive at %s has %d", h.c.Address, len(created.allocated))
	}
	attach := privileged.Request{Verb: privileged.AttachNamespace, NSID: created.allocated[0], Controller: h.c.id.ID}
	if err := h.change(ctx, mayGoOn, attach); err != nil {
		return err
	}
	// The kernel may or may not have created the disk yet. claimNewNamespace waits for it.
	if err := h.c.verifyIdentity(ctx, h.enrolled); err != nil {
		return err
	}
	if err := h.rescan(ctx); err != nil {
		return err
	}
	return h.claimNewNamespace(ctx)
}

// rescan has the kernel read which namespaces there are. It works where the disks are not all held.
func (h *handle) rescan(ctx context.Context) error {
	return asFault(h.c.drive.Change(ctx, privileged.Request{Verb: privileged.Rescan}, h.enrolled.Serial, h.heldFiles()))
}

// checkRest proves, before anything is deleted, that the drive can give one namespace the enrolled
// size: it gives the bytes that no namespace has to one more. Some drives count bytes in their
// capacity that they never allocate.
func (h *handle) checkRest(before namespaceLayout, create func(bytes int64) error) error {
	rest := h.enrolled.Size
	for _, n := range before.info {
		bytes, err := n.Bytes()
		if err != nil {
			return err
		}
		rest -= max(bytes, int64(min(n.Allocated, 1<<62)))
	}
	if rest <= 0 {
		return nil
	}
	err := create(rest)
	if f, ok := device.AsFault(err); ok && f.Code == device.CodeCommandRefused {
		return hardware.Refused(device.CodeNamespaceLayoutMismatch,
			"if its namespaces are all that it can allocate, forget it and enroll it with --set unallocated=no; "+
				"else make one namespace of the enrolled size with the vendor's tool",
			"%d bytes of the drive at %s are in no namespace and cannot be allocated, so that no namespace was deleted: %s",
			rest, h.c.Address, f.Message)
	}
	return err
}

// formatIndex finds the LBA format with the enrolled block size and no metadata.
func (h *handle) formatIndex(ctx context.Context) (int, error) {
	r := privileged.Request{Verb: privileged.IdentifyNamespace, NSID: privileged.AllNamespaces}
	common, err := ask(ctx, h.c, r, nvmecli.ParseNamespace)
	if err != nil {
		return 0, err
	}
	for i, f := range common.Formats {
		if f.BlockSize == h.enrolled.BlockSize && f.Metadata == 0 {
			return i, nil
		}
	}
	return 0, hardware.Refused(device.CodeNamespaceLayoutMismatch, "replace the device",
		"the drive at %s has no format with %d bytes per block and no metadata", h.c.Address, h.enrolled.BlockSize)
}

// claimNewNamespace waits until the kernel shows the new namespace, claims it, and reads
// the drive again to prove that this one namespace is all there is.
func (h *handle) claimNewNamespace(ctx context.Context) error {
	return hardware.Poll(ctx, h.c.timeout, func() (again bool, err error) {
		err = errors.Join(h.release(), h.claim(ctx))
		if err == nil {
			err = h.CheckComplete(ctx)
		}
		return err != nil, err
	})
}
