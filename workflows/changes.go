package workflows

import "go.temporal.io/sdk/workflow"

// The changes that a run which began before them does not make: a replay would miss
// commands, or find others. The texts stand in histories and never change; one may go
// when no run is left that is older than it.
const (
	enrolledIsProvided     = "provide what is enrolled"
	missingEndsImport      = "a missing provider ends the import"
	importBelievesItsOwn   = "an import believes its own provider alone"
	listingsNameProvider   = "listings name the provider"
	availableKeepsProvider = "an available device keeps its provider"
	longRefused            = "long signals are refused"
	looksTogether          = "looks at once"
)

// since says that this run came here first by a worker that knows the change; one that
// went on otherwise before keeps to that.
func since(ctx workflow.Context, change string) bool {
	return workflow.GetVersion(ctx, change, workflow.DefaultVersion, 1) != workflow.DefaultVersion
}
