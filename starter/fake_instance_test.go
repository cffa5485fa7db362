package main

import (
	"context"

	"burnish/workflows/contract"
)

// DoInstance notes a request for an instance, and answers it.
func (f *fakeClient) DoInstance(ctx context.Context, instance string, v contract.Verb,
	in contract.Input) (contract.InstanceResult, error) {
	f.mu.Lock()
	f.sent = append(f.sent, v.Update()+" "+instance)
	f.mu.Unlock()
	return f.onInstance(ctx, instance, v.Update(), in)
}

func (f *fakeClient) Instance(ctx context.Context, instance string) (contract.InstanceStatus, error) {
	return f.onShowInstance(ctx, instance)
}
