package activities_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"burnish/activities"
	"burnish/internal/device"
	"burnish/internal/hardware"
	"burnish/internal/host"
	"burnish/workflows/contract"
)

func refusedWith(class device.Class, code device.Code, message string) error {
	return contract.Refuse(
		contract.Refusal{Fault: device.Fault{Class: class, Code: code, Message: message, Remedy: "do it"}})
}

// A new device is enrolled once, manageable, under the name made of host and address. A
// second scan that gets the digests of the first sends nothing.
//
// S0.2, S2.34, D14
func TestNewDevicesAreEnrolled(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	one := drive(2, "b")
	one.OneTimeUse, one.Address = true, strings.ToUpper("0000:0a:00.0")
	l.finder.sees(drive(1, "a"), one)
	out := l.must(contract.ScanInput{})
	ten := l.name(10)
	require.Equal(t, map[string]string{l.name(1): "a", ten: "b"}, out.NewDigests)
	require.Equal(t, contract.ScanCounts{Found: 2, Enrolled: 2}, out.Counts)
	slices.SortFunc(l.enrolled, func(a, b contract.EnrollInput) int {
		return strings.Compare(a.Enrollment.Name, b.Enrollment.Name)
	})
	by := contract.Caller{By: "worker of host " + l.fixture.host.Name()}
	require.Equal(t, []contract.EnrollInput{
		{Caller: by, Enrollment: contract.Enrollment{Name: l.name(1), Host: l.fixture.host.Name(), Driver: "nvme", Type: "NVME", Address: "0000:01:00.0", Owner: device.OwnerSelf}},
		{Caller: by, Enrollment: contract.Enrollment{Name: ten, Host: l.fixture.host.Name(), Driver: "nvme", Type: "NVME", Address: "0000:0a:00.0", Owner: device.OwnerSelf, OneTimeUse: true}},
	}, l.enrolled)
	l.sent()

	l.remembers(1, false)
	l.remembers(10, false)
	again := l.must(contract.ScanInput{KnownDigests: out.NewDigests})
	enrolled, hinted, asked := l.sent()
	require.Empty(t, enrolled)
	require.Empty(t, hinted)
	require.Empty(t, asked)
	require.Empty(t, again.NewDigests)
	require.Empty(t, again.RemovedDigests)
	require.Equal(t, contract.ScanCounts{Found: 2}, again.Counts)
}

// No device is no error.
//
// S2.4
func TestNoDeviceIsNoError(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	require.Equal(t, contract.ScanCounts{}, l.must(contract.ScanInput{}).Counts)
}

// A device that changed, or that no scan has reported yet, gets a hint and nothing else.
//
// F6
func TestAChangedDeviceIsHinted(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	for slot := 1; slot <= 3; slot++ {
		l.remembers(slot, false)
	}
	l.finder.sees(drive(1, "a"), drive(2, "changed"), drive(3, "c"))
	out := l.must(contract.ScanInput{KnownDigests: map[string]string{l.name(1): "a", l.name(2): "b"}})
	enrolled, hinted, _ := l.sent()
	require.Empty(t, enrolled)
	require.Equal(t, []string{l.name(2), l.name(3)}, hinted)
	require.Equal(t, map[string]string{l.name(2): "changed", l.name(3): "c"}, out.NewDigests)
	require.Equal(t, contract.ScanCounts{Found: 3, Hinted: 2}, out.Counts)
}

// A missing device gets one hint, and is reported for as long as it is missing. When it
// is back it gets another hint, whatever its digest.
//
// F6
func TestAMissingDeviceIsReportedAndHintedOnce(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.remembers(1, false)
	l.remembers(2, false)
	l.finder.sees(drive(1, "a"))
	out := l.must(contract.ScanInput{KnownDigests: map[string]string{l.name(1): "a", l.name(2): "b"}})
	_, hinted, _ := l.sent()
	require.Equal(t, []string{l.name(2)}, hinted)
	require.Equal(t, []string{l.name(2)}, out.Missing)
	require.Equal(t, []string{l.name(2)}, out.RemovedDigests)
	require.Equal(t, contract.ScanCounts{Found: 1, Hinted: 1, Missing: 1}, out.Counts)

	still := l.must(contract.ScanInput{KnownDigests: map[string]string{l.name(1): "a"}, Missing: out.Missing})
	_, hinted, _ = l.sent()
	require.Empty(t, hinted, "once")
	require.Equal(t, []string{l.name(2)}, still.Missing)

	l.finder.sees(drive(1, "a"), drive(2, "b"))
	back := l.must(contract.ScanInput{KnownDigests: map[string]string{l.name(1): "a"}, Missing: out.Missing})
	_, hinted, _ = l.sent()
	require.Equal(t, []string{l.name(2)}, hinted)
	require.Empty(t, back.Missing)
	require.Equal(t, map[string]string{l.name(2): "b"}, back.NewDigests)
}

// A driver does not enroll a device that is enrolled with another driver, until the
// operator has forgotten that device.
//
// S2.31
func TestADriverTakesNoDeviceFromAnother(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	held := host.Record{Name: l.name(1), Driver: "double", Address: "0000:01:00.0"}
	require.NoError(t, l.fixture.host.SaveRecord(held))
	l.finder.sees(drive(1, "a"), drive(2, "b"))
	out := l.must(contract.ScanInput{})
	enrolled, hinted, _ := l.sent()
	require.Equal(t, []string{l.name(2)}, enrolled, "a device of no other driver is enrolled")
	require.Empty(t, hinted)
	require.Equal(t,
		[]contract.RefusedDevice{{Name: l.name(1), Driver: "nvme", Digest: "a", Code: device.CodeInvalidConfig,
			Reason: "it is enrolled with the driver double; retire and forget it first, so that nvme can have it"}}, out.Refused)

	l.remembers(2, false)
	out = l.must(contract.ScanInput{KnownDigests: out.NewDigests, Refused: out.Refused})
	enrolled, hinted, _ = l.sent()
	require.Empty(t, enrolled)
	require.Empty(t, hinted)
	require.Len(t, out.Refused, 1)
	require.Equal(t, 1, strings.Count(l.fixture.log.String(), "is not enrolled"), "logged once")

	held.Forgotten = true
	require.NoError(t, l.fixture.host.SaveRecord(held))
	l.must(contract.ScanInput{KnownDigests: out.NewDigests, Refused: out.Refused, RetryRefused: true})
	enrolled, _, _ = l.sent()
	require.Equal(t, []string{l.name(1)}, enrolled)
}

// A device is never reported missing if its driver finds no devices, if it was forgotten,
// or if it has no address.
func TestDevicesThatAreNotMissing(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.remembers(1, true)
	require.NoError(t, l.fixture.host.SaveRecord(host.Record{Name: "d7", Driver: "double", Address: "0000:07:00.0"}))
	require.NoError(t, l.fixture.host.SaveRecord(host.Record{Name: "d8", Driver: "nvme"}))
	out := l.must(contract.ScanInput{})
	_, hinted, _ := l.sent()
	require.Empty(t, hinted)
	require.Empty(t, out.Missing)
}

// A refused enrollment is logged once and reported with its reason. It is tried again only
// when the device changed or the worker started.
//
// F15
func TestARefusedDeviceIsTriedOnce(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.finder.sees(drive(1, "a"), drive(2, "b"))
	l.answer = func(name string) (contract.Result, error) {
		if name == l.name(1) {
			return contract.Result{},
				refusedWith(device.NeedsOperator, device.CodeFilesystemSignature, "it holds\na file system")
		}
		return contract.Result{}, nil
	}
	out := l.must(contract.ScanInput{})
	want := []contract.RefusedDevice{{Name: l.name(1), Driver: "nvme", Digest: "a", Code: device.CodeFilesystemSignature,
		Reason: "it holds a file system; do it"}}
	require.Equal(t, want, out.Refused)
	require.Equal(t, contract.ScanCounts{Found: 2, Enrolled: 1, Refused: 1}, out.Counts)
	require.Equal(t, map[string]string{l.name(2): "b"}, out.NewDigests)
	require.Equal(t, 1, strings.Count(l.fixture.log.String(), "is not enrolled"))
	require.Contains(t, l.fixture.log.String(), l.name(1))
	l.sent()
	l.remembers(2, false)
	l.remembers(1, true) // as a refused enrollment leaves it

	same := l.must(contract.ScanInput{KnownDigests: out.NewDigests, Refused: out.Refused})
	enrolled, _, asked := l.sent()
	require.Empty(t, enrolled)
	require.Empty(t, asked)
	require.Equal(t, want, same.Refused)
	require.Equal(t, 1, strings.Count(l.fixture.log.String(), "is not enrolled"))

	l.must(contract.ScanInput{KnownDigests: out.NewDigests, Refused: out.Refused, RetryRefused: true})
	enrolled, _, _ = l.sent()
	require.Equal(t, []string{l.name(1)}, enrolled, "the worker started")

	l.finder.sees(drive(1, "other"), drive(2, "b"))
	l.answer = nil
	changed := l.must(contract.ScanInput{KnownDigests: out.NewDigests, Refused: out.Refused})
	enrolled, _, _ = l.sent()
	require.Equal(t, []string{l.name(1)}, enrolled, "it changed")
	require.Empty(t, changed.Refused)
	require.Equal(t, map[string]string{l.name(1): "other"}, changed.NewDigests)
}

// A device that an operator has enrolled since is no longer listed as refused.
//
// F15
func TestEnrolledByTheOperator(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.remembers(1, false)
	l.finder.sees(drive(1, "a"))
	out := l.must(contract.ScanInput{Refused: []contract.RefusedDevice{{Name: l.name(1), Digest: "a"}}})
	require.Empty(t, out.Refused)
}

// A device that an operator has forgotten is not enrolled again, and its workflow is
// described once. A device whose enrollment was refused is enrolled.
func TestForgottenDevicesAreLeftAlone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		ended   enumspb.WorkflowExecutionStatus
		enrolls bool
	}{
		{"forgotten", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, false},
		{"its enrollment was refused", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED, true},
		{"terminated", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, false},
		{"unknown", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newScanFixture(t)
			l.remembers(1, true)
			if c.ended != 0 {
				l.ended[l.name(1)] = c.ended
			}
			l.finder.sees(drive(1, "a"))
			out := l.must(contract.ScanInput{RetryRefused: true})
			enrolled, hinted, asked := l.sent()
			require.Equal(t, []string{l.name(1)}, asked)
			require.Empty(t, hinted)
			require.Equal(t, map[string]string{l.name(1): "a"}, out.NewDigests)
			if c.enrolls {
				require.Equal(t, []string{l.name(1)}, enrolled)
				return
			}
			require.Empty(t, enrolled)
			require.Equal(t, 1, out.Counts.Forgotten)
			again := l.must(contract.ScanInput{KnownDigests: out.NewDigests})
			_, _, asked = l.sent()
			require.Empty(t, asked)
			require.Equal(t, 1, again.Counts.Forgotten)
		})
	}
}

// When the worker starts, the scan checks again how the run of a forgotten device ended:
// an enrollment may have failed after its scan timed out, and a refused device may since
// have been enrolled and forgotten by the operator.
func TestAHostStartTriesRefusedDevicesAgain(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	for slot := 1; slot <= 2; slot++ {
		l.remembers(slot, true)
	}
	l.finder.sees(drive(1, "a"), drive(2, "b"))
	l.ended[l.name(1)] = enumspb.WORKFLOW_EXECUTION_STATUS_FAILED
	l.ended[l.name(2)] = enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED
	in := contract.ScanInput{
		KnownDigests: map[string]string{l.name(1): "a"},
		Refused:      []contract.RefusedDevice{{Name: l.name(2), Driver: "nvme", Digest: "b"}},
	}
	l.must(in)
	enrolled, _, asked := l.sent()
	require.Empty(t, enrolled)
	require.Empty(t, asked)
	in.RetryRefused = true
	out := l.must(in)
	enrolled, _, _ = l.sent()
	require.Equal(t, []string{l.name(1)}, enrolled)
	require.Empty(t, out.Refused)
	require.Equal(t, 1, out.Counts.Forgotten)
}

// Two drivers that find one device: nothing is enrolled, hinted or asked, and
// the error names both and the address.
//
// S2.30
func TestTwoDriversOneDevice(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.remembers(3, false)
	l.Drivers["other"] = &finder{there: []hardware.Found{drive(2, "x")}}
	l.finder.sees(drive(1, "a"), drive(2, "b"))
	_, err := l.scan(contract.ScanInput{})
	r, ok := contract.RefusalOf(err)
	require.True(t, ok)
	require.Equal(t, device.CodeInvalidConfig, r.Fault.Code)
	for _, want := range []string{"InvalidConfiguration", "nvme", "other", "0000:02:00.0"} {
		require.Contains(t, r.Fault.Message, want)
	}
	require.NotContains(t, r.Fault.Error(), "\n")
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.True(t, app.NonRetryable())
	enrolled, hinted, _ := l.sent()
	require.Empty(t, enrolled)
	require.Empty(t, hinted)

	require.ErrorContains(t,
		activities.CheckUnambiguous([]activities.FoundDevice{{Driver: "nvme", Found: drive(1, "a")},
			{Driver: "nvme", Found: drive(1, "b")}}), "two devices")
	require.NoError(t,
		activities.CheckUnambiguous([]activities.FoundDevice{{Driver: "nvme", Found: drive(1, "a")},
			{Driver: "other", Found: drive(2, "a")}}))
}

// A transient failure fails the attempt after everything else was done; the next attempt does only the
// rest: no device is enrolled, refused, looked at or reported as missing again.
func TestARetriedScanContinues(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.remembers(4, false)
	l.remembers(5, false)
	l.finder.sees(drive(1, "a"), drive(2, "b"), drive(3, "c"))
	fails := true
	l.answer = func(name string) (contract.Result, error) {
		switch {
		case name == l.name(1) && fails:
			return contract.Result{}, refusedWith(device.Transient, device.CodeInventoryUnavailable, "no\ninventory")
		case name == l.name(2):
			return contract.Result{}, refusedWith(device.NeedsOperator, device.CodePolicyUnsatisfied, "no")
		}
		return contract.Result{}, nil
	}
	in := contract.ScanInput{KnownDigests: map[string]string{l.name(5): "e"}, RetryRefused: true,
		Refused: []contract.RefusedDevice{{Name: l.name(2), Driver: "nvme", Digest: "b"}}}
	_, err := l.scan(in)
	require.ErrorContains(t, err, "no inventory")
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.False(t, app.NonRetryable())
	enrolled, hinted, _ := l.sent()
	require.Len(t, enrolled, 3)
	require.Equal(t, []string{l.name(4), l.name(5)}, hinted)

	l.remembers(3, false)
	l.remembers(2, true)
	l.finder.sees(drive(1, "a"), drive(2, "b"), drive(3, "c"), drive(5, "e"))
	_, err = l.scan(in)
	require.ErrorContains(t, err, "no inventory")
	enrolled, hinted, _ = l.sent()
	require.Equal(t, []string{l.name(1)}, enrolled)
	require.Equal(t, []string{l.name(5)}, hinted, "it was gone, and is back")

	fails = false
	l.finder.sees(drive(1, "a"), drive(2, "b"), drive(5, "e"))
	out := l.must(in)
	enrolled, hinted, _ = l.sent()
	require.Equal(t, []string{l.name(1)}, enrolled)
	require.Equal(t, []string{l.name(3)}, hinted, "it is gone")
	require.Equal(t, map[string]string{l.name(1): "a", l.name(5): "e"}, out.NewDigests)
	require.Contains(t, out.RemovedDigests, l.name(3))
	require.Equal(t, []string{l.name(3), l.name(4)}, out.Missing)
	require.Equal(t, contract.ScanCounts{Found: 3, Enrolled: 2, Hinted: 4, Refused: 1, Missing: 2}, out.Counts)
	require.Equal(t, device.CodePolicyUnsatisfied, out.Refused[0].Code)
}

// A hint that fails fails the scan; a device without a workflow needs none: the next host start reports it
// to a new one.
func TestAHintThatFails(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.remembers(1, false)
	l.hintError = serviceerror.NewUnavailable("away")
	_, err := l.scan(contract.ScanInput{})
	require.ErrorContains(t, err, "away")
	l.hintError = serviceerror.NewNotFound("no workflow")
	require.Equal(t, []string{l.name(1)}, l.must(contract.ScanInput{}).Missing)
}

// A workflow that knows a device that the host does not know gets a hint to discover it.
func TestADeviceThatOnlyItsWorkflowKnowsIsHinted(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.finder.sees(drive(1, "a"))
	l.answer = func(string) (contract.Result, error) { return contract.Result{Already: true}, nil }
	out := l.must(contract.ScanInput{})
	_, hinted, _ := l.sent()
	require.Equal(t, []string{l.name(1)}, hinted)
	require.Equal(t, contract.ScanCounts{Found: 1, Hinted: 1}, out.Counts)
}

// An address that makes no valid name is refused; other devices are enrolled.
func TestAnInvalidAddressIsRefused(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.finder.sees(hardware.Found{Address: "10000:01:00.0", Digest: "x"}, drive(1, "a"))
	out := l.must(contract.ScanInput{})
	require.Equal(t, 1, out.Counts.Enrolled)
	require.Equal(t, device.CodeInvalid, out.Refused[0].Code)
}

func TestAScanFailsWithItsFinder(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.finder.err = errors.New("no sysfs")
	_, err := l.scan(contract.ScanInput{})
	require.ErrorContains(t, err, "the driver nvme: no sysfs")
	in := contract.ScanInput{Host: "elsewhere"}
	l.finder.err = nil
	_, err = execute[any](first(t), contract.ActivityScanHost, l.ScanHost, in)
	require.ErrorContains(t, err, "not elsewhere")
}

// A drive that another driver has enrolled is refused: a second enrollment would report
// its serial as a duplicate.
//
// F23
func TestASerialOfAnotherDriversDeviceIsRefused(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	require.NoError(t,
		l.fixture.host.SaveRecord(host.Record{Name: "disk7", Driver: "block", Identity: device.Identity{Serial: "S_7"}}))
	require.NoError(t,
		l.fixture.host.SaveRecord(host.Record{Name: "gone", Driver: "block", Identity: device.Identity{Serial: "S8"},
			Forgotten: true}))
	seven, eight := drive(1, "a"), drive(2, "b")
	seven.Serial, eight.Serial = "S 7", "S8"
	l.finder.sees(seven, eight)
	out := l.must(contract.ScanInput{})
	enrolled, hinted, _ := l.sent()
	require.Equal(t, []string{l.name(2)}, enrolled)
	require.Empty(t, hinted)
	require.Equal(t, device.CodeDuplicateSerial, out.Refused[0].Code)
	require.Contains(t, out.Refused[0].Reason, "is enrolled as disk7 already")
}

// The enrollment of a drive in use is tried again only when the drive changes.
func TestADriveInUseIsTriedWhenItChanges(t *testing.T) {
	t.Parallel()
	l := newScanFixture(t)
	l.finder.sees(drive(1, "a guest's"))
	l.answer = func(string) (contract.Result, error) {
		return contract.Result{}, refusedWith(device.Transient, device.CodeTargetBusy, "a guest has it")
	}
	out := l.must(contract.ScanInput{})
	require.Equal(t, device.CodeTargetBusy, out.Refused[0].Code)
	l.sent()
	again := l.must(contract.ScanInput{Refused: out.Refused})
	enrolled, _, _ := l.sent()
	require.Empty(t, enrolled)
	l.finder.sees(drive(1, "the host's"))
	l.answer = func(string) (contract.Result, error) { return contract.Result{}, nil }
	require.Equal(t, 1, l.must(contract.ScanInput{Refused: again.Refused}).Counts.Enrolled)
}
