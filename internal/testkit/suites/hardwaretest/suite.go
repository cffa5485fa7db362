package hardwaretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// MiB is 1,048,576 bytes.
const MiB = 1 << 20

// nonce is in the stamps of the suite.
const nonce = 0x5eed

// defaultSizes end on a block, on a sector, on a byte, and just past one write.
var defaultSizes = []int64{
	hardware.Align,
	9 * MiB,
	hardware.ZeroesLen + 512,
	2*hardware.ZeroesLen + hardware.Align + 777,
	511,
}

// Run checks that a driver does what package hardware promises.
func Run(t *testing.T, fixture Fixture) {
	if fixture.Sizes == nil {
		fixture.Sizes = defaultSizes
	}
	if fixture.Write == 0 {
		fixture.Write = hardware.ZeroesLen
	}
	s := suite{fixture}
	t.Run("settings", s.settings)
	t.Run("discovery_changes_nothing_and_repeats", s.discovery) // F11
	t.Run("another_identity_is_refused", s.otherIdentity)       // F11
	t.Run("one_holder_at_a_time", s.oneHolder)                  // F1
	t.Run("read_only_handle_never_writes", s.readOnly)
	t.Run("cancel_stops_between_two_writes", s.cancel)
	t.Run("lease_is_asked_before_each_write", s.lease) // F32
	t.Run("closed_handle_does_nothing", s.closed)
	for _, size := range fixture.Sizes {
		t.Run(fmt.Sprintf("size_%d", size), func(t *testing.T) {
			t.Run("whole_device_and_nothing_past_it", func(t *testing.T) { s.whole(t, size) }) // F14
			t.Run("exactly_the_range", func(t *testing.T) { s.ranges(t, size) })               // F14
			t.Run("ranges_outside_are_refused", func(t *testing.T) { s.outside(t, size) })
			t.Run("reads_every_byte", func(t *testing.T) { s.reads(t, size) }) // F19
		})
	}
}

// suite is one run over one fixture.
type suite struct{ Fixture }

// enrolled makes a device, discovers it and stamps it as a tenant would.
func (s suite) enrolled(t *testing.T, size int64) (Device, device.Identity) {
	t.Helper()
	dev := s.New(t, size)
	found, err := s.Driver.Discover(t.Context(), dev.Target, device.Identity{})
	require.NoError(t, err)
	require.Equal(t, size, found.Identity.Size)
	require.NotEmpty(t, found.Identity.Serial, "locks and records are named by it")
	require.NoError(t, Stamp(dev.Backdoor, size, nonce))
	return dev, found.Identity
}

// open opens the device and closes it with the test.
func (s suite) open(t *testing.T, dev Device, identity device.Identity, writable bool) hardware.Handle {
	t.Helper()
	handle, err := s.Driver.Open(t.Context(), dev.Target, identity, writable)
	require.NoError(t, err)
	closed := false
	t.Cleanup(func() {
		if !closed {
			require.NoError(t, handle.Close())
		}
	})
	require.Equal(t, identity.Size, handle.Size())
	require.NotEmpty(t, handle.Method())
	return closeOnce{handle, &closed}
}

// closeOnce lets a test close a handle before its cleanup does.
type closeOnce struct {
	hardware.Handle
	closed *bool
}

func (c closeOnce) Close() error {
	*c.closed = true
	return c.Handle.Close()
}

// blocks is how many blocks, the last maybe cut short, lie in n bytes.
func blocks(n int64) int { return int((n + Block - 1) / Block) }

func (s suite) settings(t *testing.T) {
	dev := s.New(t, s.Sizes[0])
	settings := map[string]string{"color": "green"}
	for key, value := range dev.Target.Settings {
		settings[key] = value
	}
	dev.Target.Settings = settings
	_, err := s.Driver.Discover(t.Context(), dev.Target, device.Identity{})
	require.Contains(t, RequireFault(t, err, device.CodeInvalidSetting).Message, "color")
	require.NotEmpty(t, s.Driver.Name())
}

func (s suite) discovery(t *testing.T) {
	dev, identity := s.enrolled(t, s.Sizes[0])
	before := Sum(t, dev.Backdoor)
	again, err := s.Driver.Discover(t.Context(), dev.Target, identity)
	require.NoError(t, err)
	require.Equal(t, identity, again.Identity)
	require.Equal(t, before, Sum(t, dev.Backdoor))

	// While a step holds the device, others may still discover it.
	handle := s.open(t, dev, identity, true)
	again, err = s.Driver.Discover(t.Context(), dev.Target, identity)
	require.NoError(t, err)
	require.Equal(t, identity, again.Identity)
	require.NoError(t, handle.Check(t.Context()))
}

func (s suite) otherIdentity(t *testing.T) {
	dev, identity := s.enrolled(t, s.Sizes[0])
	before := Sum(t, dev.Backdoor)
	for name, change := range map[string]func(*device.Identity){
		"serial": func(i *device.Identity) { i.Serial += "0" },
		"vendor": func(i *device.Identity) { i.Vendor += "0" },
		"model":  func(i *device.Identity) { i.Model += "0" },
		"size":   func(i *device.Identity) { i.Size += hardware.Align },
	} {
		t.Run(name, func(t *testing.T) {
			other := identity
			change(&other)
			for _, writable := range []bool{true, false} {
				handle, err := s.Driver.Open(t.Context(), dev.Target, other, writable)
				require.Contains(t, RequireFault(t, err, device.MismatchCode(name)).Message, name)
				require.Nil(t, handle)
			}
			_, err := s.Driver.Discover(t.Context(), dev.Target, other)
			require.Contains(t, RequireFault(t, err, device.MismatchCode(name)).Message, name)
		})
	}
	t.Run("no identity", func(t *testing.T) {
		handle, err := s.Driver.Open(t.Context(), dev.Target, device.Identity{}, true)
		require.Equal(t, device.NeedsOperator, RequireFault(t, err, device.CodeIdentityChanged).Class)
		require.Nil(t, handle)
	})
	require.Equal(t, before, Sum(t, dev.Backdoor))
	s.open(t, dev, identity, true) // no refusal keeps the device open
}

func (s suite) oneHolder(t *testing.T) {
	dev, identity := s.enrolled(t, s.Sizes[0])
	before := Sum(t, dev.Backdoor)
	for _, first := range []bool{true, false} {
		handle := s.open(t, dev, identity, first)
		for _, second := range []bool{true, false} {
			other, err := s.Driver.Open(t.Context(), dev.Target, identity, second)
			require.Equal(t, device.Transient, RequireFault(t, err, device.CodeTargetBusy).Class)
			require.Nil(t, other)
		}
		require.NoError(t, handle.Check(t.Context()), "the refused call changed nothing")
		require.NoError(t, handle.Close())
	}
	require.Equal(t, before, Sum(t, dev.Backdoor))
	s.open(t, dev, identity, true) // free again
}

func (s suite) readOnly(t *testing.T) {
	dev, identity := s.enrolled(t, s.Sizes[0])
	before := Sum(t, dev.Backdoor)
	handle := s.open(t, dev, identity, false)
	require.Equal(t, device.Permanent, RequireFault(t, handle.ZeroAt(t.Context(), 0, identity.Size), device.CodeInternal).
		Class)
	require.NoError(t, handle.Check(t.Context()))
	require.NoError(t, handle.Close())
	require.Equal(t, before, Sum(t, dev.Backdoor))
}

func (s suite) cancel(t *testing.T) {
	size := 3 * s.Write
	dev, identity := s.enrolled(t, size)
	before := Sum(t, dev.Backdoor)
	handle := s.open(t, dev, identity, true)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, handle.ZeroAt(ended, 0, size), context.Canceled)
	require.Equal(t, before, Sum(t, dev.Backdoor), "nothing is written once the context has ended")

	stopped := false
	for asks := int64(1); asks < 64 && !stopped; asks++ {
		require.NoError(t, Stamp(dev.Backdoor, size, nonce))
		err := handle.ZeroAt(newCountdown(t.Context(), asks), 0, size)
		require.NoError(t, handle.Flush(t.Context()))
		stamped, zero, other, countErr := Count(dev.Backdoor, size, nonce)
		require.NoError(t, countErr)
		require.Zero(t, other, "never within a block")
		if zero == 0 {
			require.ErrorIs(t, err, context.Canceled)
			continue
		}
		require.ErrorIs(t, err, context.Canceled)
		require.NotZero(t, stamped, "it wrote after its context had ended")
		require.Zero(t, zero%(hardware.Align/Block), "it stops between two writes")
		// The zero blocks are the first ones: a journal may resume there.
		_, begun, _, countErr := Count(dev.Backdoor, int64(zero)*Block, nonce)
		require.NoError(t, countErr)
		require.Equal(t, zero, begun)
		stopped = true
	}
	require.True(t, stopped, "it never checks its context between two writes")

	require.NoError(t, handle.ZeroAt(t.Context(), 0, size), "the next attempt continues")
	require.NoError(t, handle.Flush(t.Context()))
	RequireCount(t, dev.Backdoor, nonce, 0, blocks(size), 0)
}

// lease: the right to write is asked for before each write, and nothing is written after it
// has ended.
func (s suite) lease(t *testing.T) {
	size := 3 * s.Write
	dev, identity := s.enrolled(t, size)
	handle := s.open(t, dev, identity, true)
	ended := errors.New("the lease has ended")
	for allowed := range int64(3) {
		require.NoError(t, Stamp(dev.Backdoor, size, nonce))
		asked := int64(0)
		err := handle.ZeroAt(hardware.WithLease(t.Context(), func(context.Context) error {
			if asked++; asked > allowed {
				return ended
			}
			return nil
		}), 0, size)
		require.ErrorIs(t, err, ended)
		require.NoError(t, handle.Flush(t.Context()))
		_, zero, other, err := Count(dev.Backdoor, size, nonce)
		require.NoError(t, err)
		require.Zero(t, other)
		require.Equal(t, allowed+1, asked, "it went on after it was refused")
		require.EqualValues(t, allowed*s.Write/Block, zero, "%d writes were allowed", allowed)
	}
}

func (s suite) closed(t *testing.T) {
	dev, identity := s.enrolled(t, s.Sizes[0])
	before := Sum(t, dev.Backdoor)
	handle := s.open(t, dev, identity, true)
	require.NoError(t, handle.Close())
	require.Error(t, handle.ZeroAt(t.Context(), 0, identity.Size))
	_, err := handle.ReadAt(make([]byte, 1), 0)
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
	require.Error(t, handle.Flush(t.Context()))
	require.Error(t, handle.Check(t.Context()))
	require.Equal(t, before, Sum(t, dev.Backdoor))
}

func (s suite) whole(t *testing.T, size int64) {
	dev, identity := s.enrolled(t, size)
	handle := s.open(t, dev, identity, true)
	require.NoError(t, handle.Check(t.Context()))
	require.NoError(t, handle.ZeroAt(t.Context(), 0, size))
	require.NoError(t, handle.Flush(t.Context()))
	require.NoError(t, handle.Check(t.Context()))
	RequireCount(t, dev.Backdoor, nonce, 0, blocks(size), 0)
	now, err := dev.Backdoor.Size()
	require.NoError(t, err)
	require.Equal(t, size, now, "a padded write grows a file")

	// Through the driver it is zero too, now and after it was opened again.
	requireZero(t, handle, size)
	require.NoError(t, handle.Close())
	requireZero(t, s.open(t, dev, identity, false), size)
}

func requireZero(t *testing.T, handle hardware.Handle, size int64) {
	t.Helper()
	_, zero, _, err := Count(handle, size, nonce)
	require.NoError(t, err)
	require.Equal(t, blocks(size), zero)
}

func (s suite) ranges(t *testing.T, size int64) {
	const step = hardware.Align
	last := (size - 1) / step * step // where the block that holds the last byte begins
	for _, r := range [][2]int64{
		{0, min(step, size)},
		{last, size - last},
		{0, last},
		{step, last - step},
		{step, size - step},
		{2 * step, step},
		{last - step, step},
		{size / 2 / step * step, 3 * step},
	} {
		offset, n := r[0], r[1]
		if offset < 0 || n <= 0 || offset+n > size {
			continue
		}
		t.Run(fmt.Sprintf("%d_at_%d", n, offset), func(t *testing.T) {
			dev, identity := s.enrolled(t, size)
			handle := s.open(t, dev, identity, true)
			require.NoError(t, handle.ZeroAt(t.Context(), offset, n))
			require.NoError(t, handle.Flush(t.Context()))
			RequireCount(t, dev.Backdoor, nonce, blocks(size)-blocks(n), blocks(n), 0)
			for at, want := range map[int64]bool{offset - 1: false, offset: true, offset + n - 1: true, offset + n: false} {
				if at < 0 || at >= size {
					continue
				}
				// A stamped block neither begins nor ends with a zero byte.
				var p [1]byte
				_, err := dev.Backdoor.ReadAt(p[:], at)
				require.NoError(t, err)
				require.Equal(t, want, p[0] == 0, "byte %d", at)
			}
			now, err := dev.Backdoor.Size()
			require.NoError(t, err)
			require.Equal(t, size, now)
		})
	}
}

func (s suite) outside(t *testing.T, size int64) {
	dev, identity := s.enrolled(t, size)
	before := Sum(t, dev.Backdoor)
	handle := s.open(t, dev, identity, true)
	const step = hardware.Align
	for _, r := range [][2]int64{
		{-step, step}, {0, -step}, {0, size + 1}, {0, (size/step + 1) * step}, {size, step},
		{(size/step + 1) * step, step}, {1, size - 1}, {0, 511}, {512, step}, {0, 1 << 62}, {1 << 62, 1 << 62},
	} {
		if offset, n := r[0], r[1]; offset%step != 0 || offset < 0 || n < 0 || n > size-offset || n%step != 0 &&
			offset+n != size {
			require.Equal(t, device.Permanent, RequireFault(t, handle.ZeroAt(t.Context(), offset, n), device.CodeInternal).Class)
		}
	}
	require.NoError(t, handle.Flush(t.Context()))
	require.Equal(t, before, Sum(t, dev.Backdoor))
}

func (s suite) reads(t *testing.T, size int64) {
	dev, identity := s.enrolled(t, size)
	handle := s.open(t, dev, identity, false)
	all := make([]byte, size)
	_, err := io.ReadFull(io.NewSectionReader(dev.Backdoor, 0, size), all)
	require.NoError(t, err)
	stamped, _, _, err := Count(handle, size, nonce)
	require.NoError(t, err)
	require.Equal(t, blocks(size), stamped)

	for _, offset := range []int64{0, 1, 511, 512, 4095, 4096, 4097, size / 2, size - 513, size - 1} {
		for _, n := range []int64{1, 2, 511, 512, 4095, 4096, 8193, MiB, MiB + 1, 0} {
			if offset < 0 || offset > size {
				continue
			}
			for _, p := range [][]byte{make([]byte, n+1)[1:], hardware.AlignedBuffer(int(n))} {
				got, err := handle.ReadAt(p, offset)
				want := min(n, size-offset)
				require.EqualValues(t, want, got, "%d at %d: %v", n, offset, err)
				if want < n {
					require.ErrorIs(t, err, io.EOF)
				} else if err != nil {
					require.ErrorIs(t, err, io.EOF)
					require.Equal(t, size, offset+n)
				}
				require.Equal(t, all[offset:offset+want], p[:want], "%d at %d", n, offset)
			}
		}
	}
	for _, offset := range []int64{size, size + 1, size + hardware.Align} {
		got, err := handle.ReadAt(make([]byte, 8), offset)
		require.Zero(t, got)
		require.ErrorIs(t, err, io.EOF)
	}
	got, err := handle.ReadAt(make([]byte, 8), -1)
	require.Zero(t, got)
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF)
}
