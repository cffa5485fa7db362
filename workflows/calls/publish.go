package calls

import (
	"go.temporal.io/sdk/workflow"

	"burnish/internal/device"
	"burnish/workflows/contract"
)

// PublishFault writes the search attributes that say whether a workflow needs the operator, and
// with which fault, where they differ from what it published before; "" is none.
func PublishFault(ctx workflow.Context, published *device.Code, fault device.Code) {
	if fault == *published {
		return
	}
	code := contract.AttrFault.ValueUnset()
	if fault != "" {
		code = contract.AttrFault.ValueSet(string(fault))
	}
	needed := contract.AttrNeedsOperator.ValueSet(fault != "")
	if err := workflow.UpsertTypedSearchAttributes(ctx, needed, code); err != nil {
		workflow.GetLogger(ctx).Error("search attributes were not written", "error", err)
		return
	}
	*published = fault
}
