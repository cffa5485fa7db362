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

// variable names the site in the environment of a test binary that is to be nvme.
const variable = "BURNISH_NVME_EMULATOR"

// The calls of the nvme driver that are answered.
const (
	ioctlID             = 0x4e40
	ioctlAdmin          = 0xc0484e41
	ioctlReset          = 0x4e44
	ioctlSubsystemReset = 0x4e45
	ioctlRescan         = 0x4e46
	ioctlAdmin64        = 0xc0504e47
)

// Main is what TestMain calls: it runs the tests, or, where Site.Tool began this
// process, it is nvme. It gives the code to exit with.
func Main(m interface{ Run() int }) int {
	if code, ok := RunIfEmulated(); ok {
		return code
	}
	code := m.Run()
	if built != "" {
		_ = os.Remove(built) // a file in the folder for temporary ones
	}
	return code
}

// RunIfEmulated is for a TestMain that does more: false where this process is to run
// tests; else it was nvme, and is to exit with the code.
func RunIfEmulated() (code int, emulated bool) {
	dir, ok := os.LookupEnv(variable)
	if !ok {
		return 0, false
	}
	e := emulator{dir: dir}
	if err := os.Unsetenv(variable); err != nil {
		e.err = err
		return e.exit(1)
	}
	code, err := trace(os.Args[1:], e.answer)
	e.err = errors.Join(e.err, err)
	return e.exit(code)
}

// emulator is the life of one nvme.
type emulator struct {
	dir string
	err error
}

// broken is the exit code of an emulator that could not do its work.
const broken = 70

func (e *emulator) exit(code int) (int, bool) {
	if e.err != nil {
		fmt.Fprintf(os.Stderr, "the NVMe emulator failed: %v\n", e.err)
		return broken, true
	}
	return code, true
}

// answer is what an ioctl on the file at path gives; false: the kernel is to be asked.
func (e *emulator) answer(p tracee, path string, request uint32, argument uint64) (int64, bool) {
	if filepath.Dir(path) != filepath.Join(e.dir, "dev") {
		return 0, false
	}
	c := &call{Command: Command{Path: path}, process: p, at: argument}
	switch request {
	case ioctlAdmin, ioctlAdmin64:
		if err := c.decode(request); err != nil {
			return -int64(unix.EFAULT), true
		}
	case ioctlReset:
		c.Opcode = Reset
	case ioctlSubsystemReset:
		c.Opcode = SubsystemReset
	case ioctlRescan:
		c.Opcode = Rescan
	case ioctlID:
		c.Opcode = identity
	default:
		return 0, false
	}
	then := &Injection{}
	err := locked(e.dir, func(w *world) error {
		s, nsid := w.at(filepath.Base(path))
		if s == nil {
			c.Errno = int(unix.ENODEV)
			return w.note(c.Command)
		}
		c.Serial = s.Controller.Serial
		if c.Opcode == identity {
			// Only a namespace has a number.
			if c.value = int64(nsid); nsid == 0 {
				c.Errno = int(unix.ENOTTY)
			}
			return nil
		}
		if one := s.injected(c); one != nil {
			then = one
		}
		err := w.carryOut(s, c, *then)
		if then.SwapTo != "" {
			err = errors.Join(err, w.swap(s, slices.Index(w.Slots, s), then.SwapTo))
		}
		return errors.Join(err, w.note(c.Command))
	})
	if err != nil {
		e.err = errors.Join(e.err, err)
		return -int64(unix.EIO), true
	}
	switch {
	case then.Kill:
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	case then.Hang:
		for {
			_ = unix.Pause()
		}
	case c.Errno != 0:
		return -int64(c.Errno), true
	case c.value != 0:
		return c.value, true
	}
	return int64(c.Status), true
}

// identity stands for the call that asks for a namespace's number.
const identity uint8 = 0xff

// injected gives what is to happen to the command, nil where nothing is.
func (s *slot) injected(c *call) *Injection {
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
		met := *one
		if one.Times == 1 {
			s.Controller.Inject = slices.Delete(slices.Clone(all), i, i+1)
		} else if one.Times > 1 {
			one.Times--
		}
		return &met
	}
	return nil
}

// plain says that the injection leaves the command as it is.
func (i Injection) plain() bool {
	return i.Status == Success && i.Errno == 0 && !i.Kill && !i.Hang && !i.Lie
}

// carryOut does what the command says, or what the injection makes of it.
func (w *world) carryOut(s *slot, c *call, instead Injection) error {
	if instead.plain() || instead.AfterEffect {
		if err := w.do(s, c); err != nil {
			return err
		}
	}
	if !instead.plain() {
		c.Status, c.Errno = instead.Status, instead.Errno
	}
	return nil
}

// call is a command in the memory of nvme.
type call struct {
	Command
	process tracee
	at      uint64
	wide    bool
	// address and length are those of its data.
	address uint64
	length  int
	value   int64
}

// most is how much data one command may carry.
const most = 4 << 20

// decode reads struct nvme_passthru_cmd, or the one with a result of 64 bits.
func (c *call) decode(request uint32) error {
	raw, err := c.process.read(c.at, int(request>>16&0x3fff))
	if err != nil {
		return err
	}
	little := binary.LittleEndian
	c.wide = request == ioctlAdmin64
	c.Opcode = raw[0]
	c.NSID = little.Uint32(raw[4:])
	c.address, c.length = little.Uint64(raw[24:]), int(little.Uint32(raw[36:]))
	for i := range c.CDW {
		c.CDW[i] = little.Uint32(raw[40+4*i:])
	}
	if c.length > most {
		return unix.EINVAL
	}
	return nil
}

// take reads the data that the command brings.
func (c *call) take() ([]byte, error) { return c.process.read(c.address, c.length) }

// give fills the data that the command asks for; what is left of it is zeros.
func (c *call) give(data []byte) error {
	whole := make([]byte, c.length)
	copy(whole, data)
	return c.process.write(c.address, whole)
}

// result writes dword 0 of the completion.
func (c *call) result(value uint32) error {
	raw := binary.LittleEndian.AppendUint64(nil, uint64(value))
	if c.wide {
		return c.process.write(c.at+72, raw)
	}
	return c.process.write(c.at+68, raw[:4])
}
