package steps_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/config"
	"burnish/internal/device"
)

var update = flag.Bool("update", false, "write testdata/plans/*.txt")

// devices are one of each kind.
func devices() []clean.Subject {
	known := steps.All().Versions()
	drive := func(model string, operation device.Operation, can device.Capabilities) clean.Subject {
		return clean.Subject{Name: model, Type: "NVME", Model: model, Operation: operation, NVMe: true, Capabilities: can,
			Traits: can.Traits(), Size: 1 << 40, HostSteps: known}
	}
	return []clean.Subject{
		{Name: "disk", Type: "DISK", Operation: device.Shred, Size: 1 << 40, HostSteps: known},
		drive("CRYPTO", device.CryptoErase, device.Capabilities{CryptoErase: true, ManageNamespaces: true}),
		drive("ZEROES", device.WriteZeroes, device.Capabilities{WriteZeroes: true, ManageNamespaces: true}),
		{Name: "gpu", Type: "GPU", Operation: device.Script, SupportedSteps: []string{"firmware_reflash", "pci_reset"}, HostSteps: known},
		{Name: "server", Type: "NODE", Vendor: "Dell", Model: "R750", Operation: device.SecureErase, HostSteps: known,
			SupportedSteps: []string{"security_check", "erase_drives", "verify", "firmware_reflash", "verify_firmware",
				"bios_reset", "boot_restore", "secure_boot_restore", "tpm_clear", "bios_apply", "bmc_restore",
				"verify_properties"}},
	}
}

// Each policy of testdata/plans gives each kind of device the plan beside it.
//
// D6, D13, S3.7, S3.8, S3.12
func TestPlansOfPolicies(t *testing.T) {
	files, err := filepath.Glob("testdata/plans/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			policy, err := config.LoadPolicy(file)
			require.NoError(t, err)
			planner, err := clean.NewPlanner(steps.All().Planning(), policy)
			require.NoError(t, err)
			var b strings.Builder
			for _, s := range devices() {
				fmt.Fprintf(&b, "%s (%s, %s)\n", s.Name, s.Type, s.Operation)
				if book, fault := planner.Automated(s); fault == nil && book != nil {
					fmt.Fprintf(&b, "  runbook %s\n", book.Name)
				}
				plan, fault := planner.Full(s)
				if fault != nil {
					fmt.Fprintf(&b, "  %s: %s\n", fault.Code, fault)
				}
				for _, p := range plan {
					require.NoError(t, p.Step.Args.CheckRecorded(p.Args), "the host's check of what a plan records: %s", p.Step.Name)
					fmt.Fprintln(&b,
						strings.TrimRight(fmt.Sprintf("  %-23s %6g  %-10s %-8s %9s  %s", p.Step.Name, p.Priority, p.Step.Interface,
							p.Step.Phase, p.Timeout, p.Args), " "))
				}
				b.WriteString("\n")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(b.String()), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String())
		})
	}
}

// The operators' page says in which order steps run, and each of its examples does what it says.
//
// S3.43
func TestThePageSaysHowToChangeTheSteps(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operating.md")
	require.NoError(t, err)
	page := strings.Join(strings.Fields(string(text)), " ")
	plan := func(kind int, example string) (names []string) {
		require.Contains(t, page, example)
		file := filepath.Join(t.TempDir(), "policy.yaml")
		require.NoError(t, os.WriteFile(file, []byte(example+"\n"), 0o600))
		policy, err := config.LoadPolicy(file)
		require.NoError(t, err)
		planner, err := clean.NewPlanner(steps.All().Planning(), policy)
		require.NoError(t, err)
		for _, p := range planner.Enabled(devices()[kind]) {
			names = append(names, fmt.Sprintf("%s %s %g", p.Step.Phase, p.Step.Name, p.Priority))
		}
		return names
	}
	const drive, gpu = 1, 3
	require.Contains(t, page, "Phases run in the order prepare, erase, verify, restore;")
	require.Contains(t, page, "within a phase the higher priority runs first")
	erase := []string{"erase sanitize 90", "erase consolidate_namespaces 80", "verify verify 60"}
	require.Equal(t, append([]string{"prepare security_check 100", "prepare wear_check 95"}, erase...), plan(drive, ""))
	program := []string{"erase erase_device 75", "verify verify 60"}
	require.Equal(t, append(program, "restore firmware_reflash 50"), plan(gpu, ""))

	require.Contains(t, page, "# 0 switches a step off, another number on")
	const priorities = "priorities: {wear_check: 0, security_check: 110, pci_reset: 20}"
	require.Equal(t, append([]string{"prepare security_check 110"}, erase...), plan(drive, priorities))
	require.Equal(t, append(program, "restore firmware_reflash 50", "restore pci_reset 20"), plan(gpu, priorities))
	const phases = "phases: {firmware_reflash: prepare}"
	require.Equal(t, append([]string{"prepare firmware_reflash 50"}, program...), plan(gpu, phases))
}

// An operator chooses among the firmware policy's images, and brings none; other arguments than
// those of a step's schema are refused.
func TestTheFirmwareIsThePolicys(t *testing.T) {
	policy, err := config.LoadPolicy("testdata/plans/lists.yaml")
	require.NoError(t, err)
	planner, err := clean.NewPlanner(steps.All().Planning(), policy)
	require.NoError(t, err)
	server := devices()[4]
	manual := func(step, args string) ([]clean.Planned, *device.Fault) {
		return planner.Manual(server,
			clean.Request{Steps: []string{step}, Args: map[string]json.RawMessage{step: json.RawMessage(args)}})
	}
	for _, step := range []string{"firmware_reflash", "verify_firmware"} {
		plan, fault := manual(step, `{"component":"bmc"}`)
		require.Nil(t, fault)
		require.Contains(t, string(plan[0].Args), `"image":"/srv/bmc"`)
		require.NotContains(t, string(plan[0].Args), "bios")
		for _, args := range []string{`{"component":"PSU"}`, `{"image":"/tmp/x"}`, `{"components":[{"image":"/tmp/x"}]}`,
			`{"component":["BMC"]}`, `{"component":"BMC","to":"9"}`} {
			_, fault = manual(step, args)
			require.NotNil(t, fault, args)
			require.Equal(t, device.CodeInvalid, fault.Code, args)
		}
	}
	for step, args := range map[string]string{"verify_properties": `{"cpus":1}`, "erase_drives": `{"drives":[]}`,
		"verify": `{"sample":9}`, "bios_reset": `{"now":true}`} {
		_, fault := manual(step, args)
		require.NotNil(t, fault, step)
		require.Equal(t, device.CodeInvalid, fault.Code, step)
	}
	server.Model = "X1"
	_, fault := manual("firmware_reflash", `{"component":"BIOS"}`)
	require.NotNil(t, fault)
	_, fault = planner.Manual(server, clean.Request{Steps: []string{"firmware_reflash"}})
	require.NotNil(t, fault, "the policy has nothing for it")
}

// The steps that restore how a server was set up get the profile that it was enrolled with; one that the policy
// does not know stays without items, which the host refuses.
func TestAServerGetsItsGoldenProfile(t *testing.T) {
	policy, err := config.LoadPolicy("testdata/plans/setup.yaml")
	require.NoError(t, err)
	planner, err := clean.NewPlanner(steps.All().Planning(), policy)
	require.NoError(t, err)
	server := devices()[4]
	for golden, want := range map[string]string{
		"rack": `{"golden":"rack","setup":{"accounts":{"root":"Administrator, enabled"},"boot_order":{"place 01":"PXE"}},"require":["tpm","boot_order"]}`,
		"none": `{"golden":"none","require":["tpm","boot_order"]}`,
		"":     `{"require":["tpm","boot_order"]}`,
	} {
		server.Golden = golden
		plan, fault := planner.Full(server)
		require.Nil(t, fault)
		given := 0
		for _, p := range plan {
			if slices.Contains([]string{"boot_restore", "secure_boot_restore", "tpm_clear", "bmc_restore"}, p.Step.Name) {
				require.JSONEq(t, want, string(p.Args), p.Step.Name)
				given++
			}
		}
		require.Equal(t, 4, given)
	}
}
