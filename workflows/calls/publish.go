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
	if err := workflow.UpsertTypedSearchAttributes(ctx, contract.AttrNeedsOperator.ValueSet(fault != ""), code); err != nil {
		workflow.GetLogger(ctx).Error("search attributes were not written", "error", err)
		return
	}
	*published = fault
}
