package main

import (
	"errors"
	"os"

	"burnish/internal/device"
	"burnish/internal/hardware/nvme/privileged"
	"burnish/internal/host"
)

// The helper's files and programs are constants: an unprivileged user starts it, whose
// arguments and environment must decide nothing.
const helperRules = "/etc/burnish/host.yaml"

var helperTools = []string{"/usr/sbin/nvme", "/sbin/nvme", "/usr/bin/nvme"}

// runNVMeHelper is this program as the helper of a host worker that is not root (S2.67).
// It reports to that worker, in one line, what keeps it from working.
func runNVMeHelper(args []string) error {
	if len(args) > 0 {
		return usageError{errors.New(privileged.Subcommand + " takes no arguments")}
	}
	local, err := privileged.LocalForHelper(helperTools...)
	s := &privileged.Server{Local: local}
	var rules *host.Rules
	if err == nil {
		rules, err = host.LoadRootRules(helperRules)
	}
	if err != nil {
		s.StartupError = &device.Fault{Class: device.NeedsOperator, Code: device.CodeNotAllowed,
			Message: "the NVMe helper does nothing: " + err.Error(), Remedy: "see docs/nvme.md, Without root"}
	} else {
		s.Allow = rules.AllowPCI
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return privileged.RunHelper(s)
}
