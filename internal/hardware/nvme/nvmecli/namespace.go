package nvmecli

import (
	"cmp"
	"math"
	"slices"
)

// Format is one LBA format of a namespace.
type Format struct {
	// BlockSize is the number of data bytes in a block; 0 if the format is unusable (LBADS).
	BlockSize int64
	// Metadata is the number of metadata bytes in a block (MS). The kernel shows no usable
	// disk for most formats with metadata.
	Metadata uint16
}

// Namespace is the output of `nvme id-ns`: the Identify Namespace data structure (NVM
// Command Set Specification, CNS 00h).
type Namespace struct {
	// Blocks is NSZE, Capacity NCAP and Used NUSE, in blocks. An inactive namespace has no
	// blocks.
	Blocks, Capacity, Used uint64
	// Allocated is NVMCAP: how many bytes of the drive's capacity it takes; 0 if not reported.
	Allocated uint64
	// Format is the index in Formats of the format in use.
	Format  int
	Formats []Format
	// Shared: another controller may reach it (NMIC bit 0).
	Shared bool
	// WriteProtected: NSATTR bit 0.
	WriteProtected bool
	// NGUID and EUI64 are as printed; all zeroes if the namespace has none.
	NGUID, EUI64 string
}

// ParseNamespace reads the output of `nvme id-ns -o json`. Faults: tool_output_invalid.
func ParseNamespace(output []byte) (Namespace, error) {
	r := read("id-ns", output)
	n := Namespace{
		Blocks: r.uint("nsze", 64), Capacity: r.uint("ncap", 64), Used: r.optionalUint("nuse", 64),
		Allocated: r.counter("nvmcap"),
		Shared:    r.optionalUint("nmic", 8)&1 != 0, WriteProtected: r.optionalUint("nsattr", 8)&1 != 0,
		NGUID: r.text("nguid"), EUI64: r.text("eui64"),
	}
	flbas := r.uint("flbas", 8)
	list, ok := r.required("lbafs").([]any)
	if !ok {
		r.fail("lbafs is not a list")
	}
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if !ok {
			r.fail("lbafs has an element that is not a format")
			break
		}
		one := &reader{command: r.command, fields: fields}
		format := Format{Metadata: uint16(one.uint("ms", 16))}
		// A format below 512 bytes is unusable, and no block has a GiB.
		switch shift := one.uint("ds", 8); {
		case shift > 30:
			one.fail("ds is %d: no block is that large", shift)
		case shift >= 9:
			format.BlockSize = 1 << shift
		}
		if one.fault != nil {
			r.fault = cmp.Or(r.fault, one.fault)
			break
		}
		n.Formats = append(n.Formats, format)
	}
	// FLBAS bits 3:0, and above them bits 6:5 if there are more than 16 formats.
	n.Format = int(flbas & 0xf)
	if len(n.Formats) > 16 {
		n.Format |= int(flbas>>5&3) << 4
	}
	if n.Format >= len(n.Formats) {
		r.fail("flbas selects format %d of %d", n.Format, len(n.Formats))
	}
	if err := r.err(); err != nil {
		return Namespace{}, err
	}
	return n, nil
}

// Bytes is the namespace's size; 0 if it has no blocks. Blocks without a size are a fault
// (F17). Faults: tool_output_invalid.
func (n Namespace) Bytes() (int64, error) {
	if n.Blocks == 0 {
		return 0, nil
	}
	size := n.Formats[n.Format].BlockSize
	r := &reader{command: "id-ns"}
	switch {
	case size == 0:
		r.fail("the namespace has %d blocks without a size", n.Blocks)
	case n.Blocks > uint64(math.MaxInt64/size):
		r.fail("the namespace has %d blocks of %d bytes, more than any device", n.Blocks, size)
	default:
		return int64(n.Blocks) * size, nil
	}
	return 0, r.err()
}

// NVMCommandSet is the command set of blocks that a host can overwrite.
const NVMCommandSet = 0

// ParseCommandSet finds the command set (CSI) in the Namespace Identification Descriptor list,
// as `nvme ns-descs --raw-binary` prints it. A namespace without this descriptor has the NVM
// command set. Faults: tool_output_invalid.
func ParseCommandSet(output []byte) (uint8, error) {
	const header, kind, commandSet = 4, 0, 4
	r := &reader{command: "ns-descs"}
	for rest := output; len(rest) >= header && rest[kind] != 0; {
		size := int(rest[1])
		if size == 0 || len(rest) < header+size {
			r.fail("a descriptor is cut short")
			return 0, r.err()
		}
		if rest[kind] == commandSet {
			return rest[header], nil
		}
		rest = rest[header+size:]
	}
	return NVMCommandSet, nil
}

// maxListed is the capacity of one list.
const maxListed = 1024

// ParseNamespaceList reads the output of `nvme list-ns -o json`, also with --all: the
// namespaces' numbers in rising order without duplicates; empty, not nil, if there are
// none. A full list is a fault, because more may follow, and what is not listed would not be
// erased (F17). Faults: tool_output_invalid.
func ParseNamespaceList(output []byte) ([]uint32, error) {
	r := read("list-ns", output)
	list, ok := r.required("nsid_list").([]any)
	if !ok {
		r.fail("nsid_list is not a list")
	}
	if len(list) >= maxListed {
		r.fail("it lists %d namespaces, and there may be more", len(list))
	}
	ids := make([]uint32, 0, len(list))
	for _, item := range list {
		if r.fault != nil {
			break
		}
		if fields, ok := item.(map[string]any); ok {
			item = fields["nsid"]
		}
		id := uint32(r.number("nsid", item, 32))
		if id == 0 || id == math.MaxUint32 {
			r.fail("nsid is %d, which is not a valid number", id)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		r.fail("nsid_list has a duplicate")
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return ids, nil
}
