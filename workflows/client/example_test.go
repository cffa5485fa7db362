package client_test

import (
	"context"
	"fmt"

	sdkclient "go.temporal.io/sdk/client"

	"burnish/internal/device"
	"burnish/workflows/client"
	"burnish/workflows/contract"
)

// Bind a device to an instance, and print what the device refuses.
func Example() {
	ctx := context.Background()
	temporal, err := sdkclient.Dial(sdkclient.Options{HostPort: "127.0.0.1:7233"})
	if err != nil {
		fmt.Println("Temporal does not answer:", err)
		return
	}
	defer temporal.Close()

	devices := client.New(temporal)
	result, err := devices.Send(ctx, "h1_0000:01:00.0", contract.VerbBind,
		contract.BindInput{Instance: "3b1f0e62-7a8e-4b7f-9a55-0d6c1f2e4a90"})
	if refusal, ok := client.Fault(err); ok {
		fmt.Println(refusal.Fault.Message, refusal.Fault.Remedy)
		return
	}
	fmt.Println("binding", result.Binding)
}

// List the devices of a host that need an operator.
func ExampleClient_List() {
	ctx := context.Background()
	temporal, err := sdkclient.Dial(sdkclient.Options{HostPort: "127.0.0.1:7233"})
	if err != nil {
		fmt.Println("Temporal does not answer:", err)
		return
	}
	defer temporal.Close()

	found, err := client.New(temporal).List(ctx, client.Filter{Hosts: []string{"h1"}, NeedsOperator: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range found {
		fmt.Println(e.Name, e.Status.DeviceState, e.Status.Fault, e.Status.Remedy)
	}
}

func ExampleFilter_Query() {
	fmt.Println(client.Filter{States: []device.State{device.Error}, Serials: []string{`ends in \`}}.Query())
	// Output: WorkflowType = 'DeviceLifecycle' AND ExecutionStatus = 'Running' AND DeviceState = 'error'
	// AND DeviceSerial STARTS_WITH 'ends in '
}
