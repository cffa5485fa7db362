//go:build !amd64

package guest

// ticks is 0: there is no guest on this machine.
func ticks() uint64 { return 0 }
