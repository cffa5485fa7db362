package configdrive

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"
)

// The form of ISO 9660 (ECMA-119) and Joliet, as far as finish needs it.
const (
	blockSize       = 2048
	firstDescriptor = 16 // blocks
	primary         = 1
	supplementary   = 2
	rootAt          = 156
	rootLength      = 34
)

var errForm = errors.New("the image does not have the form that was expected of it")

// drive is an image with its two trees of folders.
type drive struct {
	bytes           []byte
	primary, joliet []byte // their descriptors
}

// open finds the descriptors, and gives the image its whole length: the library leaves out the
// rest of its last block.
func open(image []byte) (*drive, error) {
	for at := firstDescriptor * blockSize; at+blockSize <= len(image); at += blockSize {
		if image[at] != primary {
			continue
		}
		missing := int(binary.LittleEndian.Uint32(image[at+80:]))*blockSize - len(image)
		if missing < 0 || missing >= blockSize || image[at+blockSize] != supplementary {
			return nil, errForm
		}
		d := &drive{bytes: append(image, make([]byte, missing)...)}
		d.primary = d.bytes[at : at+blockSize]
		d.joliet = d.bytes[at+blockSize : at+2*blockSize]
		return d, nil
	}
	return nil, errForm
}

// finish makes the image depend on nothing but its documents and the time: not on the user who
// made it, or on that user's files. And it mends Joliet's tree: the library's records of
// folders there point into the other tree (go-diskfs 1.9.4), whose names Joliet cannot read.
func (d *drive) finish(at time.Time) error {
	at = at.UTC()
	if err := d.mendJoliet(); err != nil {
		return err
	}
	for _, descriptor := range [][]byte{d.primary, d.joliet} {
		// Created, changed, expires, effective.
		for i, text := range [][]byte{longTime(at), longTime(at), noTime, longTime(at)} {
			copy(descriptor[813+i*len(noTime):], text)
		}
		root := record(descriptor[rootAt : rootAt+rootLength])
		root.setOwner(at)
		if err := d.walk(root, 0, func(r record) { r.setOwner(at) }); err != nil {
			return err
		}
	}
	return nil
}

// walk visits each record of a folder, and of the folders in it.
func (d *drive) walk(folder record, depth int, visit func(record)) error {
	const deepest = 8
	if depth > deepest {
		return errForm
	}
	all, err := d.records(folder.block(), folder.size())
	if err != nil {
		return err
	}
	for _, r := range all {
		visit(r)
		if r.isFolder() && !r.isSelfOrParent() {
			if err := d.walk(r, depth+1, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// records are those of the folder that begins with this block.
func (d *drive) records(block, size uint32) ([]record, error) {
	at, end := int(block)*blockSize, int(block)*blockSize+int(size)
	if end > len(d.bytes) {
		return nil, errForm
	}
	var all []record
	for at < end {
		length := int(d.bytes[at])
		if length == 0 { // no record goes over the end of a block
			at += blockSize - at%blockSize
			continue
		}
		if at+length > end || !record(d.bytes[at:at+length]).valid() {
			return nil, errForm
		}
		all = append(all, record(d.bytes[at:at+length]))
		at += length
	}
	return all, nil
}

// pathEntry is a folder in a table of paths; parent is its parent's number in it, from 1.
type pathEntry struct {
	name   string
	block  uint32
	parent int
}

// paths is Joliet's table of paths, which is right.
func (d *drive) paths() ([]pathEntry, error) {
	size, at := int(binary.LittleEndian.Uint32(d.joliet[132:])), int(binary.LittleEndian.Uint32(d.joliet[140:]))*blockSize
	if at+size > len(d.bytes) {
		return nil, errForm
	}
	var all []pathEntry
	const nameAt = 8
	for rest := d.bytes[at : at+size]; len(rest) > nameAt; {
		length := int(rest[0])
		if nameAt+length+length%2 > len(rest) {
			return nil, errForm
		}
		all = append(all, pathEntry{
			name: string(rest[nameAt : nameAt+length]), block: binary.LittleEndian.Uint32(rest[2:]),
			parent: int(binary.LittleEndian.Uint16(rest[6:])),
		})
		rest = rest[nameAt+length+length%2:]
	}
	return all, nil
}

func (d *drive) mendJoliet() error {
	paths, err := d.paths()
	if err != nil {
		return err
	}
	for i, folder := range paths {
		all, err := d.folder(folder)
		if err != nil {
			return err
		}
		for _, r := range all {
			if !r.isFolder() || r.isSelfOrParent() {
				continue
			}
			child := slices.IndexFunc(paths, func(p pathEntry) bool { return p.parent == i+1 && p.name == r.name() })
			if child < 0 {
				return errForm
			}
			inside, err := d.folder(paths[child])
			if err != nil {
				return err
			}
			r.setExtent(paths[child].block, inside[0].size())
		}
	}
	return nil
}

// folder are the records of a folder; the first is its own, and has its size.
func (d *drive) folder(p pathEntry) ([]record, error) {
	const smallest = 34
	own, err := d.records(p.block, smallest)
	if err != nil || len(own) != 1 {
		return nil, errForm
	}
	return d.records(p.block, own[0].size())
}
