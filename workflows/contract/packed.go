package contract

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// packedLength is that of most packed texts, uuidLength that of a UUID as text, in bytes.
const (
	packedLength = 64
	uuidLength   = 36
)

// packText appends a text to a packed list: a UUID at its end takes 16 bytes of its 36. Each idle
// device of a worker has about 80 of them in memory.
func packText(to []byte, text string) []byte {
	begin := len(text) - uuidLength
	if begin >= 0 {
		// A UUID that is not in lower case would be read as another text.
		if id, err := uuid.Parse(text[begin:]); err == nil && strings.ToLower(text[begin:]) == text[begin:] {
			to = binary.AppendUvarint(to, uint64(begin)<<1|1)
			return append(append(to, text[:begin]...), id[:]...)
		}
	}
	to = binary.AppendUvarint(to, uint64(len(text))<<1)
	return append(to, text...)
}

// unpacker reads a packed list from its beginning. All texts that it gives share one backing.
type unpacker struct {
	packed []byte
	texts  strings.Builder
}

// grow makes room for all texts of the list.
func (u *unpacker) grow() { u.texts.Grow(len(u.packed) * uuidLength / len(uuid.Nil)) }

// more says that the list has another entry.
func (u *unpacker) more() bool { return len(u.packed) > 0 }

// take reads so many bytes; fewer at the end of the list.
func (u *unpacker) take(n uint64) []byte {
	n = min(n, uint64(len(u.packed)))
	taken := u.packed[:n]
	u.packed = u.packed[n:]
	return taken
}

// entries are those of the list one by one, each of which skip reads.
func (u *unpacker) entries(most int, skip func(*unpacker)) [][]byte {
	all := make([][]byte, 0, most)
	for u.more() {
		begin := u.packed
		skip(u)
		all = append(all, begin[:len(begin)-len(u.packed)])
	}
	return all
}

func (u *unpacker) flags() byte {
	b := u.take(1)
	if len(b) == 0 {
		return 0
	}
	return b[0]
}

func (u *unpacker) number() int {
	number, n := binary.Varint(u.packed)
	u.take(uint64(max(n, 1)))
	return int(number)
}

// textParts reads what packText wrote: a text, and the UUID behind it, or none.
func (u *unpacker) textParts() (text, id []byte) {
	header, n := binary.Uvarint(u.packed)
	u.take(uint64(max(n, 1)))
	text = u.take(header >> 1)
	if header&1 == 1 {
		id = u.take(uint64(len(uuid.Nil)))
	}
	return text, id
}

func (u *unpacker) text() string {
	begin := u.texts.Len()
	text, id := u.textParts()
	u.texts.Write(text)
	if len(id) == len(uuid.Nil) {
		var form [uuidLength]byte
		for at, part := 0, 0; part < len(uuidParts); part++ {
			end := at + uuidParts[part]
			hex.Encode(form[2*at+part:], id[at:end])
			if at = end; at < len(id) {
				form[2*at+part] = '-'
			}
		}
		u.texts.Write(form[:])
	}
	return u.texts.String()[begin:]
}

// uuidParts are the parts of a UUID's text, in bytes of the UUID.
var uuidParts = [...]int{4, 2, 2, 2, 6}
