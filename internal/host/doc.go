// Package host is what one host guarantees about its devices, whatever crashes: at most one
// writer for each device, a resume point that is never ahead of the device, a record of each
// device that outlives its workflow, and a list of what may be erased that no message can
// extend.
//
// # What is guaranteed
//
// One worker for each host: [Open] refuses while another process serves the same host name
// on this machine, or uses the same state directory.
//
// One writer for each device (SAFETY F1): a process that uses a device holds its [Fence].
// Children that use the device inherit the fence's descriptor, so that the orphan of a
// killed worker keeps later attempts out until it ends.
//
// A resume point that can be trusted (F2): a [Journal] entry is on stable storage when Save
// returns, replaces the previous one completely or not at all, and has a checksum. [Admit]
// keeps superseded schedulings away from the device; [ResumeOffset] is 0 if anything about
// the device or the step has changed.
//
// A record of each device (F10, F23): a [Record] holds the numbers that must never decrease,
// and the identity of the hardware.
//
// The host's own list of what may be erased (F13): [Rules], read again before each
// destructive step.
//
// Records of one server (F25): [UseServer] refuses a state directory that belongs to another
// Temporal cluster or namespace, until an operator accepts that one.
//
// Bounded load (S2.65): [Slots], first come, first served.
//
// # What is not
//
// The fence excludes only those who ask for it. Another program that writes to a device, or
// a person who deletes lock files while a child of a killed worker runs, is stopped only by
// the lock and the O_EXCL that a driver takes on the device itself. Abstract sockets are
// visible within one network namespace: between containers only the state directory shows
// that a host has two workers. The state directory must be on a local file system: flock and
// fsync of network file systems do not give these guarantees.
//
// # The state directory
//
//	host.lock            locked by the one worker; who that is, as information
//	server.json          the Temporal cluster and namespace that the directory belongs to
//	server.lock          locked while server.json is compared and written
//	lock/<key>           the fence of a device, by serial or UUID; never deleted
//	journal/<name>.json  the resume point of the device's latest step
//	devices/<name>.json  the record of the device
//	fake/<name>/         the contents of fake devices, the fake driver's own
//
// It belongs to the worker's user, who alone may write in it. Names are escaped as %XX where
// a file name needs it. A file under journal or devices is one JSON object {name, sha256,
// data}; names that begin with a dot are unfinished writes of a process that ended, and Open
// removes them.
package host
