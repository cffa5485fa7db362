package contract

import "go.temporal.io/sdk/temporal"

// The search attributes: what operators filter by in the Web UI. The server knows
// them before the first worker starts (deploy/devserver registers them).
var (
	AttrState         = temporal.NewSearchAttributeKeyKeyword("DeviceState")
	AttrUUID          = temporal.NewSearchAttributeKeyKeyword("DeviceUuid")
	AttrSerial        = temporal.NewSearchAttributeKeyKeyword("DeviceSerial")
	AttrType          = temporal.NewSearchAttributeKeyKeyword("DeviceType")
	AttrHost          = temporal.NewSearchAttributeKeyKeyword("DeviceHost")
	AttrInstance      = temporal.NewSearchAttributeKeyKeyword("InstanceId")
	AttrStep          = temporal.NewSearchAttributeKeyKeyword("CleanStep")
	AttrFault         = temporal.NewSearchAttributeKeyKeyword("DeviceFault")
	AttrNeedsOperator = temporal.NewSearchAttributeKeyBool("NeedsOperator")
	AttrDirty         = temporal.NewSearchAttributeKeyBool("DeviceDirty")
	AttrUpdated       = temporal.NewSearchAttributeKeyTime("DeviceUpdated")
)

// QueryStuck finds the devices that wait for an operator, in the Web UI's or
// `temporal workflow list`'s query language.
const QueryStuck = `WorkflowType = "DeviceLifecycle" AND ExecutionStatus = "Running" AND NeedsOperator = true`
