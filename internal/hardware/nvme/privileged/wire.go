package privileged

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"burnish/internal/device"
	"burnish/internal/hardware/nvme/nvmecli"
)

// The calls that a helper answers.
const (
	doVersion = "version"
	doOpen    = "open"
	doLock    = "lock"
	doRead    = "read"
	doChange  = "change"
	doRebind  = "rebind"
)

// call is one packet to the helper. It carries the descriptors of the fence, if Fence is
// set, of the image, if Image is set, and then of the disks.
type call struct {
	Do      string   `json:"do"`
	Address string   `json:"address,omitempty"`
	Serial  string   `json:"serial,omitempty"`
	Fence   bool     `json:"fence,omitempty"`
	Image   bool     `json:"image,omitempty"`
	Request *Request `json:"request,omitempty"`
}

// answer is the reply packet.
type answer struct {
	Path    *DevicePath   `json:"path,omitempty"`
	Output  []byte        `json:"output,omitempty"`
	Fault   *device.Fault `json:"fault,omitempty"`
	Failure *Failure      `json:"failure,omitempty"`
	Error   string        `json:"error,omitempty"`
}

const (
	// maxPacket is the size of the largest packet: one with a whole output in it.
	maxPacket = 2 * nvmecli.MaxOutput
	// maxDescriptors is how many descriptors the kernel passes at once.
	maxDescriptors = 253
)

// errorAnswer turns an error into an answer.
func errorAnswer(err error) answer {
	var failure *Failure
	if fault, ok := device.AsFault(err); ok {
		return answer{Fault: fault}
	}
	if errors.As(err, &failure) {
		return answer{Failure: failure}
	}
	return answer{Error: err.Error()}
}

// err turns an answer back into an error.
func (a answer) err() error {
	switch {
	case a.Fault != nil:
		return a.Fault
	case a.Failure != nil:
		return a.Failure
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}

// send writes one packet with descriptors.
func send(conn *net.UnixConn, value any, fds []int) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if len(text) > maxPacket || len(fds) > maxDescriptors {
		return fmt.Errorf("a message of %d bytes and %d descriptors is too large", len(text), len(fds))
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err = conn.WriteMsgUnix(text, oob, nil)
	return err
}

// receive reads one packet, which must contain exactly one JSON value without unknown
// fields. It returns the packet's descriptors even with an error, and the caller closes
// them. The error is io.EOF if the other end is gone.
func receive(conn *net.UnixConn, into any) ([]*os.File, error) {
	text, oob := make([]byte, maxPacket+1), make([]byte, unix.CmsgSpace(maxDescriptors*4))
	n, extra, flags, _, err := conn.ReadMsgUnix(text, oob)
	files, parsed := descriptors(oob[:extra])
	switch {
	case err != nil:
		return files, err
	case n == 0:
		return files, io.EOF
	case parsed != nil:
		return files, fmt.Errorf("descriptors: %w", parsed)
	case flags&(unix.MSG_CTRUNC|unix.MSG_TRUNC) != 0 || n > maxPacket:
		return files, invalidRequest("a message is too large")
	}
	decoder := json.NewDecoder(bytes.NewReader(text[:n]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return files, invalidRequest("a message cannot be decoded: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return files, invalidRequest("a message has more than one value")
	}
	return files, nil
}

func descriptors(oob []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for _, m := range messages {
		fds, bad := unix.ParseUnixRights(&m)
		err = errors.Join(err, bad)
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "passed"))
		}
	}
	return files, err
}

// closeAll closes the received descriptors.
func closeAll(files []*os.File) (err error) {
	for _, file := range files {
		err = errors.Join(err, file.Close())
	}
	return err
}

// connection turns the socket fd into a connection, and takes it over.
func connection(fd int) (_ *net.UnixConn, err error) {
	file := os.NewFile(uintptr(fd), "helper")
	if file == nil {
		return nil, os.ErrInvalid
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	both, ok := conn.(*net.UnixConn)
	if !ok || both.LocalAddr().Network() != "unixpacket" {
		return nil, errors.Join(errors.New("not a socket of packets"), conn.Close())
	}
	return both, nil
}
