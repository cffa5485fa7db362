package steps

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// planted is random data that a clean writes to a device before it has the device sanitized
// (F33): afterwards none of it may be there. What a tenant left, or left out, does not matter
// then. The seed gives the data of each block again.
type planted struct {
	Seed uint64 `json:"seed"`
	// Size is the device's size, At the offsets of the blocks that were read back.
	Size int64   `json:"size"`
	At   []int64 `json:"at,omitempty"`
	// Failed is how many blocks could not be written or read back.
	Failed int `json:"failed,omitempty"`
	// Missing says why at least one namespace has no planted block; then nothing is proved.
	Missing string `json:"missing,omitempty"`
}

// complete: each namespace has a planted block.
func (p planted) complete() bool { return len(p.At) > 0 && p.Missing == "" }

// maxPlantFailures is how many blocks may fail until a device counts as one that takes no
// writes: each failure may take the kernel's time-out.
const maxPlantFailures = 8

// plant writes random blocks at places of every namespace, its first and last among them,
// flushes them and reads them back. A block that cannot be written or read back does not
// count. Errors are those after which nothing more may be written.
func plant(ctx context.Context, w *Work, drive hardware.EvidenceWriter) (planted, error) {
	p := planted{Seed: rand.Uint64(), Size: w.Device.Size()}
	if err := w.Checkpoint(0); err != nil {
		return p, err
	}
	if err := w.Device.Check(ctx); err != nil {
		return p, err
	}
	sizes := drive.NamespaceSizes()
	var from int64
	for i, size := range sizes {
		written, err := p.write(ctx, drive, from, size, max(2, sampleCount/int64(len(sizes))))
		if err != nil {
			return p, err
		}
		if len(written) > 0 {
			if err := w.Device.Flush(ctx); err != nil {
				return p, err
			}
		}
		kept := len(p.At)
		for _, at := range written {
			block, err := readEvidence(ctx, w.Device, at)
			switch {
			case err != nil:
				return p, err
			case block == nil:
				p.Failed++
				p.missing("byte %d could be written, but not be read", at)
			case !bytes.Equal(block, p.block(at)):
				p.Failed++
				p.missing("byte %d does not read as it was written", at)
			default:
				p.At = append(p.At, at)
			}
		}
		if len(p.At) == kept {
			p.missing("disk %d of %d has %d bytes", i+1, len(sizes), size)
			return p, nil
		}
		from += size
	}
	if len(p.At) > 0 {
		p.Missing = ""
	} else {
		p.missing("the drive has no namespace")
	}
	return p, nil
}

// missing keeps the first reason.
func (p *planted) missing(format string, args ...any) {
	if p.Missing == "" {
		p.Missing = fmt.Sprintf(format, args...)
	}
}

// write writes the blocks of one namespace and gives their offsets.
func (p *planted) write(ctx context.Context, drive hardware.EvidenceWriter, from, size,
	count int64) (written []int64, err error) {
	failed := 0
	for _, at := range sampleOffsets(size, count, p.Seed) {
		err := drive.WriteEvidence(ctx, p.block(from+at), from+at)
		switch f, ok := device.AsFault(err); {
		case err == nil:
			written = append(written, from+at)
			continue
		case !ok || f.Code != device.CodeIO && f.Code != device.CodeWriteProtected:
			return nil, err
		default:
			p.Failed++
			p.missing("%s", f.Message)
		}
		if failed++; failed == maxPlantFailures && len(written) == 0 {
			break
		}
	}
	return written, nil
}

// block is the data of the block at an offset, in memory for direct writes.
func (p *planted) block(at int64) []byte {
	data, random := hardware.AlignedBuffer(evidenceBlock), rand.New(rand.NewPCG(p.Seed, uint64(at)))
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], random.Uint64())
	}
	return data
}

// sector is the smallest piece that a device erases or not.
const sector = 512

// changed reads the planted blocks again; it fails where a sector is still there. read is how
// many bytes it read.
func (p planted) changed(ctx context.Context, from hardware.Handle) (note string, read int64, err error) {
	if from.Size() != p.Size {
		return "", 0, notProven("the device has %d bytes and had %d before its sanitize", from.Size(), p.Size)
	}
	if !p.complete() {
		return "", 0, notPlanted(p)
	}
	unreadable := 0
	for _, at := range p.At {
		now, err := readEvidence(ctx, from, at)
		if err != nil {
			return "", 0, err
		}
		if now == nil {
			unreadable++
			continue
		}
		before := p.block(at)
		for i := 0; i < len(now); i += sector {
			if bytes.Equal(now[i:i+sector], before[i:i+sector]) {
				return "", 0, notProven("the random data that was written at byte %d before the sanitize is still there",
					at+int64(i))
			}
		}
	}
	changed := len(p.At) - unreadable
	return fmt.Sprintf("%d of %d planted blocks changed, %d unreadable; %d could not be planted; seed %d",
		changed, len(p.At), unreadable, p.Failed, p.Seed), int64(changed) * evidenceBlock, nil
}

// notPlanted is the fault of a device whose sanitize cannot be proved.
func notPlanted(p planted) error {
	return &device.Fault{Class: device.NeedsOperator, Code: device.CodeVerifyFailed,
		Message: "no known data could be written to the drive before its sanitize, so nothing proves that it erases: " +
			p.Missing,
		Remedy: "check the drive and the kernel's log, then clean it again; a drive that takes no writes must be retired"}
}
