package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/privileged"
)

// The helper takes no arguments, so that its caller cannot influence it.
func TestTheHelperTakesNoArguments(t *testing.T) {
	err := run([]string{privileged.Subcommand, "--host-file=/tmp/mine"})
	require.EqualError(t, err, "nvme-helper takes no arguments")
	require.ErrorAs(t, err, new(usageError))
}
