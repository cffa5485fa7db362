package main

import (
	"context"

	"burnish/workflows/contract"
)

// instanceRequest notes a request for an instance, and answers it.
func (f *fakeClient) instanceRequest(ctx context.Context, instance, update string, input any) (contract.InstanceResult, error) {
	f.mu.Lock()
	f.sent = append(f.sent, update+" "+instance)
	f.mu.Unlock()
	return f.onInstance(ctx, instance, update, input)
}

func (f *fakeClient) InstanceBind(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceBind, in)
}

func (f *fakeClient) InstanceAttach(ctx context.Context, instance string, in contract.InstanceBindInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceAttach, in)
}

func (f *fakeClient) InstanceDetach(ctx context.Context, instance string, in contract.InstanceDetachInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceDetach, in)
}

func (f *fakeClient) InstanceRelease(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceRelease, in)
}

func (f *fakeClient) InstanceRebuild(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceRebuild, in)
}

func (f *fakeClient) InstanceMigrate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceMigrate, in)
}

func (f *fakeClient) InstanceLiveMigrate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceLiveMigrate, in)
}

func (f *fakeClient) InstanceConfirm(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceConfirm, in)
}

func (f *fakeClient) InstanceRevert(ctx context.Context, instance string, in contract.InstanceActInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceRevert, in)
}

func (f *fakeClient) InstanceEvacuate(ctx context.Context, instance string, in contract.InstanceMoveInput) (contract.InstanceResult, error) {
	return f.instanceRequest(ctx, instance, contract.UpdateInstanceEvacuate, in)
}

func (f *fakeClient) Instance(ctx context.Context, instance string) (contract.InstanceStatus, error) {
	return f.onShowInstance(ctx, instance)
}
