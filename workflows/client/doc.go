// Package client is the typed client of Burnish's workflows. The command line, the
// workers and the tests use it; nothing else calls Temporal's client for them.
//
// A request to a device is an update: it returns the device's answer, or an error
// from which [Fault] reads what the device refused. A hint is a signal: it never
// changes the state directly.
package client
