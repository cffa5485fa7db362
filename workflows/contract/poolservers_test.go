package contract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServersMatchEveryFilter(t *testing.T) {
	server := PoolServer{Name: "Encl1, bay 1", Serial: "CZ3406N4WX", Model: "Synergy 480 Gen10",
		Type: "/rest/server-hardware-types/A", Group: "/rest/enclosure-groups/b.c"}
	for _, tt := range []struct {
		filter map[string]string
		want   bool
	}{
		{nil, true},
		{map[string]string{"name": "encl1*"}, true},
		{map[string]string{"name": "encl1"}, false},
		{map[string]string{"name": "Encl1, bay ?"}, true},
		{map[string]string{"name": "Encl1, bay 1?"}, false},
		{map[string]string{"type": "*/A"}, true},
		{map[string]string{"group": "*b.c"}, true},
		{map[string]string{"group": "*bxc"}, false},
		{map[string]string{"serial": "cz3406n4wx", "model": "*Gen10"}, true},
		{map[string]string{"serial": "cz3406n4wx", "model": "*Gen9"}, false},
		{map[string]string{"serial": ""}, false},
		{map[string]string{"size": "*"}, false},
		{map[string]string{"name": "[a-z]*"}, false},
	} {
		require.Equal(t, tt.want, server.Matches(tt.filter), "%v", tt.filter)
	}
}
