package lifecycle

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"burnish/internal/device"
	"burnish/internal/proof"
	"burnish/internal/testkit/inventorysim"
	"burnish/workflows/contract"
)

// proves has the host of a scene sign what it does, and control workers ask for it.
func (s *scene) proves() *scene {
	s.Helper()
	dir := s.TempDir()
	key, err := proof.OpenHostKey(filepath.Join(dir, "host.key"))
	require.NoError(s, err)
	file := filepath.Join(dir, "host_keys.yaml")
	require.NoError(s, os.WriteFile(file, []byte("hosts:\n- name: h1\n  key: "+key.Public()+
		"\n  devices: [{name: d1, driver: testdriver, settings: {path: /dev/d1}}]\n"), 0o600))
	s.key = key
	s.gate, err = proof.OpenGate(file, proof.NewReceipts([]byte("of all control workers")), sceneSettings{s: s}.planner())
	require.NoError(s, err)
	return s
}

// A device that was cleaned since it was reserved, or that nobody could have since it was free, is offered as without
// proofs.
//
// F44
func TestWhatIsProvedIsOffered(t *testing.T) {
	for what, do := range map[string]func(s *scene){
		"after a tenant":  func(s *scene) { s.boundTo("i1").turnsOver("i1") },
		"after two":       func(s *scene) { s.boundTo("i1").turnsOver("i1"); s.boundTo("i2").turnsOver("i2") },
		"after a failure": func(s *scene) { s.boundTo("i1").failsToClean(); s.ok(contract.VerbClean, contract.CleanInput{}) },
		"out of maintenance": func(s *scene) {
			s.ok(contract.VerbMaintain, fan)
			s.rest()
			s.ok(contract.VerbMaintain, off)
		},
		"managed and provided": func(s *scene) {
			s.ok(contract.VerbManage, contract.TenantInput{})
			s.rest()
			s.ok(contract.VerbProvide, noInput)
		},
		"managed, cleaned and provided": func(s *scene) {
			s.boundTo("i1").failsToClean()
			s.ok(contract.VerbManage, contract.TenantInput{})
			s.rest()
			s.ok(contract.VerbProvide, noInput)
		},
		"its maintenance begins in its clean": func(s *scene) {
			s.boundTo("i1").released("i1")
			s.until("verify")
			s.ok(contract.VerbMaintain, fan)
			s.rest()
			s.ok(contract.VerbMaintain, off)
		},
		"planned again": func(s *scene) {
			s.boundTo("i1")
			s.ends["verify"] = func(Outcome) Outcome {
				delete(s.ends, "verify")
				return Outcome{Fault: refusing(device.Permanent, device.CodePlanOutdated)}
			}
			s.released("i1")
		},
		"asked again for its step": func(s *scene) {
			s.boundTo("i1")
			s.away = true
			s.released("i1")
			s.pass(time.Hour)
			s.away = false
		},
		"cleaned by steps, managed": func(s *scene) {
			s.ok(contract.VerbManage, contract.TenantInput{})
			s.ok(contract.VerbClean, only("verify"))
			s.rest()
			s.ok(contract.VerbProvide, noInput)
		},
		"its answer was lost": func(s *scene) {
			s.boundTo("i1")
			s.ends[contract.ActivityUnreserve] = func(Outcome) Outcome {
				delete(s.ends, contract.ActivityUnreserve)
				return Outcome{Fault: refusing(device.Transient, device.CodeInventoryUnavailable)}
			}
			s.released("i1")
		},
		"the write was lost": func(s *scene) {
			s.boundTo("i1")
			s.fails(contract.ActivityUnreserve, device.Transient, device.CodeInventoryUnavailable)
			s.released("i1")
			s.until(contract.ActivityUnreserve)
			s.next()
			delete(s.faults, contract.ActivityUnreserve)
		},
		"renewed between": func(s *scene) {
			s.boundTo("i1").released("i1")
			s.renewed()
		},
		"its host starts": func(s *scene) { s.hostStarts() },
		"terminated":      func(s *scene) { s.terminated() },
		"put back":        func(s *scene) { s.forgets(func() { s.boundTo("i1").turnsOver("i1") }) },
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t).proves().offers()
			s.offeredClean()
			do(s)
			s.returned()
			require.Empty(t, s.d.Statements, "they are not kept for an offered device")
		})
	}
}

// What no host has signed is not offered: an operator has it cleaned.
//
// F44
func TestWhatIsNotProvedIsAnOperators(t *testing.T) {
	for what, do := range map[string]func(s *scene){
		"a step without a statement": func(s *scene) {
			s.ends["verify"] = func(o Outcome) Outcome {
				o.Found.(*contract.StepAnswer).Statement = ""
				return o
			}
			s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
		},
		"the control workers have another key since": func(s *scene) {
			s.ends["verify"] = func(o Outcome) Outcome {
				s.gate.Receipts = proof.NewReceipts([]byte("another"))
				return o
			}
			s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
		},
		"the answer was lost when it left the offer": func(s *scene) {
			s.offers()
			lost := inventorysim.LostAnswer()
			s.inv.InjectFault = func(call string, after bool) (err error) {
				if call == "PutReserved" && after {
					err, lost = lost, nil
				}
				return err
			}
			s.ok(contract.VerbManage, contract.TenantInput{})
			s.rest()
			s.ok(contract.VerbProvide, noInput)
		},
		"the operator vouches": func(s *scene) {
			s.policy.OnEnroll, s.e.OperatorAssertsClean = false, true
			s.ok(contract.VerbEnroll, contract.EnrollInput{Enrollment: s.e, Provide: true})
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newScene(t).proves()
			do(s)
			s.kept(device.Error, device.CodeNotProved)
			delete(s.ends, "verify")
			s.ok(contract.VerbClean, contract.CleanInput{})
			s.returned()
		})
	}
}
