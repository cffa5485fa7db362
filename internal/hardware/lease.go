package hardware

import "context"

// MaxWrite is the most that a driver writes to a device without asking again: by one call of
// the kernel, or by several that are under way at once. Before each it calls MayWrite.
const MaxWrite = ZeroesLen

// leaseKey is the key of a context's lease.
type leaseKey struct{}

// WithLease gives a context in which MayWrite asks lease. The lease fails once the caller's
// right to write may have ended; it may wait for an answer about that.
func WithLease(ctx context.Context, lease func(context.Context) error) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease)
}

// MayWrite returns nil while the caller may still write to its device (F32). Each driver
// calls it directly before each write of at most MaxWrite bytes, before each command that
// changes the device, and before each program that does, with the context of that call. A
// process that was frozen, or a machine that was suspended, may wake up when its device has
// another user: nothing that is checked less often prevents that write. In a context
// without a lease the answer is the context's own.
func MayWrite(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if lease, ok := ctx.Value(leaseKey{}).(func(context.Context) error); ok {
		return lease(ctx)
	}
	return nil
}
