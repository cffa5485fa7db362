// Package e2e tests Burnish as it is run: a real Temporal server, the built worker
// and command line as processes of their own, devices that carry stamps. Processes
// are killed, stopped and cut off; what is asserted is the devices' bytes, the
// inventory's files and what the command line says.
//
// The files without _test are the harness. One [Server] serves all tests but those
// that kill theirs; each test has a [Site] of its own: a namespace of the server, a
// folder, an inventory, a host name.
package e2e
