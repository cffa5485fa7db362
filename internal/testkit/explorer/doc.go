// Package explorer proves the promises of the whole by exploring it: one device with its
// workflow, its provider, its host's journal, the hardware in its slot and its tenants, in
// every order of events and with a bounded number of faults (an answer that is lost, a
// request that is carried out twice, a workflow task that is lost after its call of the
// inventory together with the request that it handled, a worker that is killed or frozen, a
// database that is put back, a workflow that is lost, hardware that is swapped, a discovery that
// fails). Servers of a shared pool (F34), other names of the hardware (F35), instances (F38, F41)
// and processes that hold the device (F40) are not modeled.
//
// What decides is the product's own code, all of it: the lifecycle (internal/lifecycle: what
// happened goes in, what must be under way comes out), its tables in internal/device, the rules
// of internal/inventory on a store in memory, and the admission by the journal of internal/host.
// Modeled is the environment alone: what calls find, and what tenants, operators, other services,
// faults and the hardware do.
//
// The promises, checked in every world that is reached: no byte of a tenant is wiped while
// the tenant has the device, nothing is offered that holds a tenant's or a stranger's
// bytes, what an operator holds is neither wiped nor offered, no tenant has a device whose last answer was
// the contrary, and no device waits in silence.
package explorer
