package calls

import (
	"fmt"

	"burnish/workflows/contract"
)

// RequireSchema stops a run whose state a newer build has written: its workflow task fails,
// with the reason in the history, and the server tries it again until a newer worker takes
// it. No command was sent, so that the newer worker continues as if nothing had happened. An
// error would end the workflow, with the device that it manages.
func RequireSchema(subject string, schema int) { RequireSchemaUpTo(subject, schema, contract.Schema) }

// RequireSchemaUpTo is RequireSchema for a state with versions of its own.
func RequireSchemaUpTo(subject string, schema, known int) {
	if schema > known {
		//nolint:forbidigo // only a panic fails the workflow task and not the workflow
		panic(fmt.Sprintf("%s: its state has schema %d, this worker supports up to %d: upgrade the control workers", subject,
			schema, known))
	}
}
