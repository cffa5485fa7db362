package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/hardware/nvme/privileged"
)

// TestS2_67_TheHelperTakesNoArguments: whoever starts it decides nothing by them.
func TestS2_67_TheHelperTakesNoArguments(t *testing.T) {
	err := run([]string{privileged.Subcommand, "--host-file=/tmp/mine"})
	require.EqualError(t, err, "nvme-helper takes no arguments")
	require.ErrorAs(t, err, new(usageError))
}
