// Package host guarantees, for the devices of one host and through any crash: at most
// one writer for each device, resume points that are never ahead of the device, records
// that outlive workflows, and a list of what may be destroyed that no message can extend.
//
// # Guarantees
//
// One worker for each host: [Open] refuses while another process serves the same host
// name on this machine, or uses the same state directory.
//
// One writer for each device (SAFETY F1): whoever accesses a device holds its [Fence].
// Children that work on the device inherit the fence's descriptor, so that the orphan of
// a killed worker excludes later attempts until it ends.
//
// Reliable resume points (F2): a [Journal] entry is on stable storage before Save
// returns, replaces the previous one completely or not at all, and has a checksum.
// [Admit] refuses attempts that a newer one replaced; [ResumeOffset] answers 0 unless
// the device and the step are unchanged.
//
// Durable records (F10, F23): a device's [Record] holds the numbers that must never
// decrease, and the identity of the hardware.
//
// The host's own list of what may be destroyed (F13): [Rules], read again before each
// destructive step.
//
// Bounded load (S2.65): [FairSemaphore], first in, first out.
//
// # Limits
//
// The fence excludes only those who use it. Against another program that writes to the
// device, or a person who deletes lock files while a child of a killed worker is
// running, only the lock and the O_EXCL help that a driver takes on the device itself.
// Abstract sockets are visible within one network namespace: for workers in separate
// containers only the state directory excludes a second worker. The state directory must
// be on a local file system: flock and fsync of network file systems do not keep these
// promises.
//
// # The state directory
//
//	host.lock            locked by the one worker; the content is information
//	lock/<key>           one fence for each device, by serial or UUID; never deleted
//	journal/<name>.json  the resume point of the device's latest step
//	devices/<name>.json  the record of the device
//	fake/<name>/         the contents of fake devices, of the fake driver
//
// It belongs to the worker's user, and no other user may write in it. Names are escaped
// as %XX where a file name needs it. A file in journal or devices is one JSON object
// {name, sha256, data}. Names that begin with .tmp# are unfinished writes of a crashed
// process; Open removes them.
package host
