package redfishsim_test

import (
	"fmt"
	"os"
	"testing"
)

// folder is of the whole test run.
var folder string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "redfishsim")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	folder = dir
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
