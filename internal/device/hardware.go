package device

import (
	"fmt"
	"strings"
)

// noGeneration ends the serial of a file whose file system gave its inode no generation.
const noGeneration = "-00000000"

// Hardware is the UUID by which the records of this hardware are found, under whatever name it
// is enrolled (SAFETY F35); "" if it reports no serial. The serial of a file is the device number
// of its file system, its inode and the inode's generation. The first changes when the file
// system is mounted again: it counts only where there is no generation.
func (i Identity) Hardware() string {
	serial := i.Serial
	if i.Inode != 0 && !strings.HasSuffix(serial, noGeneration) {
		serial = strings.Replace(serial, fmt.Sprintf("ino-%x-", i.Device), "ino-", 1)
	}
	key := SerialKey(serial)
	if key == "" {
		return ""
	}
	return nameUUID("burnish:hardware:" + key)
}
