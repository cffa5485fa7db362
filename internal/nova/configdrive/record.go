package configdrive

import (
	"encoding/binary"
	"time"
)

// record is an entry of a folder (ECMA-119, 9.1), in the image.
type record []byte

// nameAt is where a record's name begins.
const nameAt = 33

func (r record) block() uint32  { return binary.LittleEndian.Uint32(r[2:]) }
func (r record) size() uint32   { return binary.LittleEndian.Uint32(r[10:]) }
func (r record) isFolder() bool { return r[25]&2 != 0 }
func (r record) name() string   { return string(r[nameAt : nameAt+int(r[32])]) }

// isSelfOrParent is true for the first two records of a folder.
func (r record) isSelfOrParent() bool { return r.name() == "\x00" || r.name() == "\x01" }

// valid reports whether all parts of the record are in it.
func (r record) valid() bool { return len(r) > nameAt && nameAt+int(r[32]) <= len(r) }

func (r record) setExtent(block, size uint32) {
	putBoth(r[2:], block)
	putBoth(r[10:], size)
}

// setOwner makes a record root's, readable for everyone, and gives it this time.
func (r record) setOwner(at time.Time) {
	copy(r[18:], shortTime(at))
	behind := nameAt + int(r[32])
	behind += behind % 2 // a record's parts begin at even places
	if behind >= len(r) {
		return
	}
	mode, links := uint32(0o100444), uint32(1)
	if r.isFolder() {
		mode, links = 0o040555, 2
	}
	// What Rock Ridge adds: each a signature, its length and version.
	for use := r[behind:]; len(use) >= 4 && use[2] >= 4 && int(use[2]) <= len(use); use = use[use[2]:] {
		switch length := int(use[2]); {
		case string(use[:2]) == "PX" && length >= 36:
			putBoth(use[4:], mode)
			putBoth(use[12:], links)
			putBoth(use[20:], 0)
			putBoth(use[28:], 0)
		case string(use[:2]) == "TF":
			for i := 5; i+7 <= length; i += 7 {
				copy(use[i:], shortTime(at))
			}
		}
	}
}

// putBoth writes a number in both orders of its bytes.
func putBoth(b []byte, n uint32) {
	binary.LittleEndian.PutUint32(b, n)
	binary.BigEndian.PutUint32(b[4:], n)
}

// shortTime is a time as records have it, longTime as descriptors have it; at is in UTC.
func shortTime(at time.Time) []byte {
	return []byte{byte(at.Year() - 1900), byte(at.Month()), byte(at.Day()), byte(at.Hour()), byte(at.Minute()),
		byte(at.Second()), 0}
}

func longTime(at time.Time) []byte { return append([]byte(at.Format("20060102150405")+"00"), 0) }

// noTime is what a descriptor has where no time is given.
var noTime = append([]byte("0000000000000000"), 0)
