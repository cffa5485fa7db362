package mutation

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutation is one rule taken out: old, which stands in file exactly once, becomes new.
type mutation struct {
	rule, file, old, new string
	// pkg and run name the tests of which one must fail.
	pkg, run string
}

var mutations = []mutation{
	{"F1: the fence is a lock that other processes see", "internal/host/fence.go",
		"unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)", "error(nil)",
		"./internal/host", "TestF1_"},
	{"F1: an attempt that was overtaken leaves the device alone", "activities/step.go",
		"case verdict.Fault != nil:", "case false:",
		"./activities", "TestF1_"},
	{"F1: the fence is asked for before each chunk", "activities/step.go",
		"if err := fence.Held(); err != nil {", "if err := error(nil); err != nil {",
		"./activities", "TestF1_"},
	{"F2: the device is flushed before a chunk counts", "internal/clean/steps/zero.go",
		"if err := w.Device.Flush(ctx); err != nil {", "if err := error(nil); err != nil {",
		"./internal/clean/steps", "TestF2_"},
	{"F3: lost contact is never reported as cancelled", "activities/step.go",
		"return soon(device.CodeLostContact, \"contact to the server was lost\")", "return temporal.NewCanceledError()",
		"./activities", "TestF3_"},
	{"F4: an allocation between the look and the write is seen", "internal/inventory/rules.go",
		"if st.Generation != u.Generation {", "if false {",
		"./internal/inventory", "Test"},
	{"F4: a device in use is not cleaned", "workflows/clean.go",
		"if stock.Used > 0 {", "if false {",
		"./workflows", "TestF4_"},
	{"F4: the clean burns first", "workflows/clean.go",
		"	in := d.stockInput()\n	in.Raise = true\n", "	in := d.stockInput()\n",
		"./workflows", "TestF4_"},
	{"F5: another generation than the recorded one is never lowered with", "workflows/release.go",
		"case stock.Generation != generation:", "case false:",
		"./workflows", "TestF5_"},
	{"F5: lowering is never repeated unseen", "workflows/options.go",
		"temporal.RetryPolicy{MaximumAttempts: 1}", "temporal.RetryPolicy{MaximumAttempts: 3}",
		"./workflows", "TestF5_"},
	{"F6: only its own instance ends a binding", "internal/device/table.go",
		"return d.Binding != nil && d.Binding.Instance == e.Instance", "return d.Binding != nil",
		"./workflows", "TestF6_"},
	{"F6: a hint that is older than the binding is dropped", "workflows/look.go",
		"if err != nil || seen.Before(d.state.BoundAt) {", "if err != nil || seen.IsZero() {",
		"./workflows", "TestF6_"},
	{"F7: named steps never make a device clean", "internal/device/table.go",
		"CleanDone, when(notReturn, fullPlan)", "CleanDone, when(notReturn)",
		"./internal/device", "."},
	{"F7: the start of a burn makes a device dirty", "internal/device/table.go",
		"d.Dirty, d.Claim.Burning = true, true", "d.Claim.Burning = true",
		"./internal/device", "."},
	{"F8: an attempt starts with what earlier ones left of the budget", "activities/step.go",
		"remaining := a.in.Budget - a.used", "remaining := a.in.Budget",
		"./activities", "TestF8_"},
	{"F9: a cancel waits for the step", "workflows/options.go",
		"WaitForCancellation:    true", "WaitForCancellation:    false",
		"./workflows", "TestF9_"},
	{"F10: numbers of the host's record count", "workflows/look.go",
		"r.Seq > d.state.Seq || r.Binding", "false || r.Binding",
		"./workflows", "Recover|F10"},
	{"F13: no PCI device without an entry that matches", "internal/host/rules.go",
		"	case !matches:", "	case !matches && false:",
		"./internal/host", "TestF13_"},
	{"F13: all criteria of an entry must hold", "internal/pci/spec.go",
		"(s.product == wild || s.product == d.Product) &&", "(s.product == wild || s.product == d.Product) ||",
		"./internal/pci", "TestS2_7_"},
	{"F14: a file that overwrites elsewhere is refused", "internal/hardware/block/filesystem.go",
		"if uint32(known.magic) == uint32(stat.Type) {", "if true {",
		"./internal/hardware/block", "TestF14_"},
	{"F14: the resolved path is opened without following links", "internal/hardware/block/block.go",
		"Resolve: unix.RESOLVE_NO_SYMLINKS", "Resolve: 0",
		"./internal/hardware/block", "TestF14_"},
	{"F11: a disk or a loop must be the enrolled one", "internal/hardware/block/device.go",
		"field := d.enrolled.Differs(v.identity); field != \"\"", "field := d.enrolled.Differs(v.identity); field == \"-\"",
		"./internal/hardware/block", "TestF14_RefusedAndNothingIsWritten/disk/(replaced|grown)"},
	{"F11: before every write it is still the device that was opened", "internal/hardware/block/device.go",
		"	if seq != d.seen.seq {", "	if seq < 0 {",
		"./internal/hardware/block", "TestF11_AskedAgain"},
	{"F11: before every write the loop still shows its file", "internal/hardware/block/loop.go",
		"if now.Device != i.info.Device || now.Inode != i.info.Inode || now.Offset != i.info.Offset || now.Sizelimit != i.info.Sizelimit {", "if now == nil {",
		"./internal/hardware/block", "TestF11_AskedAgain"},
	{"F12: the writing descriptor holds the claim", "internal/hardware/block/claim.go",
		"openOnce(path, flags|unix.O_EXCL)", "openOnce(path, flags)",
		"./internal/hardware/block", "TestF12_"},
	{"F12: a disk that something holds is refused", "internal/hardware/block/claim.go",
		"if len(holders) > 0 {", "if len(holders) < 0 {",
		"./internal/hardware/block", "TestF14_RefusedAndNothingIsWritten/disk/.*held"},
	{"F12: the system's own disk is refused", "internal/hardware/block/claim.go",
		"} else if below {", "} else if below && false {",
		"./internal/hardware/block", "TestF14_RefusedAndNothingIsWritten/disk/the_system"},
	{"F12: who writes without a claim is found", "internal/hardware/block/claim.go",
		"			if writes {", "			if writes && false {",
		"./internal/hardware/block", "TestF14_RefusedAndNothingIsWritten/loop/.*held_open"},
	{"F14: a loop over the same file is found", "internal/hardware/block/interlock.go",
		"if known && is(found) {", "if known && is(found) && false {",
		"./internal/hardware/block", "TestF14_RefusedAndNothingIsWritten/(file|loop)/(behind|second)"},
	{"F14: a loop shows all of its file", "internal/hardware/block/loop.go",
		"if i.info.Offset == 0 && (limit == 0 || limit == i.stat.Size) && size == i.stat.Size {", "if limit >= 0 {",
		"./internal/hardware/block", "TestF14_Loop"},
	{"F14: the file behind a loop is overwritten in place", "internal/hardware/block/device.go",
		"behind(path, v.image.path, d.sys.overwritesAt(v.image.fd, v.image.path, v.image.stat, v.image.on, 1))", "error(nil)",
		"./internal/hardware/block", "TestF14_NotInPlace$"},
	{"F14: only whole disks that tell who they are", "internal/hardware/block/sysfs.go",
		"bus := s.bus(dir); !slices.Contains(buses, bus)", "bus := s.bus(dir); bus == \"-\"",
		"./internal/hardware/block", "TestF14_WhatIsNoWholeDisk"},
	{"F14: two disks that cannot be told apart are refused", "internal/hardware/block/sysfs.go",
		"if other.serial == serial {", "if other.serial == \"-\" {",
		"./internal/hardware/block", "TestF14_WhatIsNoWholeDisk"},
	{"F16: no device is asked to zero itself", "internal/hardware/block/system.go",
		"unix.Pwrite,", "func(fd int, p []byte, at int64) (int, error) { return len(p), unix.Fallocate(fd, 0x11, at, int64(len(p))) },",
		"./internal/hardware/block", "TestF16_"},
	{"F17: a layout that nobody knows is put in order before it is zeroed", "internal/clean/catalog.go",
		"s.Operation.Overwrites() && s.Layout != device.LayoutWhole", "s.Operation.Overwrites() && s.Layout == device.LayoutSplit",
		"./internal/clean", "TestS2_53_"},
	{"F17: a list of namespaces that may go on is none", "internal/hardware/nvme/nvmecli/namespace.go",
		"if len(list) >= mostListed {", "if false {",
		"./internal/hardware/nvme/nvmecli", "TestF17_"},
	{"F17: blocks of no size are a fault", "internal/hardware/nvme/nvmecli/namespace.go",
		"case size == 0:", "case n.Blocks == 0:",
		"./internal/hardware/nvme/nvmecli", "TestF17_"},
	{"F1: the NVMe helper changes nothing without the fence", "internal/hardware/nvme/privileged/server.go",
		"unix.Flock(int(held.Fence.Fd()), unix.LOCK_EX|unix.LOCK_NB)", "error(nil)",
		"./internal/hardware/nvme/privileged", "TestF12_F1_"},
	{"F11: the NVMe helper changes the drive with the named serial alone", "internal/hardware/nvme/privileged/local.go",
		"if serial == \"\" || got != serial {", "if false {",
		"./internal/hardware/nvme/privileged", "TestF12_F1_"},
	{"F12: the NVMe helper wants every disk of the drive", "internal/hardware/nvme/privileged/server.go",
		"if !given[number] {", "if false {",
		"./internal/hardware/nvme/privileged", "TestF12_"},
	{"F12: the NVMe helper wants the disks opened exclusively", "internal/hardware/nvme/privileged/server.go",
		"	return busy(\"%s is not opened exclusively by the caller\", node)\n", "	return nil\n",
		"./internal/hardware/nvme/privileged", "TestF12_"},
	{"F18: a sanitize log without a status is none", "internal/hardware/nvme/nvmecli/sanitize.go",
		"	if !found {\n", "	if false {\n",
		"./internal/hardware/nvme/nvmecli", "TestF18_"},
	{"F18: a status that nobody knows is none", "internal/hardware/nvme/nvmecli/sanitize.go",
		"if l.Status > SanitizeDoneNoFree {", "if false {",
		"./internal/hardware/nvme/nvmecli", "TestF18_"},
	{"F19: what was sanitized is not held to zeroes", "internal/clean/steps/verify.go",
		"	description.Applies = overwrites\n", "",
		"./internal/clean/steps", "TestS2_22_"},
	{"F19: a loop is read from below its file's cache", "internal/hardware/block/handle.go",
		"below := h.subject.below(); below >= 0", "below := h.subject.below(); below < -1",
		"./internal/hardware/block", "TestF19_"},
	{"F19: every byte is compared", "internal/clean/steps/verify.go",
		"case !bytes.Equal(b.data[:b.n], zeroes[:b.n]):", "case !bytes.Equal(b.data[:1], zeroes[:1]):",
		"./internal/clean/steps", "TestF19_"},
	{"F19: every block is read", "internal/clean/steps/verify.go",
		"for at := offset; at < size; at += step {", "for at := offset; at < size; at += 2 * step {",
		"./internal/clean/steps", "TestF19_"},
	{"F19: nothing read is no proof", "internal/clean/steps/steps.go",
		"if size <= 0 {", "if size < 0 {",
		"./internal/clean/steps", "TestF19_"},
	{"F23: what was seen at a second place is not returned", "workflows/release.go",
		"if d.state.Intent.Twin != \"\" {", "if false {",
		"./workflows", "TestF23_"},
	{"F23: a silent host clears nothing", "workflows/look.go",
		"case d.state.Intent.Twin != \"\" && !tells:", "case d.state.Intent.Twin != \"\" && f == nil:",
		"./workflows", "TestF23_"},
	{"the gate: no continue-as-new while a signal is unread", "workflows/device.go",
		"case d.signals.HasPending():", "case d.signals.HasPending() && !d.mayEnd(ctx):",
		"./workflows", "."},
	{"the gate: no continue-as-new while a handler runs", "workflows/device.go",
		"!workflow.AllHandlersFinished(ctx) || ", "",
		"./workflows", "."},
}

// TestEachRuleIsHeldByATest compiles each mutation and runs the tests that must see it.
func TestEachRuleIsHeldByATest(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	for _, m := range mutations {
		t.Run(m.rule, func(t *testing.T) {
			path := filepath.Join(root, m.file)
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, 1, strings.Count(string(text), m.old), "the mutation's place in %s", m.file)
			mutant := filepath.Join(t.TempDir(), filepath.Base(m.file))
			require.NoError(t, os.WriteFile(mutant, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600))
			overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{path: mutant}})
			require.NoError(t, err)
			overlayFile := filepath.Join(t.TempDir(), "overlay.json")
			require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))

			cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-failfast", "-timeout=60s",
				"-overlay", overlayFile, "-run", m.run, m.pkg)
			cmd.Dir = root
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "every test stayed green without the rule:\n%s", out)
			require.NotContains(t, string(out), "[build failed]", "it must be a test that fails, not the compiler:\n%s", out)
		})
	}
}
