package nova

// eventRule is what an event type says about devices.
type eventRule struct {
	// moves: two hosts are concerned, and Nova's payload names one of them.
	moves bool
	// evacuates: it counts only where it was published by another host than the
	// instance's, which tells an evacuation from a rebuild in place.
	evacuates bool
}

// eventRules are the event types of versioned notifications after which a device may
// await cleaning, or have a new consumer. Every one is a hint to look: what Placement
// says decides, so that one too many costs a look and one too few waits for the sweep
// (S0.30).
//
// Not here, because no device changes hands: soft_delete and restore (the instance
// keeps its device), shelve (so it does, until it is offloaded), power, pause, suspend,
// rescue, reboot, snapshots, volumes; resize_prep, resize and live_migration_pre
// (nothing is let go before the end), all .start; update and exists, of which there are
// too many. interface_detach may free a device and comes with every port of the cloud:
// the sweep's.
//
// No event at all tells that an evacuated source is back and has dropped the instance's
// allocation (S0.19): the sweep's, too.
var eventRules = map[string]eventRule{
	// S0.29: the allocation is gone already.
	"instance.delete.end": {},
	// The guest is gone, and the allocation about to go.
	"instance.shutdown.end": {},

	// S0.4: a device has a new consumer.
	"instance.create.end": {},
	// S0.6: burned, and no guest ever ran. The next host may be tried without a word.
	"instance.create.error": {},

	// S0.19, S0.20: published by the API, which names the source; the destination is
	// not chosen yet.
	"instance.evacuate": {moves: true},
	// S0.20: published by the destination while the instance still is the source's.
	// S0.18: in place nothing is cleaned and nothing burned.
	"instance.rebuild.end":   {moves: true, evacuates: true},
	"instance.rebuild.error": {moves: true, evacuates: true},

	// S0.21: the destination is burned; on the source a migration has the allocation.
	"instance.resize_finish.end": {moves: true},
	// S0.21: published by the source, of an instance that is the destination's.
	"instance.resize_confirm.end": {moves: true},
	// S0.22: published by the source, which has the instance back; the destination's
	// device is the one to clean, and is not named.
	"instance.resize_revert.end": {moves: true},
	// A destination that was claimed, and maybe burned, is not used.
	"instance.resize.error": {moves: true},

	// S0.24. The source publishes post.end just before it drops its allocation: who
	// looks at once may be too early.
	"instance.live_migration_post.end":          {moves: true},
	"instance.live_migration_post_dest.end":     {moves: true},
	"instance.live_migration_rollback.end":      {moves: true},
	"instance.live_migration_rollback_dest.end": {moves: true},

	// The host lets the device go; the instance lives on without one.
	"instance.shelve_offload.end": {},
	// A new device, on a host of its own choosing.
	"instance.unshelve.end": {},
}
