//go:build !shortsettle

package redfish

import "time"

// usualSettle is long enough for real BMCs.
const usualSettle = time.Minute
