package proof_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean"
	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/proof"
)

const (
	provider = "0f6a1c52-8d3e-5b0a-9c41-2f7d3e9b6a10"
	name     = "h1_0000:3b:00.0"
)

var (
	free     = device.Inventory{Generation: 4, Total: 1}
	reserved = device.Inventory{Generation: 5, Total: 1, Reserved: 1}
	later    = device.Inventory{Generation: 6, Total: 1, Reserved: 1}
)

// operator is one who knows host h1, and control workers that ask its file.
type operator struct {
	*testing.T
	file  string
	gate  *proof.Gate
	host  proof.HostKey
	other proof.HostKey
}

func newOperator(t *testing.T, devices string) *operator {
	t.Helper()
	dir := t.TempDir()
	o := &operator{T: t, file: filepath.Join(dir, "host_keys.yaml")}
	var err error
	o.host, err = proof.OpenHostKey(filepath.Join(dir, "h1.key"))
	require.NoError(t, err)
	o.other, err = proof.OpenHostKey(filepath.Join(dir, "h2.key"))
	require.NoError(t, err)
	o.write("hosts:\n- name: h1\n  key: " + o.host.Public() + "\n" + devices +
		"- name: h2\n  key: " + o.other.Public() + "\n")
	o.gate, err = o.open()
	require.NoError(t, err)
	return o
}

func (o *operator) write(text string) {
	require.NoError(o, os.WriteFile(o.file, []byte(text), 0o644))
}

func (o *operator) open() (*proof.Gate, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // which never fails
	planner, err := clean.NewPlanner(steps.All().Planning(), policy)
	require.NoError(o, err)
	return proof.OpenGate(o.file, proof.NewReceipts(secret), planner)
}

// policy is the operator's; book is its runbook for devices of one type.
var (
	policy = clean.Policy{NVMe: clean.ErasePolicy{Action: clean.ActionSanitize},
		StepSettings: device.StepSettings{Verify: "full"}, PolicyLists: clean.PolicyLists{Runbooks: []clean.Runbook{book}}}
	book = clean.Runbook{Name: "slowly", Match: &clean.Match{Type: "PGPU"}, Steps: []clean.RunbookStep{
		{Step: "security_check"}, {Step: "wear_check"}, {Step: clean.StepWait, Args: json.RawMessage(`{"for":"1s"}`)},
		{Step: "sanitize"}, {Step: "verify"}}}
)

// found is what the host finds of the device.
func found() proof.Found {
	return proof.Found{Subject: clean.Subject{Name: name, Type: "NVME", NVMe: true, HostSteps: steps.All().Versions(),
		Capabilities: device.Capabilities{CryptoErase: true, BlockErase: true, WriteZeroes: true}}}
}

// numberOf is what the hosts get of a receipt.
func numberOf(receipt string) string {
	number, _, _ := strings.Cut(receipt, ".")
	return number
}

// clean are the statements of a clean under a receipt, changed by change.
func (o *operator) clean(key proof.HostKey, receipt string, change func(*proof.Statement)) (words []string) {
	for i, step := range []string{proof.Discovery, "security_check", "wear_check", "sanitize", "verify"} {
		s := proof.Statement{Host: "h1", Device: name, Driver: "nvme", Address: "0000:3b:00.0", Unit: "S1",
			Reservation: numberOf(receipt), Step: step, Seq: int64(i), Result: []byte(`{}`)}
		if step == proof.Discovery {
			text, err := json.Marshal(found())
			require.NoError(o, err)
			s.Result = text
		} else {
			s.Clean, s.Operation, s.Obeys = "run/1", device.CryptoErase, device.StepSettings{Verify: "full"}
		}
		change(&s)
		word, err := key.Sign(s)
		require.NoError(o, err)
		words = append(words, word)
	}
	return words
}

func asItIs(*proof.Statement) {}

// refused requires that the device is not offered, and for what reason.
func (o *operator) refused(code device.Code, says string, err error) {
	o.Helper()
	f, ok := device.AsFault(err)
	require.True(o, ok, "%v", err)
	require.Equal(o, code, f.Code)
	require.Contains(o, f.Message, says)
}

func TestADeviceIsOfferedWithTheStatementsOfItsHost(t *testing.T) {
	o := newOperator(t, "")
	receipt := o.gate.Give(name, provider, device.Inventory{Generation: 4, Total: 1, Reserved: 1, Used: 1}, reserved, "")
	require.NoError(t, o.gate.MayOffer(name, provider, 5, receipt, o.clean(o.host, receipt, asItIs)))

	second := o.gate.Give(name, provider, free, reserved, "")
	for says, of := range map[string]func() (receipt string, statements []string){
		"no host has said that it cleaned it": func() (string, []string) { return receipt, nil },
		"has no signature of host h1":         func() (string, []string) { return receipt, o.clean(o.other, receipt, asItIs) },
		"host h2 does not speak for it": func() (string, []string) {
			return receipt, o.clean(o.other, receipt, func(s *proof.Statement) { s.Host = "h2" })
		},
		"host h3 is not one of those": func() (string, []string) {
			return receipt, o.clean(o.other, receipt, func(s *proof.Statement) { s.Host = "h3" })
		},
		"was done before it was reserved": func() (string, []string) { return receipt, o.clean(o.host, second, asItIs) },
		"was done on h1_0000:3b:00.1": func() (string, []string) {
			return receipt, o.clean(o.host, receipt, func(s *proof.Statement) {
				s.Device, s.Address = "h1_0000:3b:00.1", "0000:3b:00.1"
			})
		},
		"as it is enrolled": func() (string, []string) { // another device under its name
			return receipt, o.clean(o.host, receipt, func(s *proof.Statement) { s.Address = "0000:3b:00.1" })
		},
		"does not speak for it, as it": func() (string, []string) {
			return receipt, o.clean(o.host, receipt, func(s *proof.Statement) {
				s.Driver, s.Settings = "block", map[string]string{"path": "/dev/sdx"}
			})
		},
		"of several cleans": func() (string, []string) {
			return receipt, o.clean(o.host, receipt, func(s *proof.Statement) { s.Clean += s.Step })
		},
		"or in another order": func() (string, []string) {
			return receipt, o.clean(o.host, receipt, func(s *proof.Statement) { s.Seq = 10 - s.Seq })
		},
		"cleans, hosts or units": func() (string, []string) {
			return receipt, o.clean(o.host, receipt, func(s *proof.Statement) { s.Unit += s.Step })
		},
		"does not speak for it, as": func() (string, []string) {
			return receipt, o.clean(o.host, receipt, func(s *proof.Statement) {
				s.Settings = map[string]string{"unallocated": "no"}
			})
		},
		"host h1 does not speak": func() (string, []string) { // by a program that may be meant for another model
			return receipt, o.clean(o.host, receipt, func(s *proof.Statement) { s.Driver = "script" })
		},
		"cannot be read": func() (string, []string) { return receipt, []string{"x.y"} },
	} {
		receipt, statements := of()
		o.refused(device.CodeNotProved, says, o.gate.MayOffer(name, provider, 5, receipt, statements))
	}
	word := o.clean(o.host, receipt, asItIs)
	text, _, _ := strings.Cut(word[0], ".")
	_, signature, _ := strings.Cut(word[1], ".")
	o.refused(device.CodeNotProved, "has no signature",
		o.gate.MayOffer(name, provider, 5, receipt, append([]string{text + "." + signature}, word[1:]...)))
}

// Whoever can write in the namespace plans what he likes: only what the policy plans for what the host found counts.
//
// F44
func TestADeviceIsOfferedAfterThePlanOfThePolicy(t *testing.T) {
	o := newOperator(t, "")
	receipt := o.gate.Give(name, provider, reserved, later, "")
	offer := func(words []string) error { return o.gate.MayOffer(name, provider, 6, receipt, words) }
	only := func(steps ...string) []string {
		words := o.clean(o.host, receipt, func(s *proof.Statement) {
			if !slices.Contains(steps, s.Step) {
				s.Step = ""
			}
		})
		return slices.DeleteFunc(words, func(word string) bool {
			return !slices.Contains(steps, o.stepOf(word))
		})
	}
	changed := func(step string, change func(*proof.Statement)) []string {
		return o.clean(o.host, receipt, func(s *proof.Statement) {
			if s.Step == step {
				change(s)
			}
		})
	}
	finds := func(change func(*proof.Found)) func(*proof.Statement) {
		return func(s *proof.Statement) {
			f := found()
			change(&f)
			text, err := json.Marshal(f)
			require.NoError(t, err)
			s.Result = text
		}
	}
	erasedBy := func(operation device.Operation) func(*proof.Statement) {
		return func(s *proof.Statement) {
			if s.Step != proof.Discovery {
				s.Operation = operation
			}
		}
	}
	for says, words := range map[string][]string{
		"what it found before it cleaned":  only("security_check", "wear_check", "sanitize", "verify"),
		"security_check was left out":      only(proof.Discovery, "wear_check", "sanitize", "verify"),
		"wear_check was left out":          only(proof.Discovery, "security_check", "sanitize", "verify"),
		"sanitize was left out":            only(proof.Discovery, "security_check", "wear_check", "verify"),
		"verify was left out":              only(proof.Discovery, "security_check", "wear_check", "sanitize"),
		"it plans none: nothing can erase": only(proof.Discovery),
		"zero is not a part of it": append(o.clean(o.host, receipt, asItIs), changed("verify", func(s *proof.Statement) {
			s.Step, s.Seq = "zero", 9
		})[4]),
		"verify was done by other settings": changed("verify", func(s *proof.Statement) { s.Obeys.Verify = "sample:1000" }),
		"wear_check was done by other settings": changed("wear_check", func(s *proof.Statement) {
			s.Obeys.Wear.PercentUsed = 250
		}),
		"sanitize was done with other arguments": changed("sanitize", func(s *proof.Statement) {
			s.Args = []byte(`{"a":1}`)
		}),
		"of several ways to erase it":           changed("verify", erasedBy(device.BlockErase)),
		`it was to be erased by "write_zeroes"`: o.clean(o.host, receipt, erasedBy(device.WriteZeroes)),
		`it was to be erased by "block_erase"`: o.clean(o.host, receipt, func(s *proof.Statement) {
			erasedBy(device.BlockErase)(s)
			if s.Step == proof.Discovery {
				finds(func(f *proof.Found) { f.Capabilities.BlockErase = false })(s)
			}
		}),
		"it was to be erased by": changed(proof.Discovery, finds(func(f *proof.Found) {
			f.ClearStrategy = "block"
		})),
		"what its host found cannot be":    changed(proof.Discovery, func(s *proof.Statement) { s.Result = []byte(`[]`) }),
		"it plans none: the host's worker": changed(proof.Discovery, finds(func(f *proof.Found) { f.HostSteps = nil })),
	} {
		o.refused(device.CodeNotProved, says, offer(words))
	}
	require.NoError(t, offer(o.clean(o.host, receipt, erasedBy(device.BlockErase))), "a way that the policy accepts")
	require.NoError(t, offer(changed(proof.Discovery, finds(func(f *proof.Found) { f.Type = "PGPU" }))),
		"a runbook's steps that no host carries out")
}

// stepOf is the step of a statement.
func (o *operator) stepOf(word string) string {
	text, _, _ := strings.Cut(word, ".")
	said, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(o, err)
	var s proof.Statement
	require.NoError(o, json.Unmarshal(said, &s))
	return s.Step
}

func TestAReceiptIsOfOneReservation(t *testing.T) {
	o := newOperator(t, "")
	dirty := device.Inventory{Generation: 4, Total: 1, Reserved: 1}
	receipt := o.gate.Give(name, provider, dirty, reserved, "")
	require.NotEqual(t, numberOf(receipt), numberOf(o.gate.Give(name, provider, dirty, reserved, "")),
		"it can be foreseen")
	stranger, err := o.open()
	require.NoError(t, err)
	another := o.gate.Give(name+"\n"+provider, "p2", dirty, reserved, "")
	for what, err := range map[string]error{
		"said to be of a later generation": o.gate.MayOffer(name, provider, 6, strings.Replace(receipt, ".5.", ".6.", 1),
			o.clean(o.host, receipt, asItIs)),
		"of another device":   o.gate.MayOffer("h1_0000:3b:00.1", provider, 5, receipt, o.clean(o.host, receipt, asItIs)),
		"of another provider": o.gate.MayOffer(name, "p2", 5, receipt, o.clean(o.host, receipt, asItIs)),
		"of nobody's":         stranger.MayOffer(name, provider, 5, receipt, o.clean(o.host, receipt, asItIs)),
		"said to be free":     o.gate.MayOffer(name, provider, 5, strings.Replace(receipt, "..", ".free.", 1), nil),
		"of a name that ends in a provider": o.gate.MayOffer(name, provider, 5, "p2\n"+another,
			o.clean(o.host, "p2\n"+another, asItIs)),
	} {
		f, _ := device.AsFault(err)
		require.NotNil(t, f, what)
		require.Equal(t, device.CodeNotProved, f.Code, what)
	}
	o.refused(device.CodeConflict, "written since",
		o.gate.MayOffer(name, provider, 6, receipt, o.clean(o.host, receipt, asItIs)))
	o.refused(device.CodeNotProved, "no host has said", o.gate.MayOffer(name, provider, 5, "", nil))
}

// What was proved under a reservation holds as long as the device stays reserved.
func TestAReceiptIsContinued(t *testing.T) {
	o := newOperator(t, "")
	dirty := device.Inventory{Generation: 4, Total: 1, Reserved: 1}
	first := o.gate.Give(name, provider, dirty, reserved, "")
	statements := o.clean(o.host, first, asItIs)
	again := o.gate.Give(name, provider, reserved, later, first)
	require.NoError(t, o.gate.MayOffer(name, provider, 6, again, statements))
	for what, before := range map[string]device.Inventory{
		"it was lowered":     {Generation: 5, Total: 1},
		"others wrote to it": {Generation: 7, Total: 1, Reserved: 1},
	} {
		now := before
		now.Generation, now.Reserved = before.Generation+1, 1
		other := o.gate.Give(name, provider, before, now, first)
		require.NotEqual(t, numberOf(first), numberOf(other), what)
	}
	for what, now := range map[string]device.Inventory{
		"in use":              {Generation: 6, Total: 1, Reserved: 1, Used: 1},
		"of an instance":      {Generation: 6, Total: 1, Reserved: 1, Record: device.RecordOf("i1")},
		"of no generation of": {Generation: 6, Total: 1, Reserved: 1, Used: 2},
	} {
		require.Empty(t, o.gate.Give(name, provider, reserved, now, first), what)
	}
}

// A device that was free, and that nobody could have since, is offered again without a clean.
func TestWhatWasFreeIsOfferedAgain(t *testing.T) {
	o := newOperator(t, "")
	receipt := o.gate.Give(name, provider, free, reserved, "")
	require.NoError(t, o.gate.MayOffer(name, provider, 5, receipt, nil))
	require.NoError(t, o.gate.MayOffer(name, provider, 6, o.gate.Give(name, provider, reserved, later, receipt), nil))
	for what, before := range map[string]device.Inventory{
		"reserved": {Generation: 4, Total: 1, Reserved: 1}, "in use": {Generation: 4, Total: 1, Used: 1},
		"of an instance": {Generation: 4, Total: 1, Record: device.RecordOf("i1")}, "nothing": {Generation: 4},
	} {
		err := o.gate.MayOffer(name, provider, 5, o.gate.Give(name, provider, before, reserved, ""), nil)
		require.Error(t, err, what)
	}
}

func TestAHostSpeaksForListedDevicesAsTheyAreEnrolled(t *testing.T) {
	o := newOperator(t, "  devices:\n  - {name: d1, driver: block, settings: {path: /dev/sdb}}\n")
	receipt := o.gate.Give("d1", provider, reserved, later, "")
	enrolled := func(s *proof.Statement) {
		s.Device, s.Driver, s.Address, s.Settings = "d1", "block", "", map[string]string{"path": "/dev/sdb"}
	}
	require.NoError(t, o.gate.MayOffer("d1", provider, 6, receipt, o.clean(o.host, receipt, enrolled)))
	for what, change := range map[string]func(*proof.Statement){
		"another disk":    func(s *proof.Statement) { s.Settings = map[string]string{"path": "/dev/sdc"} },
		"another driver":  func(s *proof.Statement) { s.Driver = "fake" },
		"another address": func(s *proof.Statement) { s.Address = "0000:3b:00.0" },
		"more settings":   func(s *proof.Statement) { s.Settings["rebind"] = "yes" },
	} {
		err := o.gate.MayOffer("d1", provider, 6, receipt,
			o.clean(o.host, receipt, func(s *proof.Statement) { enrolled(s); change(s) }))
		require.ErrorContains(t, err, "does not speak for it", what)
	}
}

// Otherwise it could be offered twice at once, and cleaned without its settings.
func TestAListedDeviceHasNoOtherName(t *testing.T) {
	o := newOperator(t, "  devices:\n  - {name: d1, driver: script, address: '0000:3b:00.0', settings: {script: gpu}}\n")
	receipt := o.gate.Give(name, provider, reserved, later, "")
	for says, change := range map[string]func(*proof.Statement){
		"h1 does not speak for it": asItIs,
		"does not speak for it, as it is enrolled": func(s *proof.Statement) {
			s.Driver, s.Settings = "script", map[string]string{"script": "gpu"}
		},
	} {
		o.refused(device.CodeNotProved, says,
			o.gate.MayOffer(name, provider, 6, receipt, o.clean(o.host, receipt, change)))
	}
}

func TestTheFileOfHostsKeysIsReadAgain(t *testing.T) {
	o := newOperator(t, "")
	receipt := o.gate.Give(name, provider, reserved, later, "")
	may := func() error { return o.gate.MayOffer(name, provider, 6, receipt, o.clean(o.host, receipt, asItIs)) }
	require.NoError(t, may())
	o.write("hosts:\n- {name: h1, key: " + o.other.Public() + "}\n")
	o.refused(device.CodeNotProved, "has no signature of host h1", may())
	require.NoError(t, os.Chmod(o.file, 0o666))
	o.refused(device.CodeInvalidConfig, "written by others", may())
	require.NoError(t, os.Chmod(o.file, 0o644))
	for says, text := range map[string]string{
		"line 2: a host has no name":            "hosts:\n- {key: " + o.host.Public() + "}\n",
		"line 2: h1: key is not one":            "hosts:\n- {name: h1, key: abc}\n",
		"line 3: h1: it is there twice":         "hosts:\n- &a {name: h1, key: " + o.host.Public() + "}\n",
		`unknown key "host"`:                    "host: []\n",
		"line 2: unknown key \"kex\" in a host": "hosts:\n- {name: h1, kex: a}\n",
	} {
		if strings.Contains(says, "twice") {
			text = strings.Replace(text, "&a ", "", 1) + strings.TrimPrefix(strings.Replace(text, "&a ", "", 1), "hosts:\n")
		}
		o.write(text)
		_, err := o.open()
		require.ErrorContains(t, err, says)
		f, _ := device.AsFault(may())
		require.Equal(t, device.CodeInvalidConfig, f.Code)
		require.Equal(t, device.Transient, f.Class, "it is tried again until the file is right")
	}
}

func TestTheKeyOfAHostIsMadeOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "host.key")
	first, err := proof.OpenHostKey(file)
	require.NoError(t, err)
	second, err := proof.OpenHostKey(file)
	require.NoError(t, err)
	require.Equal(t, first.Public(), second.Public())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Chmod(file, 0o644))
	_, err = proof.OpenHostKey(file)
	require.ErrorContains(t, err, "others")
	require.NoError(t, os.WriteFile(file, []byte("short\n"), 0o600))
	require.NoError(t, os.Chmod(file, 0o600))
	_, err = proof.OpenHostKey(file)
	require.ErrorContains(t, err, "is not one: move it away")
}
