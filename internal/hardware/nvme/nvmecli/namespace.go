package nvmecli

import (
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

// Namespace is the Identify Namespace data structure (NVM Command Set Specification, CNS 00h
// and 11h).
type Namespace struct {
	// Blocks is NSZE. An inactive namespace has no blocks.
	Blocks uint64
	// Allocated is NVMCAP: how many bytes of the drive's capacity it takes; 0 if not reported.
	Allocated uint64
	// Format is the index in Formats of the format in use.
	Format  int
	Formats []Format
	// WriteProtected: NSATTR bit 0.
	WriteProtected bool
}

// ParseNamespace reads Identify Namespace. Faults: tool_output_invalid.
func ParseNamespace(data []byte) (Namespace, error) {
	p, err := pageOf("Identify Namespace", data, IdentifySize)
	if err != nil {
		return Namespace{}, err
	}
	n := Namespace{Blocks: p.u64(0), Allocated: p.counter(48), WriteProtected: p[99]&1 != 0}
	const formats, size, most, smallest, largest = 128, 4, 64, 9, 30
	count := int(p[25]) + 1 // NLBAF is 0's based
	if count > most {
		return Namespace{}, invalid("Identify Namespace", "it has %d formats", count)
	}
	for at := formats; at < formats+count*size; at += size {
		format := Format{Metadata: p.u16(at)}
		// A format below 512 bytes is unusable, and no block has a GiB.
		switch shift := p[at+2]; {
		case shift > largest:
			return Namespace{}, invalid("Identify Namespace", "a format has blocks of 2^%d bytes", shift)
		case shift >= smallest:
			format.BlockSize = 1 << shift
		}
		n.Formats = append(n.Formats, format)
	}
	// FLBAS bits 3:0, and above them bits 6:5 if there are more than 16 formats.
	n.Format = int(p[26] & 0xf)
	if len(n.Formats) > 16 {
		n.Format |= int(p[26]>>5&3) << 4
	}
	if n.Format >= len(n.Formats) {
		return Namespace{}, invalid("Identify Namespace", "it has format %d of %d", n.Format, len(n.Formats))
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
	switch {
	case size == 0:
		return 0, invalid("Identify Namespace", "the namespace has %d blocks without a size", n.Blocks)
	case n.Blocks > uint64(math.MaxInt64/size):
		return 0, invalid("Identify Namespace",
			"the namespace has %d blocks of %d bytes, more than any device", n.Blocks, size)
	}
	return int64(n.Blocks) * size, nil
}

// NVMCommandSet is the command set of blocks that a host can overwrite.
const NVMCommandSet = 0

// ParseCommandSet finds the command set (CSI) in the Namespace Identification Descriptor list.
// A namespace without this descriptor has the NVM command set. Faults: tool_output_invalid.
func ParseCommandSet(data []byte) (uint8, error) {
	const header, kind, commandSet = 4, 0, 4
	for rest := data; len(rest) >= header && rest[kind] != 0; {
		size := int(rest[1])
		if size == 0 || len(rest) < header+size {
			return 0, invalid("the namespace's descriptors", "one is cut short")
		}
		if rest[kind] == commandSet {
			return rest[header], nil
		}
		rest = rest[header+size:]
	}
	return NVMCommandSet, nil
}

// ParseNamespaceList reads a list of namespaces, active or allocated: their numbers in rising
// order without duplicates; empty, not nil, if there are none. A full list is a fault, because
// more may follow, and what is not listed would not be erased (F17). Faults:
// tool_output_invalid.
func ParseNamespaceList(data []byte) ([]uint32, error) {
	p, err := pageOf("the list of namespaces", data, IdentifySize)
	if err != nil {
		return nil, err
	}
	const size = 4
	ids := make([]uint32, 0, 1)
	for at := 0; ; at += size {
		switch {
		case at == len(p):
			return nil, invalid("the list of namespaces", "it has %d namespaces, and there may be more", len(ids))
		case p.u32(at) == 0:
			slices.Sort(ids)
			if len(slices.Compact(slices.Clone(ids))) != len(ids) {
				return nil, invalid("the list of namespaces", "it has one twice")
			}
			return ids, nil
		case p.u32(at) == math.MaxUint32:
			return nil, invalid("the list of namespaces", "it has namespace 0xffffffff, which is not a valid number")
		}
		ids = append(ids, p.u32(at))
	}
}
