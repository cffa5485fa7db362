package configdrive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"burnish/internal/atomicfile"
)

// Write puts an image into a file with mode 0600: a new one, or the whole of an old one. After
// an error the old file is as it was. What is not a plain file is not replaced: a link or a
// device is rarely meant.
func Write(path string, image []byte) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s exists and is not a plain file", path)
	}
	return atomicfile.Write(path, image)
}
