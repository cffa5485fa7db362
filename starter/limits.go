package main

import (
	"context"
	"fmt"

	"burnish/workflows/contract"
)

// withPlaces puts into statuses what the workflow of the limits knows better: each place in
// line as it is now. It asks once for all of them, and only if one waits; without an answer
// the devices' own, which are older, remain.
func (a *app) withPlaces(ctx context.Context, l deviceClient, all []contract.DeviceStatus) contract.LimitsStatus {
	name, waits := contract.WaitForSlot(all)
	if !waits {
		return contract.LimitsStatus{}
	}
	status := a.limits(ctx, l, name)
	status.ShowPlaces(all)
	return status
}

// limits asks the workflow of the limits. The status is empty where nothing is limited, and
// without an answer.
func (a *app) limits(ctx context.Context, l deviceClient, name string) contract.LimitsStatus {
	qctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	status, found, err := l.LimitsStatus(qctx, name)
	if err != nil || !found {
		return contract.LimitsStatus{}
	}
	return status
}

// noteAlarms prints what the limits need the operator for: no device stands for it.
func (a *app) noteAlarms(alarms []contract.LimitsAlarm) {
	for _, alarm := range alarms {
		a.note("", fmt.Sprintf("the limits need the operator (%d wait): %s; %s", alarm.Waiting, alarm.Message, alarm.Remedy))
	}
}
