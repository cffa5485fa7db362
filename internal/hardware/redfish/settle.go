//go:build !shortsettle

package redfish

import "time"

// usualSettle is long enough for real BMCs.
const usualSettle = time.Minute

// usualInterval lets a BMC have 10 requests a second: few make it fall over.
const usualInterval = 100 * time.Millisecond
