package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"burnish/internal/atomicfile"
	"burnish/internal/device"
)

// CorruptError says that a file of the state directory is truncated, changed, or another
// device's. Nothing in it is used.
type CorruptError struct {
	Name   string // the device's, as far as the file's name shows it
	Path   string
	Reason string
}

// Error is one line.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s cannot be trusted: %s", e.Path, e.Reason)
}

// envelope is the form of every durable file. A disk that returns other bytes than
// were written mostly returns valid JSON with another digit in it: hence the sum.
type envelope struct {
	Name string          `json:"name"`
	Sum  string          `json:"sha256"` // of data, byte for byte
	Data json.RawMessage `json:"data"`
}

const extension = ".json"

// save makes value the content of the file of name in folder: on stable storage when
// it returns nil, and whole or not at all otherwise. After an error the file is the
// one before, or, if only the folder could not be flushed, already the new one.
func save(folder, name string, value any) error {
	file, err := fileName(name)
	if err != nil {
		return err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	sum := sha256.Sum256(data)
	whole, err := json.Marshal(envelope{Name: name, Sum: hex.EncodeToString(sum[:]), Data: data})
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	path := filepath.Join(folder, file+extension)
	if err := atomicfile.Write(path, append(whole, '\n')); err != nil {
		return stateDirFault(fmt.Sprintf("could not save %s: %v", path, err), folder)
	}
	return nil
}

// loaded is one durable file that was read: its value, or why there is none.
type loaded[T any] struct {
	name  string // where err is set: as far as the file's name shows it
	value T
	err   error
}

// load reads what save wrote for name. It finds nothing where there is no file; a
// file that save did not write whole for this name is a *CorruptError; one that
// cannot be read is a fault state_dir_error. Without found the value is zero.
func load[T any](folder, name string) (value T, found bool, err error) {
	base, err := fileName(name)
	if err != nil {
		return value, false, err
	}
	file, found := loadFile[T](folder, base)
	return file.value, found && file.err == nil, file.err
}

// loadAll reads every file in folder, in the order of the files' names.
func loadAll[T any](folder string) ([]loaded[T], error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, stateDirFault(fmt.Sprintf("could not list %s: %v", folder, err), folder)
	}
	var all []loaded[T]
	for _, entry := range entries {
		base, ok := strings.CutSuffix(entry.Name(), extension)
		if !ok || strings.HasPrefix(base, ".") {
			continue
		}
		if file, found := loadFile[T](folder, base); found {
			all = append(all, file)
		}
	}
	return all, nil
}

// loadFile reads the file base; found only says that there is one.
func loadFile[T any](folder, base string) (file loaded[T], found bool) {
	path := filepath.Join(folder, base+extension)
	file.name = base
	if name, err := url.PathUnescape(base); err == nil {
		file.name = name
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return file, false
	}
	if err != nil {
		file.err = stateDirFault(fmt.Sprintf("could not read %s: %v", path, err), folder)
		return file, true
	}
	name, value, reason := unseal[T](content, base)
	if reason != "" {
		file.err = &CorruptError{Name: file.name, Path: path, Reason: reason}
		return file, true
	}
	file.name, file.value = name, value
	return file, true
}

// unseal checks an envelope and decodes what is in it; the reason says why it did not.
func unseal[T any](content []byte, base string) (name string, value T, reason string) {
	var e envelope
	if err := json.Unmarshal(content, &e); err != nil {
		return "", value, fmt.Sprintf("%d bytes that are not one JSON object: %v", len(content), err)
	}
	if sum := sha256.Sum256(e.Data); e.Sum != hex.EncodeToString(sum[:]) {
		return "", value, "its content was changed since it was written"
	}
	if file, err := fileName(e.Name); err != nil || file != base {
		return "", value, fmt.Sprintf("it was written for %q", e.Name)
	}
	var whole T
	if err := json.Unmarshal(e.Data, &whole); err != nil {
		// value, not whole: a decoding that fails may have set some of the fields.
		return "", value, fmt.Sprintf("its content is of another form: %v", err)
	}
	return e.Name, whole, ""
}

// longestName leaves room for the extension within the 255 bytes of a file name.
const longestName = 200

// fileName makes any name a safe and distinct file name: letters, digits and
// - _ : @ + . stay, except a leading dot; other bytes become %XX. A result that is too
// long is cut and ends in %~ and a hash; no escape contains %~.
func fileName(name string) (string, error) {
	if name == "" {
		return "", errors.New("the name of a device is empty")
	}
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9',
			strings.IndexByte("-_:@+", c) >= 0, c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	escaped := b.String()
	if len(escaped) <= longestName {
		return escaped, nil
	}
	sum := sha256.Sum256([]byte(name))
	return escaped[:longestName/2] + "%~" + hex.EncodeToString(sum[:]), nil
}

// stateDirFault is transient: nothing is lost until space is freed or a disk is mounted
// again.
func stateDirFault(message, folder string) *device.Fault {
	return &device.Fault{
		Class: device.Transient, Code: device.CodeStateDirError, Message: message,
		Remedy: "free space or repair the file system below " + folder + "; the step is retried",
	}
}
