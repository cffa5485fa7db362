//go:build shortsettle

package redfish

import "time"

// usualSettle of the end-to-end tests, whose BMCs show at once what has come of a request.
const usualSettle = 10 * time.Second

// usualInterval is short: a simulated BMC does not fall over.
const usualInterval = 5 * time.Millisecond
