package contract

import (
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// The search attributes, by which operators filter in the Web UI. They must be registered
// with the server before the first worker starts (deploy/devserver does so).
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

// Attributes returns every search attribute with its type, to register them or to check
// that they are registered.
func Attributes() map[string]enums.IndexedValueType {
	types := map[string]enums.IndexedValueType{}
	for _, key := range []interface {
		GetName() string
		GetValueType() enums.IndexedValueType
	}{
		AttrState, AttrUUID, AttrSerial, AttrType, AttrHost, AttrInstance, AttrStep, AttrFault,
		AttrNeedsOperator, AttrDirty, AttrUpdated,
	} {
		types[key.GetName()] = key.GetValueType()
	}
	return types
}

// QueryStuck finds the devices, the limits and the appliances that wait for an operator, in the Web UI's or
// `temporal workflow list`'s query language.
const QueryStuck = `WorkflowType IN ("DeviceLifecycle", "Limits", "OneViewPoll") AND ExecutionStatus = "Running" AND NeedsOperator = true`
