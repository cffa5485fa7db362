// Package e2e tests Burnish as it is run: a real Temporal server, the built worker
// and command line as processes of their own, devices that carry stamps. Processes
// are killed, stopped and cut off. The tests assert the devices' bytes, the
// inventory's files and what the command line prints.
//
// One server serves all tests except those that kill theirs. Each test has a Site of its
// own: package site's, with a namespace, a folder, an inventory and a host name.
package e2e
