package mutation

// redfishLostMutations take out what distinguishes a request that never began from one that is unknown.
var redfishLostMutations = []mutation{
	{
		name: "a BMC whose clock was set has not restarted",
		file: "internal/hardware/redfish/task.go",
		old:  `.Abs() > mostDrift {`,
		new:  `.Abs() < 0 {`,
		pkg:  "./internal/hardware/redfish", run: "TestABMCWhoseClockIsSetHasNotRestarted",
	},
	{
		name: "what a BMC lost by its restart is sent once more",
		file: "internal/hardware/redfish/task.go",
		old:  `err == nil && !at.Before(w.Sent) {`,
		new:  `err == nil && at.Before(w.Sent) {`,
		pkg:  "./internal/hardware/redfish", run: "TestWhatABMCLostByItsRestartIsSentOnceMore",
	},
	{
		name: "a drive whose BMC forgets its tasks may erase on after the BMC's restart",
		file: "internal/hardware/redfish/drives_follow.go",
		old:  `	restarted = restarted && keepsTasks`,
		new:  `	restarted = restarted || keepsTasks`,
		pkg:  "./internal/hardware/redfish", run: "TestWhatABMCLostByItsRestartIsSentOnceMore",
	},
	{
		name: "an update whose answer was lost is not repeated without a restart of the BMC",
		file: "internal/hardware/redfish/firmware_follow.go",
		old:  `	if !restarted && (u.Lost && staged == "" || `,
		new:  `	if !restarted && (u.Lost && staged != "" || `,
		pkg:  "./internal/hardware/redfish", run: "TestALostUpdateIsNeitherRepeatedNorBelieved",
	},
	{
		name: "an update that never began is sent once more, and not twice",
		file: "internal/hardware/redfish/firmware_follow.go",
		old:  `	if u.bmc || u.Answered || u.Retried > 0 || `,
		new:  `	if u.bmc || u.Answered || u.Retried > 9 || `,
		pkg:  "./internal/hardware/redfish", run: "TestAnUpdateThatNeverBeganAfterAKillIsSentOnceMore",
	},
	{
		name: "a BMC that is not known to show updates is not believed to have begun none",
		file: "internal/hardware/redfish/firmware_follow.go",
		old:  `	return len(u.Before) > 0 && (`,
		new:  `	return len(u.Before) >= 0 && (`,
		pkg:  "./internal/hardware/redfish", run: "TestAnUpdateThatNeverBeganAfterAKillIsSentOnceMore",
	},
	{
		name: "an image that is cut off is sent again",
		file: "internal/hardware/redfish/firmware_send.go",
		old:  `		return unreachable(err) // the BMC has not got the end: it is sent again`,
		new:  `		return err`,
		pkg:  "./internal/hardware/redfish", run: "TestAnImageThatIsCutOffIsSentAgain",
	},
}
