// Package hardwaretest is the suite that every driver passes, the fake one too, and
// the stamps by which a test sees what a wipe really did.
package hardwaretest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/hardware"
)

// Fixture is what a driver's test gives to Run.
type Fixture struct {
	Driver hardware.Driver
	// New makes a device of size bytes that is not enrolled.
	New func(t *testing.T, size int64) Device
	// Sizes are sizes that New can make; Run tests with each. The default includes some
	// that end within a block.
	Sizes []int64
	// Write is the most that one write of the driver covers, after which it checks its
	// context; the default is hardware.ZeroesLen.
	Write int64
}

// Device is one device of a Fixture: how the driver finds it, and the test's own
// way to its bytes, past the driver.
type Device struct {
	Target   hardware.Target
	Backdoor Backdoor
}

// Backdoor reads and writes a device's bytes without the driver, and knows their number.
type Backdoor interface {
	io.ReaderAt
	io.WriterAt
	Size() (int64, error)
}

// File is the Backdoor to the file of this name. It opens and closes the file for each
// call, because a driver may refuse a file that is open elsewhere.
type File string

// ReadAt reads as os.File does.
func (f File) ReadAt(p []byte, offset int64) (n int, err error) {
	file, err := os.Open(string(f))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// A bare io.EOF must stay one: readers compare it.
	n, err = file.ReadAt(p, offset)
	if n == len(p) {
		err = nil
	}
	return n, err
}

// WriteAt writes as os.File does.
func (f File) WriteAt(p []byte, offset int64) (n int, err error) {
	file, err := os.OpenFile(string(f), os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return file.WriteAt(p, offset)
}

// Size is the file's size.
func (f File) Size() (int64, error) {
	info, err := os.Stat(string(f))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Sum is a checksum over all of b, and its size: two equal ones mean that nothing
// was written between them.
func Sum(t *testing.T, b Backdoor) string {
	t.Helper()
	size, err := b.Size()
	require.NoError(t, err)
	hash := sha256.New()
	n, err := io.Copy(hash, io.NewSectionReader(b, 0, size))
	require.NoError(t, err)
	require.Equal(t, size, n)
	return fmt.Sprintf("%d bytes, %x", size, hash.Sum(nil))
}

// RequireFault fails the test unless err is a fault with this code whose message
// and remedy are one line each.
func RequireFault(t *testing.T, err error, code device.Code) *device.Fault {
	t.Helper()
	require.Error(t, err)
	fault, ok := device.AsFault(err)
	require.True(t, ok, "not a fault: %v", err)
	require.Equal(t, code, fault.Code, "%v", err)
	require.NotEmpty(t, fault.Class)
	require.NotContains(t, fault.Error(), "\n", "a fault is one line")
	return fault
}

// RequireCount fails the test unless b's blocks are exactly so many stamped, zero
// and other ones.
func RequireCount(t *testing.T, b Backdoor, nonce uint64, stamped, zero, other int) {
	t.Helper()
	size, err := b.Size()
	require.NoError(t, err)
	gotStamped, gotZero, gotOther, err := Count(b, size, nonce)
	require.NoError(t, err)
	require.Equal(t, [3]int{stamped, zero, other}, [3]int{gotStamped, gotZero, gotOther}, "stamped, zero, other blocks")
}

// countdown is a context that ends after a number of calls: it ends in the middle of a
// driver's work without a clock.
type countdown struct {
	context.Context
	left   atomic.Int64
	cancel context.CancelFunc
}

func newCountdown(parent context.Context, asks int64) *countdown {
	ctx, cancel := context.WithCancel(parent)
	c := &countdown{Context: ctx, cancel: cancel}
	c.left.Store(asks)
	return c
}

func (c *countdown) ask() {
	if c.left.Add(-1) < 0 {
		c.cancel()
	}
}

// Err counts as one call.
func (c *countdown) Err() error {
	c.ask()
	return c.Context.Err()
}

// Done counts as one call.
func (c *countdown) Done() <-chan struct{} {
	c.ask()
	return c.Context.Done()
}
