package guest

// ticks reads the processor's time stamp counter.
func ticks() uint64
