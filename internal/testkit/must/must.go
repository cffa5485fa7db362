// Package must is for programs of the test kit that go on only while all goes well, as a test does by
// require: the first error ends what Try runs, and nothing in between handles it.
package must

import "fmt"

// failure is what ends it.
type failure struct{ err error }

// Do goes on where err is nil.
func Do(err error) {
	if err != nil {
		panic(failure{err}) //nolint:forbidigo // Try returns it
	}
}

// Get is Do for a call with a result.
func Get[T any](v T, err error) T {
	Do(err)
	return v
}

// Be goes on where ok is true.
func Be(ok bool, format string, args ...any) {
	if !ok {
		Do(fmt.Errorf(format, args...))
	}
}

// Try runs do and returns the error that ended it.
func Try(do func()) (err error) {
	defer func() {
		switch x := recover().(type) {
		case nil:
		case failure:
			err = x.err
		default:
			panic(x) //nolint:forbidigo // a bug
		}
	}()
	do()
	return nil
}
