// Package api is the HTTP API of the control worker: Cyborg's forms for OpenStack clients,
// and every act of the command line for operators.
//
// [New] returns its handler. routes.go lists what there is, errors.go says which status
// answers which fault, and version.go which microversions there are. Who may use it is
// decided by package access.
package api
