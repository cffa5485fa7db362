package contract_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// The last 500 requests of instances are known, and no other; they take 4 KB.
//
// F41
func TestLastRequestsAreKnown(t *testing.T) {
	instance, other := uuid.NewString(), uuid.NewString()
	request := func(n int) string { return fmt.Sprint("r", n) }
	var l contract.Requests
	for n := range 2 * contract.KeptRequests {
		l = l.With(instance, request(n))
		l = l.With(instance, request(n)) // repeated it displaces no other
		l = l.With(other, "")
	}
	require.Len(t, l, 8*contract.KeptRequests)
	for n := range 2 * contract.KeptRequests {
		require.Equal(t, n >= contract.KeptRequests, l.Has(instance, request(n)), n)
		require.False(t, l.Has(other, request(n)))
	}
	require.False(t, l.Has(other, ""))
	text, err := json.Marshal(l)
	require.NoError(t, err)
	var again contract.Requests
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, l, again)

	named := contract.Requests(nil).With("vm-1", "r")
	require.True(t, named.Has("vm-1", "r"))
	require.False(t, contract.Requests(nil).Has("vm-1", "r"))
}
