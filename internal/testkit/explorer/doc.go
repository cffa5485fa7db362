// Package explorer proves the promises of the whole by exploring it: one device with its workflow, its provider, its
// host's journal, the hardware in its slot, its tenants and, in a shared pool, its appliance and the other users of
// that, in every order of events and with a bounded number of faults. Cloud explores an instance with two devices in
// the same way: its acts run again from the start against recorded answers, as a replay does.
//
// The faults: an answer that is lost, or comes later than what others do meanwhile; a request that is carried out
// twice, or late; a server that dies with its worker, which loses a workflow's task after its call of the inventory
// together with the request that it handled; a client that is killed while it waits; a worker that is killed; a
// database, or the inventory's record, that is put back; a workflow of a device or of an instance that is lost;
// hardware that is swapped or written to while it is offered; a discovery that fails; a poll that comes late. The
// workflow's memory and the inventory's are not lost in one story. Frozen workers (F32), other names of the hardware
// (F35) and processes that hold the device (F40) are not modeled; nor is a profile of Burnish's that somebody else
// takes away.
//
// What decides is the product's own code, all of it: the lifecycle (internal/lifecycle: what happened goes in, what
// must be under way comes out), its tables in internal/device, the acts of workflows/instance, the rules of
// internal/inventory on a store in memory, and the admission by the journal of internal/host. Modeled is the
// environment alone: what calls find, and what tenants, operators, other services, faults and the hardware do.
//
// The promises, checked in every world that is reached: no byte of a tenant is wiped while the tenant has the device,
// nothing is offered that holds a tenant's or a stranger's bytes, no tenant gets what others have left, no step works
// at a server that others have, what an operator holds is neither wiped nor offered, no tenant has a device whose last
// answer was the contrary, an instance has what its devices say, and no device waits in silence.
package explorer
