package nvmesim

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// The ioctls of the nvme driver that are answered.
const (
	ioctlID      = 0x4e40
	ioctlAdmin   = 0xc0484e41
	ioctlReset   = 0x4e44
	ioctlSubsys  = 0x4e45
	ioctlRescan  = 0x4e46
	ioctlAdmin64 = 0xc0504e47
)

// Run runs as nvme, in the program that is the Tool of a host, and returns the exit code.
func Run(args []string) int {
	self, err := os.Executable()
	if err != nil {
		return (&emulator{err: err}).exit(1)
	}
	e := emulator{dir: filepath.Dir(self)}
	tool, err := toolOf(e.dir)
	if err != nil {
		e.err = err
		return e.exit(1)
	}
	recorder, err := newRecorder(e.dir, tool, args, os.Stdin)
	if err != nil {
		e.err = err
		return e.exit(1)
	}
	run := recorder.run
	if recorder == nil {
		run = func(tool, args []string, answer answerer) (int, error) {
			return trace(tool, args, os.Stdin, os.Stdout, os.Stderr, answer)
		}
	}
	code, err := run(tool, args, e.answer)
	e.err = errors.Join(e.err, err)
	return e.exit(code)
}

// memory is that of the process that sends a command.
type memory interface {
	read(address uint64, size int) ([]byte, error)
	write(address uint64, data []byte) error
}

// answerer gives the result of an ioctl on the file at path, whose argument is at an address, or
// false for the kernel's own.
type answerer func(p memory, path string, request uint32, argument uint64) (int64, bool)

// emulator is one run of nvme.
type emulator struct {
	dir string
	err error
	// inTest: it runs in the process of the test, which no command may end.
	inTest bool
}

// exitBroken is the exit code after an error of the emulator itself.
const exitBroken = 70

func (e *emulator) exit(code int) int {
	if e.err != nil {
		fmt.Fprintf(os.Stderr, "the NVMe emulator failed: %v\n", e.err)
		return exitBroken
	}
	return code
}

// answer returns the result of an ioctl on the file at path, or false for the kernel's own.
func (e *emulator) answer(p memory, path string, request uint32, argument uint64) (int64, bool) {
	if filepath.Dir(path) != filepath.Join(e.dir, "dev") {
		return 0, false
	}
	c := &call{Command: Command{Path: path}, process: p, address: argument}
	switch request {
	case ioctlAdmin, ioctlAdmin64:
		if err := c.decode(request); err != nil {
			return -int64(unix.EFAULT), true
		}
	case ioctlReset:
		c.Opcode = Reset
	case ioctlSubsys:
		c.Opcode = SubsystemReset
	case ioctlRescan:
		c.Opcode = Rescan
	case ioctlID:
		c.Opcode = namespaceNumber
	default:
		return 0, false
	}
	then := &Injection{}
	err := withState(e.dir, func(w *state) error {
		s, nsid := w.find(filepath.Base(path))
		if s == nil {
			c.Errno = int(unix.ENODEV)
			return w.appendLog(c.Command)
		}
		c.Serial = s.Controller.Serial
		if c.Opcode == namespaceNumber {
			// Only a namespace has a number.
			if c.returnValue = int64(nsid); nsid == 0 {
				c.Errno = int(unix.ENOTTY)
			}
			return nil
		}
		if one := s.injectionFor(c); one != nil {
			then = one
		}
		err := w.execute(s, c, *then)
		if then.Model != "" {
			s.Controller.Model = then.Model
		}
		if then.Resets {
			s.reset(ByReset)
		}
		if then.RenumberTo != "" {
			err = errors.Join(err, w.renumber(s, then.RenumberTo))
		}
		if then.SwapTo != "" {
			err = errors.Join(err, w.swap(s, slices.Index(w.Slots, s), then.SwapTo))
		}
		return errors.Join(err, w.appendLog(c.Command))
	})
	if err != nil {
		e.err = errors.Join(e.err, err)
		return -int64(unix.EIO), true
	}
	switch {
	case then.neverAnswers() && e.inTest:
		e.err = errors.New("a command that was under way is to be killed or to hang")
		return -int64(unix.EIO), true
	case then.Kill:
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case then.Hang:
		for {
			_ = unix.Pause()
		}
	case c.Errno != 0:
		return -int64(c.Errno), true
	case c.returnValue != 0:
		return c.returnValue, true
	}
	return int64(c.Status), true
}

// namespaceNumber stands for NVME_IOCTL_ID, which returns a namespace's number.
const namespaceNumber uint8 = 0xff

// injectionFor is the injection that applies to the command, or nil.
func (s *slot) injectionFor(c *call) *Injection {
	all := s.Controller.Inject
	for i := range all {
		one := &all[i]
		if one.Opcode != c.Opcode || c.CDW[0]&one.Mask != one.CDW10&one.Mask {
			continue
		}
		if one.Skip > 0 {
			one.Skip--
			continue
		}
		applied := *one
		if one.Times == 1 {
			s.Controller.Inject = slices.Delete(slices.Clone(all), i, i+1)
		} else if one.Times > 1 {
			one.Times--
		}
		return &applied
	}
	return nil
}

// changesNothing reports whether the command runs and ends as without the injection.
func (i Injection) changesNothing() bool {
	return i.Status == Success && i.Errno == 0 && !i.Kill && !i.Hang && !i.NoEffect
}

// neverAnswers reports whether the command does not come back.
func (i Injection) neverAnswers() bool { return i.Kill || i.Hang }

// execute runs the command as changed by the injection.
func (w *state) execute(s *slot, c *call, instead Injection) error {
	if instead.changesNothing() || instead.AfterEffect {
		if err := w.dispatch(s, c); err != nil {
			return err
		}
	}
	if !instead.changesNothing() {
		c.Status, c.Errno = instead.Status, instead.Errno
	}
	return nil
}

// call is a command in the memory of the nvme process.
type call struct {
	Command
	process  memory
	address  uint64
	result64 bool
	// address and length are those of its data.
	dataAddress uint64
	dataLength  int
	returnValue int64
}

// maxData is the most data of one command.
const maxData = 4 << 20

// decode reads struct nvme_passthru_cmd, or the one with a result of 64 bits.
func (c *call) decode(request uint32) error {
	raw, err := c.process.read(c.address, int(request>>16&0x3fff))
	if err != nil {
		return err
	}
	little := binary.LittleEndian
	c.result64 = request == ioctlAdmin64
	c.Opcode = raw[0]
	c.NSID = little.Uint32(raw[4:])
	c.dataAddress, c.dataLength = little.Uint64(raw[24:]), int(little.Uint32(raw[36:]))
	for i := range c.CDW {
		c.CDW[i] = little.Uint32(raw[40+4*i:])
	}
	if c.dataLength > maxData {
		return unix.EINVAL
	}
	return nil
}

// refuse ends the command with a status.
func (c *call) refuse(status Status) error {
	c.Status = status
	return nil
}

// readData reads the data buffer.
func (c *call) readData() ([]byte, error) { return c.process.read(c.dataAddress, c.dataLength) }

// writeData fills the data buffer, up to its end with zeros.
func (c *call) writeData(data []byte) error {
	whole := make([]byte, c.dataLength)
	copy(whole, data)
	return c.process.write(c.dataAddress, whole)
}

// setResult writes dword 0 of the completion.
func (c *call) setResult(value uint32) error {
	raw := binary.LittleEndian.AppendUint64(nil, uint64(value))
	if c.result64 {
		return c.process.write(c.address+72, raw)
	}
	return c.process.write(c.address+68, raw[:4])
}
