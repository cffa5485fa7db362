package instance

import (
	"go.temporal.io/sdk/workflow"

	"burnish/workflows/contract"
)

// GuestAddress holds a guest's address for one instance until that instance returns it.
func GuestAddress(ctx workflow.Context, in contract.GuestAddressInput) error {
	returned := workflow.GetSignalChannel(ctx, contract.SignalReturnAddress)
	for {
		var by contract.GuestAddressInput
		returned.Receive(ctx, &by)
		if by.Instance == in.Instance {
			return nil
		}
	}
}
