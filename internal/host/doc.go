// Package host is what one host guarantees about the devices in it, whatever
// crashes: at most one writer a device, a resume point that is never ahead of the
// device, a memory of each device that outlives its workflow, and a list of what
// may be destroyed that no message can lengthen.
//
// # What is guaranteed
//
// One worker a host: [Open] refuses while another process serves the same host
// name on this machine, or uses the same state directory.
//
// One writer a device (SAFETY F1): whoever touches a device holds its [Fence].
// Children that work on the device inherit the fence's descriptor, so that the
// orphan of a killed worker keeps later attempts out until it ends itself.
//
// A resume point that can be believed (F2): a [Journal] entry is on stable storage
// before Save returns, replaces the one before it whole or not at all, and carries
// its own checksum. [Admit] keeps schedulings that were overtaken away from the
// device; [ResumeOffset] answers 0 unless everything about the device and the step
// is as it was.
//
// A memory (F10, F23): a [Record] a device holds the numbers that must never go
// back, and which physical device the name stands for.
//
// The host's own word on what may be destroyed (F13): [Rules], read again before
// each destructive step.
//
// Bounded load (S2.65): [FairSemaphore], first in, first out.
//
// # What is not
//
// The fence is kept by those who ask for it. Another program on the host that
// writes to a device, or a person who deletes lock files while a child of a killed
// worker lives on, is stopped only by the lock and the O_EXCL that a driver takes
// on the device itself. Abstract sockets are seen within one network namespace:
// workers in containers of their own are told apart by the state directory alone.
// The state directory belongs on a local file system: flock and fsync of network
// file systems do not carry these promises.
//
// # The state directory
//
//	host.lock            locked by the one worker; who that is, as information
//	lock/<key>           one fence a device, by serial or UUID; never deleted
//	journal/<name>.json  the resume point of the device's latest step
//	devices/<name>.json  the record of the device
//	fake/<name>/         the contents of fake devices, the fake driver's own
//
// It belongs to the worker's user and nobody else may write in it. Names are
// escaped as %XX where a file name needs it. A file under journal or devices is one
// JSON object {name, sha256, data}; names that begin with a dot are unfinished
// writes of a process that died, swept by Open.
package host
