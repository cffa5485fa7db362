package contract_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// Each verb, and the signal that changes something, says who asks for it, from where and why, under
// the same names.
func TestEveryUpdateCarriesWhoAndWhy(t *testing.T) {
	asked := map[string]contract.Input{"resume": contract.ResumeInput{}, "signal clean": contract.CleanInput{}}
	for _, v := range contract.Verbs {
		asked[v.Name] = v.Input
	}
	for _, v := range contract.InstanceVerbs {
		asked["instance "+v.Name] = v.Input
	}
	for name, in := range asked {
		t.Run(name, func(t *testing.T) {
			sent := reflect.New(reflect.TypeOf(in))
			text := `{"by":"ann@h1","from":"192.0.2.7","reason":"a new fan"}`
			require.NoError(t, json.Unmarshal([]byte(text), sent.Interface()))
			given, ok := sent.Elem().Interface().(contract.Input)
			require.True(t, ok)
			act := given.Act()
			require.Equal(t, []string{"ann@h1", "192.0.2.7", "a new fan"}, []string{act.By, act.From, act.Reason})
			back, err := json.Marshal(given)
			require.NoError(t, err)
			var fields map[string]any
			require.NoError(t, json.Unmarshal(back, &fields))
			for _, key := range []string{"by", "from", "reason"} {
				require.Contains(t, fields, key, "what is sent keeps it")
			}
		})
	}
}

// A field that is a flag is text or a switch, which is all that the command line makes flags of.
func TestFlagsAreTextOrSwitches(t *testing.T) {
	for _, v := range slices.Concat(contract.Verbs, contract.InstanceVerbs) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v.Input)) {
			if f.Tag.Get("flag") != "" {
				require.Contains(t, []reflect.Kind{reflect.String, reflect.Bool}, f.Type.Kind(), "%s: %s", v.Name, f.Name)
			}
		}
	}
}
