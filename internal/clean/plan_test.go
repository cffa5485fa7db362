package clean_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
)

func always(clean.Subject) bool { return true }
func never(clean.Subject) bool  { return false }

// step is a step that applies to every device.
func step(name, iface string, phase clean.Phase, priority float64) clean.Step {
	return clean.Step{
		Name: name, Interface: iface, Phase: phase, Priority: priority, Version: 1, Applies: always,
		Timeout: func(s clean.Subject) time.Duration { return time.Duration(s.Size) * time.Second },
	}
}

// catalog has several steps in each phase, in no order.
func catalog() []clean.Step {
	return []clean.Step{
		step("properties", "management", clean.Restore, 30),
		step("verify", "deploy", clean.Verify, 60),
		step("firmware", "firmware", clean.Restore, 50),
		step("zero", "deploy", clean.Erase, 70),
		step("wear", "management", clean.Prepare, 95),
		step("reset", "power", clean.Restore, 0),
		step("namespaces", "deploy", clean.Erase, 80),
		step("security", "management", clean.Prepare, 100),
	}
}

// subject is a device whose host knows all steps.
func subject(steps []clean.Step) clean.Subject {
	s := clean.Subject{Name: "d", Type: "NVME", Operation: device.WriteZeroes, Size: 7, HostSteps: map[string]int{}}
	for _, step := range steps {
		s.HostSteps[step.Name] = step.Version
	}
	return s
}

func planner(t *testing.T, steps []clean.Step, policy clean.Policy) *clean.Planner {
	t.Helper()
	p, err := clean.NewPlanner(steps, policy)
	require.NoError(t, err)
	return p
}

func namesOf(plan []clean.Planned) []string {
	names := []string{}
	for _, p := range plan {
		names = append(names, p.Step.Name)
	}
	return names
}

func full(t *testing.T, steps []clean.Step, policy clean.Policy) []string {
	t.Helper()
	plan, fault := planner(t, steps, policy).Full(subject(steps))
	require.Nil(t, fault)
	return namesOf(plan)
}

// D13, S3.7, S3.9, S3.8
func TestPhaseThenPriority(t *testing.T) {
	for name, tt := range map[string]struct {
		priorities map[string]float64
		want       []string
	}{
		"the highest first": {nil,
			[]string{"security", "wear", "namespaces", "zero", "verify", "firmware", "properties"}},
		"priority 0: not run": {map[string]float64{"wear": 0, "firmware": 0},
			[]string{"security", "namespaces", "zero", "verify", "properties"}},
		"switched on": {map[string]float64{"reset": 0.5},
			[]string{"security", "wear", "namespaces", "zero", "verify", "firmware", "properties", "reset"}},
		"another order": {map[string]float64{"properties": 60.5, "wear": 101},
			[]string{"wear", "security", "namespaces", "zero", "verify", "properties", "firmware"}},
		"fractions": {map[string]float64{"wear": 100.5},
			[]string{"wear", "security", "namespaces", "zero", "verify", "firmware", "properties"}},
		"a priority leaves no phase": {map[string]float64{"properties": 10000, "verify": 1000, "security": 0.001},
			[]string{"wear", "security", "namespaces", "zero", "verify", "properties", "firmware"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, full(t, catalog(), clean.Policy{Priorities: tt.priorities}))
		})
	}
}

// A driver may give a step of its devices another priority; the policy's comes first.
func TestAPriorityOfTheDriver(t *testing.T) {
	steps := catalog()
	for name, tt := range map[string]struct {
		policy map[string]float64
		want   []string
	}{
		"on":                {nil, []string{"security", "wear", "namespaces", "zero", "verify", "reset", "firmware", "properties"}},
		"the policy's own":  {map[string]float64{"reset": 0.5}, []string{"security", "wear", "namespaces", "zero", "verify", "firmware", "properties", "reset"}},
		"off by the policy": {map[string]float64{"reset": 0}, []string{"security", "wear", "namespaces", "zero", "verify", "firmware", "properties"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := subject(steps)
			s.Priorities = map[string]float64{"reset": 1000}
			plan, fault := planner(t, steps, clean.Policy{Priorities: tt.policy}).Full(s)
			require.Nil(t, fault)
			require.Equal(t, tt.want, namesOf(plan))
		})
	}
}

// TestTiesAcrossInterfaces: whatever order the steps are listed in.
//
// D6, S3.12
func TestTiesAcrossInterfaces(t *testing.T) {
	want := []string{"vendor", "power", "management", "firmware", "deploy", "bios", "raid"}
	var steps []clean.Step
	for _, name := range want {
		steps = append(steps, step(name, name, clean.Prepare, 10))
	}
	steps = append(steps, step("zero", "deploy", clean.Erase, 1), step("verify", "deploy", clean.Verify, 1))
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		require.Equal(t, append(slices.Clone(want), "zero", "verify"), full(t, steps, clean.Policy{}))
	}
}

// S3.13
func TestRefusedPolicies(t *testing.T) {
	for name, tt := range map[string]struct {
		steps      []clean.Step
		priorities map[string]float64
		want       []string
	}{
		"a tie inside one interface": {catalog(), map[string]float64{"security": 95},
			[]string{"security", "wear", "management", "95"}},
		"a tie of two that the policy names": {catalog(), map[string]float64{"wear": 5, "security": 5},
			[]string{"security", "wear", "management", "5"}},
		"a tie of the steps' own": {append(catalog(), step("rewrite", "deploy", clean.Erase, 80)), nil,
			[]string{"namespaces", "rewrite", "deploy", "80"}},
		"a step that does not exist": {catalog(), map[string]float64{"polish": 1},
			[]string{`"polish"`, "properties, verify, firmware, zero, wear, reset, namespaces, security"}},
		"negative":          {catalog(), map[string]float64{"wear": -1}, []string{"wear", "-1", "0 switches a step off"}},
		"an erase at 0":     {catalog(), map[string]float64{"zero": 0}, []string{"zero", "cannot be switched off"}},
		"a verify at 0":     {catalog(), map[string]float64{"verify": 0}, []string{"verify", "cannot be switched off"}},
		"one of two erases": {catalog(), map[string]float64{"namespaces": 0}, []string{"namespaces", "cannot be switched off"}},
		"no number":         {catalog(), map[string]float64{"wear": math.NaN()}, []string{"policy", "wear"}},
		"infinite":          {catalog(), map[string]float64{"wear": math.Inf(1)}, []string{"policy", "wear"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := clean.NewPlanner(tt.steps, clean.Policy{Priorities: tt.priorities})
			require.Error(t, err)
			for _, text := range tt.want {
				require.ErrorContains(t, err, text)
			}
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestNoTie(t *testing.T) {
	for name, priorities := range map[string]map[string]float64{
		"two interfaces":      {"firmware": 30},
		"two phases":          {"verify": 70, "zero": 70},
		"two that do not run": {"security": 0, "wear": 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := clean.NewPlanner(catalog(), clean.Policy{Priorities: priorities})
			require.NoError(t, err)
		})
	}
}

// TestAPolicyIsNotSharedWithItsMaker: what is changed later changes no plan.
func TestAPolicyIsNotSharedWithItsMaker(t *testing.T) {
	priorities := map[string]float64{"wear": 200}
	p := planner(t, catalog(), clean.Policy{Priorities: priorities})
	priorities["wear"] = 0
	plan, fault := p.Full(subject(catalog()))
	require.Nil(t, fault)
	require.Equal(t, "wear", plan[0].Step.Name)
	require.InDelta(t, 200, plan[0].Priority, 0)
	require.InDelta(t, 200, p.Policy().Priorities["wear"], 0)
}

func TestOnlyWhatApplies(t *testing.T) {
	steps := catalog()
	for i := range steps {
		if steps[i].Name == "namespaces" || steps[i].Name == "firmware" {
			steps[i].Applies = never
		}
	}
	s := subject(steps)
	delete(s.HostSteps, "firmware")
	plan, fault := planner(t, steps, clean.Policy{}).Full(s)
	require.Nil(t, fault, "a host need not know what does not apply")
	require.Equal(t, []string{"security", "wear", "zero", "verify", "properties"}, namesOf(plan))
}

func TestNoErasePath(t *testing.T) {
	for name, tt := range map[string]struct {
		lacks []string
	}{
		"no erase":       {[]string{"zero", "namespaces"}},
		"no verify":      {[]string{"verify"}},
		"nothing at all": {[]string{"zero", "namespaces", "verify", "security", "wear", "firmware", "properties", "reset"}},
	} {
		t.Run(name, func(t *testing.T) {
			steps := catalog()
			for i := range steps {
				if slices.Contains(tt.lacks, steps[i].Name) {
					steps[i].Applies = never
				}
			}
			p := planner(t, steps, clean.Policy{})
			plan, fault := p.Full(subject(steps))
			require.NotNil(t, fault)
			require.Empty(t, plan)
			require.Equal(t, device.CodeNoErasePath, fault.Code)
			require.Equal(t, device.NeedsOperator, fault.Class)
			require.NotEmpty(t, fault.Remedy)
			require.Empty(t, p.Enabled(subject(steps)), "nothing to list")
		})
	}
}

// TestHostTooOld: a step that the host does not know ends the plan, whichever
// it is, and is named.
func TestHostTooOld(t *testing.T) {
	steps := catalog()
	p := planner(t, steps, clean.Policy{})
	for _, missing := range []string{"security", "zero", "verify", "firmware"} {
		t.Run(missing, func(t *testing.T) {
			s := subject(steps)
			delete(s.HostSteps, missing)
			for _, fault := range []*device.Fault{faultOf(p.Full(s)),
				faultOf(p.Manual(s, clean.Request{Steps: []string{missing}}))} {
				require.NotNil(t, fault)
				require.Equal(t, device.CodeHostWorkerTooOld, fault.Code)
				require.Contains(t, fault.Message, missing)
				require.Contains(t, fault.Remedy, s.Name)
			}
			require.Empty(t, p.Enabled(s))
		})
	}
	t.Run("a step that is switched off need not be known", func(t *testing.T) {
		s := subject(steps)
		delete(s.HostSteps, "reset")
		_, fault := p.Full(s)
		require.Nil(t, fault)
	})
	t.Run("nothing known yet", func(t *testing.T) {
		s := subject(steps)
		s.HostSteps = nil
		require.NotNil(t, faultOf(p.Full(s)))
	})
}

func faultOf(_ []clean.Planned, f *device.Fault) *device.Fault { return f }

// S3.22
func TestNamedSteps(t *testing.T) {
	steps := catalog()
	steps = append(steps, step("tape", "deploy", clean.Erase, 5))
	steps[len(steps)-1].Applies = never
	p := planner(t, steps, clean.Policy{Priorities: map[string]float64{"wear": 0}})
	for name, tt := range map[string]struct {
		wanted, plan []string
		code         device.Code
	}{
		"one":                              {[]string{"zero"}, []string{"zero"}, ""},
		"the order given":                  {[]string{"verify", "properties", "zero"}, []string{"verify", "properties", "zero"}, ""},
		"twice is once":                    {[]string{"zero", "verify", "zero"}, []string{"zero", "verify"}, ""},
		"what is switched off otherwise":   {[]string{"reset", "wear"}, []string{"reset", "wear"}, ""},
		"unknown":                          {[]string{"zero", "polish"}, nil, device.CodeNoSuchStep},
		"one that has no use for a device": {[]string{"tape"}, nil, device.CodeNoSuchStep},
	} {
		t.Run(name, func(t *testing.T) {
			plan, fault := p.Manual(subject(steps), clean.Request{Steps: tt.wanted})
			if tt.code == "" {
				require.Nil(t, fault)
				require.Equal(t, tt.plan, namesOf(plan))
				return
			}
			require.NotNil(t, fault)
			require.Empty(t, plan)
			require.Equal(t, tt.code, fault.Code)
			require.Contains(t, fault.Message, fmt.Sprintf("%q", tt.wanted[len(tt.wanted)-1]))
			require.Equal(t, "name one of properties, verify, firmware, zero, wear, reset, namespaces, security", fault.Remedy,
				"those possible for this device, and only those")
		})
	}
}

// S3.10
func TestEnabledIsTheFullPlan(t *testing.T) {
	p := planner(t, catalog(), clean.Policy{Priorities: map[string]float64{"wear": 0, "zero": 99.5}})
	plan, fault := p.Full(subject(catalog()))
	require.Nil(t, fault)
	enabled := p.Enabled(subject(catalog()))
	require.Equal(t, namesOf(plan), namesOf(enabled))
	require.Equal(t, []string{"security", "zero", "namespaces", "verify", "firmware", "properties"}, namesOf(enabled))
	require.InDelta(t, 99.5, enabled[1].Priority, 0, "the priority that counts, not the step's own")
	for _, e := range enabled {
		require.NotZero(t, e.Priority)
	}
}

// D5, S3.41, S2.62
func TestTimeouts(t *testing.T) {
	for name, tt := range map[string]struct{ set, want time.Duration }{
		"the step's own": {0, 7 * time.Second},
		"one for all":    {3 * time.Minute, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			p := planner(t, catalog(), clean.Policy{CleanupTimeout: tt.set})
			plan, fault := p.Full(subject(catalog()))
			require.Nil(t, fault)
			named, fault := p.Manual(subject(catalog()), clean.Request{Steps: []string{"zero"}})
			require.Nil(t, fault)
			for _, step := range append(plan, named...) {
				require.Equal(t, tt.want, step.Timeout, step.Step.Name)
			}
		})
	}
}

func TestTheDigestChangesWithThePolicy(t *testing.T) {
	policies := map[string]clean.Policy{
		"none":               {},
		"priorities":         {Priorities: map[string]float64{"wear": 1}},
		"other priorities":   {Priorities: map[string]float64{"wear": 2}},
		"another step":       {Priorities: map[string]float64{"security": 1}},
		"timeout":            {CleanupTimeout: 1},
		"automated":          {Automated: true},
		"on enroll":          {OnEnroll: true},
		"error on interrupt": {StepSettings: device.StepSettings{OnInterrupt: device.InterruptError}},
		"host silent after":  {HostSilentAfter: 1},
		"verify":             {StepSettings: device.StepSettings{Verify: "full"}},
		"verify a sample":    {StepSettings: device.StepSettings{Verify: "sample:2"}},
		"nvme action":        {NVMe: clean.ErasePolicy{Action: "auto"}},
		"nvme strategy":      {NVMe: clean.ErasePolicy{Strategy: "block"}},
	}
	seen := map[string]string{}
	for name, policy := range policies {
		digest := planner(t, catalog(), policy).Digest()
		require.Regexp(t, "^[0-9a-f]{16}$", digest)
		require.Equal(t, digest, planner(t, catalog(), policy).Digest(), "the same policy, the same digest")
		require.Empty(t, seen[digest], "%s has the digest of %s", name, seen[digest])
		seen[digest] = name
	}
	require.Equal(t, planner(t, catalog(), clean.Policy{}).Digest(),
		planner(t, catalog(), clean.Policy{Priorities: map[string]float64{}}).Digest(), "an empty map says nothing")
}

// TestAnyValidPolicysFullPlanErasesAndThenVerifies tries many policies: one that
// is valid gives a plan with an erase before its verify, or no plan.
//
// F7
func TestAnyValidPolicysFullPlanErasesAndThenVerifies(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	steps := catalog()
	taken, refused, planless := 0, 0, 0
	for range 5000 {
		policy := clean.Policy{Priorities: map[string]float64{}}
		for _, s := range steps {
			switch random.IntN(4) {
			case 0:
				policy.Priorities[s.Name] = float64(random.IntN(5))
			case 1:
				policy.Priorities[s.Name] = random.Float64() * 100
			}
		}
		if _, err := clean.NewPlanner(steps, policy); err != nil {
			refused++
			continue
		}
		taken++
		shuffled := slices.Clone(steps)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i := range shuffled {
			if random.IntN(4) == 0 {
				shuffled[i].Applies = never
			}
		}
		p, err := clean.NewPlanner(shuffled, policy)
		require.NoError(t, err, "the order in which steps are listed does not matter")
		plan, fault := p.Full(subject(shuffled))
		if fault != nil {
			planless++
			require.Equal(t, device.CodeNoErasePath, fault.Code)
			continue
		}
		last := func(phase clean.Phase) (first, last int) {
			first = slices.IndexFunc(plan, func(p clean.Planned) bool { return p.Step.Phase == phase })
			for i, p := range plan {
				if p.Step.Phase == phase {
					last = i
				}
			}
			return first, last
		}
		firstErase, lastErase := last(clean.Erase)
		firstVerify, _ := last(clean.Verify)
		require.GreaterOrEqual(t, firstErase, 0, policy.Priorities)
		require.Greater(t, firstVerify, lastErase, "every erase stands before the verify: %v", policy.Priorities)
		for _, p := range plan {
			require.NotZero(t, p.Priority)
		}
	}
	for name, n := range map[string]int{"taken": taken, "refused": refused, "planless": planless} {
		require.Greater(t, n, 100, "too few are %s for this to say anything", name)
	}
}

// The full plan of a drive with a firmware policy. An operator may have the firmware written
// before the erase, so that the erase is done by the new one; all else keeps its place.
//
// D13
func TestFirmwareMayBeWrittenBeforeTheErase(t *testing.T) {
	policy := clean.Policy{PolicyLists: clean.PolicyLists{Firmware: []clean.FirmwarePolicy{
		{Match: clean.Match{Model: "M*"}, FirmwareImage: clean.FirmwareImage{From: []string{"1"}, To: "2"}},
	}}}
	drive := clean.Subject{Name: "d", NVMe: true, Model: "M1", Operation: device.CryptoErase, Size: 1 << 30,
		Layout:         device.LayoutWhole,
		Capabilities:   device.Capabilities{CryptoErase: true, ManageNamespaces: true},
		SupportedSteps: []string{"firmware_reflash", "verify_firmware"}, HostSteps: steps.All().Versions()}
	list := func(policy clean.Policy) (names []string) {
		planner, err := clean.NewPlanner(steps.All().Planning(), policy)
		require.NoError(t, err)
		plan, fault := planner.Full(drive)
		require.Nil(t, fault)
		for _, p := range plan {
			names = append(names, p.Step.Name)
			if p.Step.Name == "firmware_reflash" {
				require.Equal(t, policy.Phases[p.Step.Name] == clean.Prepare, p.Step.Phase == clean.Prepare)
				require.JSONEq(t, `{"components":[{"from":["1"],"to":"2","image":"","sha256":""}]}`, string(p.Args))
			}
		}
		return names
	}
	require.Equal(t, []string{"security_check", "wear_check", "sanitize", "verify", "firmware_reflash", "verify_firmware"},
		list(policy))
	policy.Phases = map[string]clean.Phase{"firmware_reflash": clean.Prepare}
	require.Equal(t, []string{"security_check", "wear_check", "firmware_reflash", "sanitize", "verify", "verify_firmware"},
		list(policy))
	require.Equal(t, clean.Restore, steps.FirmwareReflash().Phase, "only this planner's")

	drive.Model = "N1"
	require.False(t, slices.ContainsFunc(list(policy), func(name string) bool {
		return name == "firmware_reflash" ||
			name == "verify_firmware"
	}))
}

func TestOnlyFirmwareCanBeMovedAndOnlyToPrepare(t *testing.T) {
	for says, phases := range map[string]map[string]clean.Phase{
		"zero cannot be moved; only firmware_reflash can":                 {"zero": clean.Prepare},
		"verify cannot be moved":                                          {"verify": clean.Restore},
		"polish cannot be moved":                                          {"polish": clean.Prepare},
		"verify_firmware cannot be moved":                                 {"verify_firmware": clean.Prepare},
		`firmware_reflash: "erase" is not prepare`:                        {"firmware_reflash": clean.Erase},
		`firmware_reflash: "restore" is not prepare, the only phase that`: {"firmware_reflash": clean.Restore},
	} {
		_, err := clean.NewPlanner(steps.All().Planning(), clean.Policy{Phases: phases})
		require.ErrorContains(t, err, "policy: phases: ")
		require.ErrorContains(t, err, says)
	}
}

func TestAPolicysListsChooseByPattern(t *testing.T) {
	s := clean.Subject{Type: "NODE", Vendor: "HPE", Model: "ProLiant DL360/G10",
		Traits: []string{"HW_NVME_CES", "CUSTOM_GOLD"}}
	for name, tt := range map[string]struct {
		match clean.Match
		want  bool
	}{
		"everything":      {clean.Match{}, true},
		"the type":        {clean.Match{Type: "node"}, true},
		"another type":    {clean.Match{Type: "NVME"}, false},
		"a slash":         {clean.Match{Model: "proliant*"}, true},
		"the whole model": {clean.Match{Model: "ProLiant DL360/G10"}, true},
		"another vendor":  {clean.Match{Vendor: "Dell*", Model: "*"}, false},
		"a trait":         {clean.Match{Trait: "CUSTOM_*"}, true},
		"another trait":   {clean.Match{Trait: "CUSTOM_SILVER"}, false},
	} {
		require.Equal(t, tt.want, tt.match.Matches(s), name)
		require.NoError(t, tt.match.Validate())
	}
	require.Error(t, clean.Match{Model: "["}.Validate())

	lists := clean.PolicyLists{
		BIOS: []clean.BIOSPolicy{
			{Settings: map[string]any{"BootMode": "Uefi", "Turbo": true}},
			{Match: clean.Match{Vendor: "HPE"}, Settings: map[string]any{"Turbo": false}},
			{Match: clean.Match{Vendor: "Dell"}, Settings: map[string]any{"BootMode": "Bios"}},
		},
		Firmware: []clean.FirmwarePolicy{
			{Match: clean.Match{Model: "Other"}, FirmwareImage: clean.FirmwareImage{Component: "BIOS", To: "0"}},
			{FirmwareImage: clean.FirmwareImage{Component: "BIOS", To: "1"}},
			{FirmwareImage: clean.FirmwareImage{Component: "BIOS", To: "2"}},
			{FirmwareImage: clean.FirmwareImage{Component: "BMC", To: "3"}},
		},
		Properties: []clean.PropertiesPolicy{{Match: clean.Match{Type: "NODE"}, Profile: device.Properties{CPUs: 2}},
			{Profile: device.Properties{CPUs: 1}}},
	}
	require.Equal(t, map[string]any{"BootMode": "Uefi", "Turbo": false}, lists.BIOSOf(s))
	require.Equal(t, []clean.FirmwareImage{{Component: "BIOS", To: "1"}, {Component: "BMC", To: "3"}}, lists.FirmwareOf(s))
	profile, ok := lists.PropertiesOf(s)
	require.True(t, ok)
	require.Equal(t, 2, profile.CPUs)
}

// What the policy has for a device stands in its plan, and a step that it does not ask for is
// not planned.
//
// S3.5
func TestAPlanHasTheArgumentsOfThePolicy(t *testing.T) {
	bios := step("bios", "bios", clean.Restore, 35)
	bios.FromPolicy = func(p clean.Policy, s clean.Subject) (any, bool) {
		settings := p.BIOSOf(s)
		return settings, len(settings) > 0
	}
	all := append(catalog(), bios)
	require.NotContains(t, full(t, all, clean.Policy{}), "bios")

	policy :=
		clean.Policy{PolicyLists: clean.PolicyLists{BIOS: []clean.BIOSPolicy{{Settings: map[string]any{"b": 1, "a": "x"}}}}}
	plan, fault := planner(t, all, policy).Full(subject(all))
	require.Nil(t, fault)
	require.Equal(t, "bios", plan[len(plan)-2].Step.Name)
	require.JSONEq(t, `{"a":"x","b":1}`, string(plan[len(plan)-2].Args))
	require.Nil(t, plan[0].Args)
	require.Empty(t, policy.WithoutLists().BIOS)
}
