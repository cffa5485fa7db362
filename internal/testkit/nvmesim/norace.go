//go:build !race

package nvmesim

// slowStart: this program starts fast enough to be nvme itself.
const slowStart = false
