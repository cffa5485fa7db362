// Package remote is the HTTP API's client. It does for the command line what package client
// does over Temporal: the same requests, with errors of the same meaning, so that both lead
// to the same messages and exit codes.
package remote
