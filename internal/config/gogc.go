package config

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the garbage grow to half of what is alive before it is collected.
const gcPercent = 50

// SetDefaultGOGC has the garbage of this process collected earlier than Go does by
// itself, unless GOGC says otherwise. A worker's memory is thousands of devices that
// rest; what lies between them counts as well (measured: 51 KiB a device with Go's
// own setting, 45 with this one, at no processor time that could be told).
func SetDefaultGOGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
