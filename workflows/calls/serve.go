package calls

import "go.temporal.io/sdk/workflow"

// Serve does what next gives, one after the other, until nothing is to be done and the run may
// end. The main coroutine of a workflow waits nowhere else, so that it handles everything at once;
// what waits itself runs by Start.
func Serve(ctx workflow.Context, next func() func(), mayEnd func() bool) error {
	for {
		var do func()
		if err := workflow.Await(ctx, func() bool { do = next(); return do != nil || mayEnd() }); err != nil || do == nil {
			return err
		}
		do()
	}
}

// Start gives what runs do in its own coroutine; busy is true until it ends.
func Start(ctx workflow.Context, busy *bool, do func(workflow.Context)) func() {
	return func() {
		*busy = true
		workflow.Go(ctx, func(ctx workflow.Context) {
			do(ctx)
			*busy = false
		})
	}
}

// Receive has a selector do something with each signal of a name; one that cannot be decoded is dropped.
// A signal is read only if one is pending, and before the run may continue as new: otherwise one that
// arrives in the task that does can be lost (measured).
func Receive[T any](ctx workflow.Context, signals workflow.Selector, name string, do func(T)) {
	signals.AddReceive(workflow.GetSignalChannel(ctx, name), func(c workflow.ReceiveChannel, _ bool) {
		var in T
		if c.ReceiveAsync(&in) {
			do(in)
		}
	})
}
