// Package instance is the workflow of one instance that holds devices: it binds all that are
// asked for, or none, and keeps what its guest is to be shown of them.
//
//	instance.go  the run: signals in, acts one after the other, continue-as-new
//	updates.go   the updates, each of which is one act
//	acts.go      bind, attach, detach, release, rebuild
//	moves.go     migrate, confirm, revert, evacuate
//	acquire.go   claims, then burns; all or none
//	devices.go   what an act asks of devices, by activities
//	publish.go   what operators see
//
// The acts know nothing of Temporal: they change an InstanceState and ask a world. A state
// that no longer shows a device is recorded before the device is unbound, so that no guest's
// document ever shows a device that another instance may have.
package instance
