package steps_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"burnish/internal/clean/steps"
	"burnish/internal/device"
	"burnish/internal/hardware"
)

// nvmeDrive is an NVMe drive with real bytes in two namespaces. A sanitize is done at the second
// read of its log.
type nvmeDrive struct {
	data  []byte
	log   hardware.Sanitize
	calls []string
	polls int
	// failAt is the call that fails with errInjected, from 1; 0: none.
	failAt int
	// erase is what a sanitize does to data; nil: it sets every byte.
	erase func(d *nvmeDrive)
	// restricted: until a sanitize is done, it takes no writes and its blocks cannot be read.
	restricted bool
	// readOnly: it takes no writes at all. forgets: reads never give what was written.
	readOnly, forgets bool
	written           map[int64][]byte
	// onRead, if set, comes before each read.
	onRead func()
}

const driveSize = 1 << 20

func newDrive(tenant byte) *nvmeDrive {
	return &nvmeDrive{data: bytes.Repeat([]byte{tenant}, driveSize), written: map[int64][]byte{}}
}

func (d *nvmeDrive) call(format string, args ...any) error {
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
	if len(d.calls) == d.failAt {
		return errInjected
	}
	return nil
}

func (d *nvmeDrive) Size() int64             { return int64(len(d.data)) }
func (d *nvmeDrive) NamespaceSizes() []int64 { return []int64{driveSize / 4, driveSize / 4 * 3} }
func (d *nvmeDrive) Method() string          { return "drive" }
func (d *nvmeDrive) Close() error            { return nil }

func (d *nvmeDrive) Flush(context.Context) error { return d.call("flush") }
func (d *nvmeDrive) Check(context.Context) error { return d.call("check") }

func (d *nvmeDrive) ZeroAt(context.Context, int64, int64) error {
	return errors.New("not to be zeroed")
}

func (d *nvmeDrive) ReadAt(p []byte, at int64) (int, error) {
	if d.onRead != nil {
		d.onRead()
	}
	if d.restricted {
		return 0, io.ErrUnexpectedEOF
	}
	if d.forgets {
		return len(p), nil
	}
	return copy(p, d.data[at:]), nil
}

func (d *nvmeDrive) WriteEvidence(_ context.Context, p []byte, at int64) error {
	if err := d.call("write %d", at); err != nil {
		return err
	}
	if d.restricted || d.readOnly {
		return &device.Fault{Code: device.CodeIO, Message: "it takes no writes"}
	}
	copy(d.data[at:], p)
	d.written[at] = bytes.Clone(p)
	d.log.GlobalErased = false
	return nil
}

func (d *nvmeDrive) Sanitize(context.Context) (hardware.Sanitize, error) {
	if err := d.call("log"); err != nil {
		return hardware.Sanitize{}, err
	}
	if d.log.State == hardware.SanitizeRunning {
		if d.polls++; d.polls > 1 {
			d.log.State, d.log.GlobalErased, d.restricted = hardware.SanitizeDone, true, false
			if d.erase == nil {
				for i := range d.data {
					d.data[i] = 0xee
				}
			} else {
				d.erase(d)
			}
		}
	}
	return d.log, nil
}

func (d *nvmeDrive) CanSanitize() bool { return true }

func (d *nvmeDrive) SanitizeCommand(device.Operation) (uint32, error) { return 4, nil }

func (d *nvmeDrive) StartSanitize(context.Context, device.Operation) error {
	if err := d.call("start"); err != nil {
		return err
	}
	d.log = hardware.Sanitize{State: hardware.SanitizeRunning, Command: 4}
	d.polls = 0
	return nil
}

func (d *nvmeDrive) ExitMediaVerification(context.Context) error { return nil }

// lies: a sanitize that says it is done, and erases nothing.
func lies(*nvmeDrive) {}

// sanitizing is one clean of a drive by its sanitize. The evidence survives its attempts.
type sanitizing struct {
	*nvmeDrive
	evidence map[string]json.RawMessage
	done     map[string]steps.Outcome
}

func sanitizes(d *nvmeDrive) *sanitizing {
	return &sanitizing{nvmeDrive: d, evidence: map[string]json.RawMessage{}, done: map[string]steps.Outcome{}}
}

func (s *sanitizing) run(t *testing.T, all ...steps.Step) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { err = s.runNow(t.Context(), all) })
	return err
}

func (s *sanitizing) runNow(ctx context.Context, all []steps.Step) error {
	for _, step := range all {
		out, err := step.Run(ctx, &steps.Work{
			Device: s.nvmeDrive, Operation: device.CryptoErase, Enrolled: device.Identity{Size: driveSize},
			SaveEvidence: func(name string, value any) error {
				text, err := json.Marshal(value)
				if err == nil {
					err = s.call("save")
				}
				s.evidence[name] = text
				return err
			},
			LoadEvidence: func(name string, into any) (bool, error) {
				text, ok := s.evidence[name]
				if !ok {
					return false, nil
				}
				return true, json.Unmarshal(text, into)
			},
			Record: func(int64) error { return s.call("checkpoint") },
		})
		if err != nil {
			return err
		}
		s.done[step.Name] = out
	}
	return nil
}

func (s *sanitizing) started() (n int) {
	for _, call := range s.calls {
		if call == "start" {
			n++
		}
	}
	return n
}

func requireVerifyFailed(t *testing.T, err error, says string) {
	t.Helper()
	f, ok := device.AsFault(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, device.CodeVerifyFailed, f.Code, f.Message)
	require.Equal(t, device.NeedsOperator, f.Class)
	require.Contains(t, f.Message, says)
	require.NotEmpty(t, f.Remedy)
}

// A drive that erases nothing is found out whatever the tenant left on it: nothing, constant
// data, or a drive that takes no writes until a sanitize succeeded.
//
// F33, F19
func TestADriveThatErasesNothingIsFoundOut(t *testing.T) {
	for name, prepare := range map[string]func(d *nvmeDrive){
		"sparse":                func(d *nvmeDrive) { clear(d.data); copy(d.data[5<<15+777:], "secret") },
		"constant":              func(*nvmeDrive) {},
		"after a failed one":    func(d *nvmeDrive) { d.restricted, d.log.State = true, hardware.SanitizeFailed },
		"while a tenant's runs": func(d *nvmeDrive) { d.log = hardware.Sanitize{State: hardware.SanitizeRunning, Command: 4} },
	} {
		t.Run(name, func(t *testing.T) {
			s := sanitizes(newDrive(0x55))
			prepare(s.nvmeDrive)
			s.erase = lies
			requireVerifyFailed(t, s.run(t, steps.Sanitize(), steps.Verify()), "is still there")
			require.Positive(t, s.started())

			// One that erases passes, and the record says by how many blocks that was proved.
			s = sanitizes(newDrive(0x55))
			prepare(s.nvmeDrive)
			require.NoError(t, s.run(t, steps.Sanitize(), steps.Verify()))
			require.Contains(t, s.done["sanitize"].Note,
				"command 0x4, global data erased; 128 of 128 planted blocks changed, 0 unreadable; 0 could not be planted")
			require.Contains(t, s.done["verify"].Note, "128 of 128 planted blocks changed")
			for _, at := range []int64{0, driveSize/4 - 4096, driveSize / 4, driveSize - 4096} {
				require.NotNil(t, s.written[at], "the first and the last block of each namespace: %d", at)
			}
			require.Equal(t, "check", s.calls[len(s.calls)-1])
		})
	}
}

// A drive that erases only what was written last is found out by what the tenant left.
//
// F19
func TestATenantsBlocksMustChangeToo(t *testing.T) {
	s := sanitizes(newDrive(0))
	for i := range s.data {
		s.data[i] = byte(i >> 9)
	}
	s.erase = func(d *nvmeDrive) {
		for at, p := range d.written {
			clear(d.data[at : at+int64(len(p))])
		}
	}
	requireVerifyFailed(t, s.run(t, steps.Sanitize()), "reads the same as before")
}

// A drive on which nothing can be planted is sanitized, and is not proved.
//
// F33
func TestWithoutPlantedDataNothingIsProved(t *testing.T) {
	for name, prepare := range map[string]func(d *nvmeDrive){
		"it takes no writes":        func(d *nvmeDrive) { d.readOnly = true },
		"it gives back other data":  func(d *nvmeDrive) { d.forgets = true },
		"after a failed one, never": func(d *nvmeDrive) { d.readOnly, d.restricted, d.log.State = true, true, hardware.SanitizeFailed },
	} {
		t.Run(name, func(t *testing.T) {
			s := sanitizes(newDrive(0x55))
			prepare(s.nvmeDrive)
			for range 2 { // an operator's next clean proves no more
				requireVerifyFailed(t, s.run(t, steps.Sanitize(), steps.Verify()), "no known data could be written")
			}
			require.Positive(t, s.started())
			require.NotContains(t, s.done, "sanitize")
			requireVerifyFailed(t, s.run(t, steps.Verify()), "no record")
		})
	}
}

// A step that is interrupted at any call, and continued, never lets a drive pass that erases
// nothing, and always one that erases. A sanitize that was started after its evidence was
// saved is followed and not started again.
//
// F33, F18
func TestPlantedDataSurvivesACrashAtAnyPoint(t *testing.T) {
	prepare := func(erase func(*nvmeDrive), restricted bool) *sanitizing {
		s := sanitizes(newDrive(0x55))
		s.erase = erase
		if restricted {
			s.restricted, s.log.State = true, hardware.SanitizeFailed
		}
		return s
	}
	for _, restricted := range []bool{false, true} {
		whole := prepare(nil, restricted)
		require.NoError(t, whole.run(t, steps.Sanitize()))
		for at, call := range whole.calls {
			if strings.HasPrefix(call, "write") && at > 0 && strings.HasPrefix(whole.calls[at-1], "write") && at%16 != 0 {
				continue // one of many
			}
			for _, erase := range []func(*nvmeDrive){nil, lies} {
				s := prepare(erase, restricted)
				s.failAt = at + 1
				err := s.run(t, steps.Sanitize())
				if erase != nil && !errors.Is(err, errInjected) {
					requireVerifyFailed(t, err, "is still there")
					continue
				}
				require.ErrorIs(t, err, errInjected)
				before := s.started()
				ran := s.log.State == hardware.SanitizeRunning
				s.failAt = 0
				err = s.run(t, steps.Sanitize(), steps.Verify())
				if erase != nil {
					requireVerifyFailed(t, err, "is still there")
					continue
				}
				require.NoError(t, err, "interrupted at call %d, %s", at+1, s.calls[at])
				require.Zero(t, bytes.Count(s.data, []byte{0x55}))
				if ran && !restricted {
					require.Equal(t, before, s.started(), "it was followed")
				}
			}
		}
	}
}

// foreign is somebody else who writes to the whole drive.
func (d *nvmeDrive) foreign() {
	for i := range d.data {
		d.data[i] = 0x99
	}
	d.log.GlobalErased = false
}

// The hold of a sanitize that erases nothing ends once it was started, and somebody else writes over
// all that was planted before it is held again. That those blocks changed proves nothing: more is
// planted, and sanitized again.
//
// F37, F33
func TestWhatWasPlantedIsNoProofOnceSomebodyElseHasWritten(t *testing.T) {
	for name, calls := range map[string]int{"just started": 1, "running": 2} {
		t.Run(name, func(t *testing.T) {
			s := sanitizes(newDrive(0x55))
			s.erase = lies
			whole := sanitizes(newDrive(0x55))
			require.NoError(t, whole.run(t, steps.Sanitize()))
			s.failAt = slices.Index(whole.calls, "start") + 1 + calls
			require.ErrorIs(t, s.run(t, steps.Sanitize()), errInjected)
			s.failAt, s.log.State = 0, hardware.SanitizeDone
			s.foreign()
			requireVerifyFailed(t, s.run(t, steps.Sanitize()), "is still there")
			require.Equal(t, 2, s.started())
		})
	}
}

// A verify of a sanitized drive reads all of its evidence in one hold, whatever an earlier one read,
// and refuses a drive that somebody else wrote to before its end.
//
// F37, F18
func TestAVerifyOfASanitizeHoldsToItsEnd(t *testing.T) {
	s := sanitizes(newDrive(0x55))
	require.NoError(t, s.run(t, steps.Sanitize(), steps.Verify()))
	want := s.done["verify"].Held
	require.EqualValues(t, 2*64*4096, want, "all that was planted; the tenant's blocks are constant")
	require.Contains(t, s.done["verify"].Note, fmt.Sprintf("%d bytes read under one hold", want))
	for _, failAt := range []int{1, 2, 3} { // the log, the log after the last read, the resume point
		again := len(s.calls) + failAt
		s.failAt = again
		require.ErrorIs(t, s.run(t, steps.Verify()), errInjected)
		s.failAt = 0
		require.NoError(t, s.run(t, steps.Verify()))
		require.Equal(t, want, s.done["verify"].Held)
	}
	read := 0
	s.onRead = func() {
		if read++; read == 3 { // behind what it has compared
			s.foreign()
		}
	}
	requireVerifyFailed(t, s.run(t, steps.Verify()), "written to since its sanitize")
}

// A first sanitize erased the data, and its log does not count. A second one that erases nothing
// is not proved by what the first one did.
//
// F33
func TestDataIsPlantedBeforeEachSanitize(t *testing.T) {
	s := sanitizes(newDrive(0x55))
	s.erase = func(d *nvmeDrive) {
		if s.started() == 1 {
			for i := range d.data[driveSize/2:] { // an erase that stopped
				d.data[driveSize/2+i] = 0xee
			}
			for at, p := range d.written {
				clear(d.data[at : at+int64(len(p))])
			}
			d.log.GlobalErased = false
		}
	}
	requireVerifyFailed(t, s.run(t, steps.Sanitize()), "is still there")
	require.Equal(t, 2, s.started())
	require.Positive(t, bytes.Count(s.data, []byte{0x55}))
}

// What is planted is flushed and recorded before the sanitize, and the drive is proved to be the
// enrolled one once more after it.
//
// F11, F12, F33
func TestASanitizedDriveIsCheckedAgain(t *testing.T) {
	s := sanitizes(newDrive(0x55))
	require.NoError(t, s.run(t, steps.Sanitize()))
	require.Equal(t, []string{"save", "check"}, s.calls[len(s.calls)-2:])
	start := slices.Index(s.calls, "start")
	require.Equal(t, []string{"flush", "log", "save", "checkpoint"}, s.calls[start-4:start])
	require.Equal(t, fmt.Sprintf("write %d", driveSize-4096), s.calls[start-5])
}
