package device

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits bound what may happen to a fleet at once (S3.38). A zero field is no limit.
type Limits struct {
	// ConcurrentCleans is how many devices of the fleet are cleaned at once, PerHost how
	// many of one host.
	ConcurrentCleans int `json:"concurrent_cleans,omitempty"`
	PerHost          int `json:"per_host,omitempty"`
	// FreeCapacity is how many devices stay free for tenants when an operator takes
	// available ones out of the offer.
	FreeCapacity Capacity `json:"free_capacity,omitzero"`
	// Breaker is after how many failures in a row of one step on one model the others of
	// that model wait.
	Breaker int `json:"breaker,omitempty"`
	// Canary: firmware that is new to a model goes to one device first.
	Canary bool `json:"canary,omitempty"`
}

// Capacity is a number of devices, or a percentage of the devices in service.
type Capacity struct {
	Devices int `json:"devices,omitempty"`
	Percent int `json:"percent,omitempty"`
}

// ParseCapacity reads "10" or "10%".
func ParseCapacity(text string) (Capacity, error) {
	digits, isPercent := strings.CutSuffix(strings.TrimSpace(text), "%")
	n, err := strconv.Atoi(strings.TrimSpace(digits))
	switch {
	case err != nil || n < 1:
		return Capacity{}, fmt.Errorf("%q is neither a positive number nor a percentage such as 10%%", text)
	case isPercent && n > 100:
		return Capacity{}, fmt.Errorf("%q is more than 100%%", text)
	case isPercent:
		return Capacity{Percent: n}, nil
	}
	return Capacity{Devices: n}, nil
}

// Floor is the number of devices that stay free, of so many in service. A part of a device
// counts as a whole one.
func (c Capacity) Floor(inService int) int {
	return max(c.Devices, (c.Percent*inService+99)/100)
}

// String is as ParseCapacity reads it.
func (c Capacity) String() string {
	if c.Percent > 0 {
		return fmt.Sprintf("%d%%", c.Percent)
	}
	return strconv.Itoa(c.Devices)
}
