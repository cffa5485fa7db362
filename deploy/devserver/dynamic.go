package main

import (
	"time"

	"go.temporal.io/server/common/dynamicconfig"
)

// dynamicSettings are the settings that differ from Temporal's defaults. Those
// are made for thousands of shards on many machines; here one shard serves
// everything, and the defaults put a floor of 50 ms under each activity.
//
// Keys come from Temporal's own declarations: a setting that is renamed there
// breaks the build, not the speed.
func dynamicSettings() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// Default 20 a second and shard.
		dynamicconfig.TransferProcessorMaxPollRPS.Key():   2000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():      2000,
		dynamicconfig.VisibilityProcessorMaxPollRPS.Key(): 500,
		// Default 512 each, which all wait for the one connection to the database: with a thousand
		// devices at once, most tasks then end at their deadline of 3 s and are begun again.
		dynamicconfig.TransferProcessorSchedulerWorkerCount.Key():   16,
		dynamicconfig.TimerProcessorSchedulerWorkerCount.Key():      8,
		dynamicconfig.VisibilityProcessorSchedulerWorkerCount.Key(): 4,
		// Default 30 s: until then what is done stays in lists that are walked with each new task.
		dynamicconfig.TransferProcessorUpdateAckInterval.Key():   2 * time.Second,
		dynamicconfig.TimerProcessorUpdateAckInterval.Key():      2 * time.Second,
		dynamicconfig.VisibilityProcessorUpdateAckInterval.Key(): 2 * time.Second,
		// Default 512 KiB, of which a hundred devices at work evict each other's events.
		dynamicconfig.EventsCacheMaxSizeBytes.Key(): 16 << 20,
		// Default 4: with few pollers a task may wait in a partition without a poller.
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// Default 10 a second: they would be shared by all enrollments, `burnish list` and
		// the Web UI.
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
		// Default 2000 a second, which protects a database that others use too.
		dynamicconfig.FrontendPersistenceMaxQPS.Key(): 1_000_000,
	}
}
