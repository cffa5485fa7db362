//go:build !race

package nvmetest

// slowStart: this program starts fast enough to be nvme itself.
const slowStart = false
