package logs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/logs"
	"burnish/internal/testkit/testlog"
)

// root is the repository's.
const root = "../.."

// logCall is a call of a logger somewhere in the product.
type logCall struct {
	at, method string
	// message is the text of the message, or the name of its constant here; "" if it is put
	// together.
	message string
	keys    []string // those that are written in the call
}

// isLogger says that an expression is a logger by its name.
func isLogger(e ast.Expr) bool {
	name := ""
	switch e := e.(type) {
	case *ast.CallExpr: // log(), GetLogger(ctx), and With(…) of one
		if method, ok := e.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "With" {
			return isLogger(method.X)
		}
		return isLogger(e.Fun)
	case *ast.SelectorExpr:
		name = e.Sel.Name
	case *ast.Ident:
		name = e.Name
	}
	return slices.Contains([]string{"log", "logger", "getlogger"}, strings.ToLower(name))
}

// constant is a key or a message: a literal's text, or the name of a constant of this package.
func constant(e ast.Expr) (text string, ofPackage bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text, false
		}
	case *ast.SelectorExpr:
		if from, ok := e.X.(*ast.Ident); ok && from.Name == "logs" {
			return e.Sel.Name, true
		}
	}
	return "", false
}

// logCalls finds every call of a logger in the product's own Go files.
func logCalls(t *testing.T) []logCall {
	t.Helper()
	var all []logCall
	for _, folder := range []string{"activities", "internal", "starter", "worker", "workflows"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testkit" || entry.Name() == "testdata"):
				return filepath.SkipDir
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if found, ok := readCall(call); ok {
						found.at = files.Position(call.Pos()).String()
						all = append(all, found)
					}
				}
				return true
			})
			return nil
		})
		require.NoError(t, err)
	}
	return all
}

// levelOf is the level of a line that the lifecycle has written by its settings; "" if it is no such call.
func levelOf(method *ast.SelectorExpr, args []ast.Expr) string {
	by, ok := method.X.(*ast.SelectorExpr)
	if !ok || by.Sel.Name != "by" || method.Sel.Name != "Log" || len(args) < 2 {
		return ""
	}
	if level, ok := args[0].(*ast.SelectorExpr); ok {
		return strings.TrimPrefix(level.Sel.Name, "Level")
	}
	return ""
}

func readCall(call *ast.CallExpr) (logCall, bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return logCall{}, false
	}
	args := call.Args
	found := logCall{method: method.Sel.Name}
	if level := levelOf(method, args); level != "" {
		found.method, args = level, args[1:]
	} else if !isLogger(method.X) {
		return logCall{}, false
	}
	switch found.method {
	case "Debug", "Info", "Warn", "Error":
		if len(args) == 0 {
			return logCall{}, false
		}
		found.message, _ = constant(args[0])
		args = args[1:]
	case "With":
	default:
		return logCall{}, false
	}
	for i, arg := range args {
		if i%2 == 0 && (i < len(args)-1 || !call.Ellipsis.IsValid()) {
			if key, ofPackage := constant(arg); key != "" && !ofPackage {
				found.keys = append(found.keys, key)
			}
		}
	}
	return found, true
}

// Whoever logs names things by the same keys, which are documented.
func TestKeysAreTheSameEverywhere(t *testing.T) {
	trail, known, err := testlog.Documented()
	require.NoError(t, err)
	calls := logCalls(t)
	require.Greater(t, len(calls), 80, "they are found")
	for _, c := range calls {
		for _, key := range c.keys {
			require.Contains(t, known, key, "%s: the key %q is not listed in docs/logs.md", c.at, key)
		}
	}
	for _, m := range trail {
		for _, key := range slices.Concat(m.Keys, m.More) {
			require.Contains(t, known, key, "%s: the key %q is not listed in docs/logs.md", m.Text, key)
		}
	}
}

// Each message of the trail is written somewhere, at the level that is documented, and by its
// constant: a program that looks for it finds every such line.
func TestTheTrailIsWritten(t *testing.T) {
	trail, _, err := testlog.Documented()
	require.NoError(t, err)
	levels := map[string]string{} // by the message's text
	for _, m := range trail {
		levels[m.Text] = m.Level
	}
	constants := map[string]string{
		"CleanStarted": logs.CleanStarted, "StepResumed": logs.StepResumed, "StepDone": logs.StepDone,
		"StepStopped": logs.StepStopped, "StepFailed": logs.StepFailed, "CleanEnded": logs.CleanEnded,
		"Queued": logs.Queued, "Bound": logs.Bound, "Unbound": logs.Unbound, "Returned": logs.Returned,
		"CleanFailed": logs.CleanFailed, "CleanAborted": logs.CleanAborted, "Refused": logs.Refused,
		"HostUnreachable": logs.HostUnreachable, "HostWaitEnded": logs.HostWaitEnded, "Settings": logs.Settings,
		"Rules": logs.Rules, "UnknownSetting": logs.UnknownSetting,
	}
	require.ElementsMatch(t, slices.Collect(maps.Values(constants)), slices.Collect(maps.Keys(levels)))
	written := map[string]bool{}
	for _, c := range logCalls(t) {
		require.Empty(t, levels[c.message], "%s: the message stands in package logs", c.at)
		if text, ok := constants[c.message]; ok {
			require.Equal(t, levels[text], strings.ToUpper(c.method), c.at)
			written[c.message] = true
		}
	}
	require.Len(t, written, len(constants))
}
