package host

import (
	"fmt"

	"burnish/internal/device"
)

// Secret is what a BMC wants to know, and how the BMC proves who it is. It is never part of an
// error, a log, a record or an answer.
type Secret struct {
	Username, Password string
	// CA is the PEM of the certificates that the BMC's is checked with; "": the host's own.
	CA string
	// Insecure: the BMC's certificate is not checked.
	Insecure bool
}

// String keeps a secret out of what prints it.
func (s Secret) String() string { return fmt.Sprintf("secret of the user %q", s.Username) }

// GoString does the same for %#v.
func (s Secret) GoString() string { return s.String() }

// Secret gives the secret of this name, as the secrets file has it now.
func (r *Rules) Secret(string) (Secret, error) {
	return Secret{}, &device.Fault{Class: device.NeedsOperator, Code: device.CodeSecretInvalid, Message: "secrets are not read yet"}
}
