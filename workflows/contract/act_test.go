package contract_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/workflows/contract"
)

// changes are the inputs of all updates that change something; questions change nothing.
var (
	changes = map[string]contract.Input{
		"UpdateEnroll": contract.EnrollInput{}, "UpdateProvide": contract.ReasonInput{}, "UpdateClaim": contract.BindInput{}, "UpdateBurn": contract.BindInput{},
		"UpdateUnclaim": contract.BindInput{}, "UpdateBind": contract.BindInput{}, "UpdateUnbind": contract.UnbindInput{}, "UpdateRebuild": contract.UnbindInput{},
		"UpdateClean": contract.CleanInput{}, "UpdateAbort": contract.ReasonInput{}, "UpdateManage": contract.ReasonInput{}, "UpdateMaintain": contract.MaintainInput{},
		"UpdateRetire": contract.ReasonInput{}, "UpdateForget": contract.ReasonInput{}, "UpdateReplace": contract.ReplaceInput{}, "UpdateMove": contract.MoveInput{},
		"UpdatePower": contract.PowerInput{}, "UpdateReleaseHold": contract.ReasonInput{}, "UpdateOverride": contract.OverrideInput{},
		"UpdateMigratePool": contract.ReasonInput{}, "UpdateResume": contract.ResumeInput{},
		"UpdateInstanceBind": contract.InstanceBindInput{}, "UpdateInstanceAttach": contract.InstanceBindInput{}, "UpdateInstanceDetach": contract.InstanceDetachInput{},
		"UpdateInstanceRelease": contract.InstanceActInput{}, "UpdateInstanceRebuild": contract.InstanceActInput{}, "UpdateInstanceConfirm": contract.InstanceActInput{},
		"UpdateInstanceRevert": contract.InstanceActInput{}, "UpdateInstanceMigrate": contract.InstanceMoveInput{}, "UpdateInstanceLiveMigrate": contract.InstanceMoveInput{},
		"UpdateInstanceEvacuate": contract.InstanceMoveInput{},
		"SignalClean":            contract.CleanInput{},
		"UpdateLabel":            contract.LabelInput{},
	}
	questions = []string{"UpdateCandidates", "UpdateReadPool", "UpdateServers"}
)

// Each update that changes something, and the signal that does, says who asks for it, from
// where and why, under the same names.
func TestEveryUpdateCarriesWhoAndWhy(t *testing.T) {
	for _, name := range updateNames(t) {
		_, known := changes[name]
		require.True(t, known || slices.Contains(questions, name), "%s: add its input to changes, or to questions if it changes nothing", name)
	}
	for name, in := range changes {
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

// updateNames are the names of the package's constants that name updates.
func updateNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			constants, ok := decl.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST || strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, spec := range constants.Specs {
				values := spec.(*ast.ValueSpec)
				if len(values.Names) == 1 && strings.HasPrefix(values.Names[0].Name, "Update") && len(values.Values) == 1 {
					literal, ok := values.Values[0].(*ast.BasicLit)
					require.True(t, ok)
					value, err := strconv.Unquote(literal.Value)
					require.NoError(t, err)
					require.NotEmpty(t, value)
					names = append(names, values.Names[0].Name)
				}
			}
		}
	}
	require.Greater(t, len(names), 25)
	return names
}
