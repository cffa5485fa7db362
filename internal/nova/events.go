package nova

// eventRule is what an event type means for devices.
type eventRule struct {
	// moves: the event concerns two hosts, and Nova's payload names one of them.
	moves bool
	// evacuates: the event counts only if another host than the instance's published it.
	// That distinguishes an evacuation from a rebuild in place.
	evacuates bool
}

// eventRules are the types of versioned notifications after which a device may need
// cleaning or have a new consumer. Each is a hint to reconcile, and Placement decides: an
// unnecessary event costs a few requests, and a missing one delays the change until the
// next periodic reconciliation (S0.30).
//
// These are left out because no device gets another consumer: soft_delete and restore,
// shelve (the instance keeps its device until it is offloaded), power, pause, suspend,
// rescue, reboot, snapshots, volumes; resize_prep, resize and live_migration_pre
// (nothing is released before the end), all .start; update and exists, which are too
// frequent. interface_detach may free a device but is sent for every port of the cloud:
// the periodic reconciliation finds it.
//
// Nova sends no event when an evacuated source host starts again and removes the
// instance's allocation (S0.19): the periodic reconciliation finds that too.
var eventRules = map[string]eventRule{
	// S0.29: the allocation is already removed.
	"instance.delete.end": {},
	// The guest is gone, and the allocation will be removed.
	"instance.shutdown.end": {},

	// S0.4: a device has a new consumer.
	"instance.create.end": {},
	// S0.6: burned, and no guest ever ran. Nova may try the next host without an event.
	"instance.create.error": {},

	// S0.19, S0.20: published by the API with the source; the destination is not chosen
	// yet.
	"instance.evacuate": {moves: true},
	// S0.20: published by the destination while the instance still is on the source.
	// S0.18: a rebuild in place cleans nothing and burns nothing.
	"instance.rebuild.end":   {moves: true, evacuates: true},
	"instance.rebuild.error": {moves: true, evacuates: true},

	// S0.21: the destination is burned; on the source the migration has the allocation.
	"instance.resize_finish.end": {moves: true},
	// S0.21: published by the source when the instance is on the destination.
	"instance.resize_confirm.end": {moves: true},
	// S0.22: published by the source, which has the instance again; the device to clean is
	// on the destination, which is not named.
	"instance.resize_revert.end": {moves: true},
	// The destination was claimed, and maybe burned, and is not used.
	"instance.resize.error": {moves: true},

	// S0.24. The source publishes post.end just before it removes its allocation: a
	// reconciliation at once may be too early.
	"instance.live_migration_post.end":          {moves: true},
	"instance.live_migration_post_dest.end":     {moves: true},
	"instance.live_migration_rollback.end":      {moves: true},
	"instance.live_migration_rollback_dest.end": {moves: true},

	// The host releases the device; the instance continues to exist without one.
	"instance.shelve_offload.end": {},
	// A new device, possibly on another host.
	"instance.unshelve.end": {},
}
